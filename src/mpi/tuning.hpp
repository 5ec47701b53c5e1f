// SPDX-License-Identifier: Apache-2.0
// quarry-mpirun --tune: short runs of a program choose how its ranks are placed on a GPU.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi_tuning {

/// How ranks are placed: values of --ranks-per-warp and --registers; 0: the launcher's choice.
struct placement {
  unsigned ranks_per_warp = 0;
  unsigned registers = 0;
};

/// What a short run reports to its parent (short_run.hpp).
struct outcome {
  bool exists = false;      // the program ran on a GPU and has not failed
  bool is_refused = false;  // the program does not start: the launcher refuses it, or it is missing
  bool is_done = false;     // the program has ended; else it was stopped
  double seconds = 0;       // of the ranks, without the start
  double steps = 0;         // how often the ranks got what they waited for
};

/// Whether `other` is clearly better than `best`: a program that ends beats one that was stopped,
/// then less time decides, or more steps a second. Differences below 3 % are noise.
[[nodiscard]] bool is_better(outcome const& other, outcome const& best);

/// All placements to try, the launcher's choice first. A value that is not 0 stays fixed.
[[nodiscard]] std::vector<placement> placements(placement const& fixed);

/// What a file keeps about one command on one host.
class tuning_file {
 public:
  /// `command`: the program and its arguments. The entry is for this host and folder, these options
  /// of quarry-mpirun, and this state of the program's file.
  tuning_file(std::string path, std::vector<std::string> const& command);
  /// Reads the entry to `found`. Returns whether there is one. The last one counts.
  [[nodiscard]] bool find(placement& found) const;
  /// Whether entries can be added; else the reason is in errno. Makes the file.
  [[nodiscard]] bool is_writable() const;
  /// Adds an entry. Returns false, with the reason in errno, if the file cannot be written.
  [[nodiscard]] bool add(placement const& chosen) const;

 private:
  std::string path_, key_;
};

/// Chooses the placement of `command` by the file of --tune, or by short runs, and puts it into the
/// environment for the run that follows. If the program refuses to start or fails in all short
/// runs, that run shows why. Returns the exit status if the file cannot be written, else 0.
[[nodiscard]] int tune(std::string const& file, std::vector<std::string> const& command);

}  // namespace quarry::inline QUARRY_ABI::mpi_tuning

// SPDX-License-Identifier: Apache-2.0
// The memory of a program whose ranks run on the CPU.
#pragma once

#include "rank.hpp"

#include "quarry/device/heap.hpp"

#include <memory>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// A world of ranks that run on the CPU, as fibers or threads. It is the world that `the_world()`
/// returns, so that only one exists at a time.
class cpu_world {
 public:
  /// What the ranks of the program need. `heap` and `record` are sizes in bytes.
  struct needs {
    std::uint32_t ranks = 1;
    bytes heap = 0;    // 0: a default
    bytes record = 0;  // of one rank's global variables
    int argc = 0;
    char** argv = nullptr;
    std::uint32_t block_ranks = 256;  // ranks that meet before blocks meet: a power of two
    bool joins_lanes = false;         // ranks that arrive together at a meeting arrive as one
    std::uint32_t threads = 1;        // that run ranks, by the numbers of their `lane_part`s
    // Of a program of several processes: `ranks` are those of this one.
    std::uint32_t all_ranks = 0;  // 0: `ranks`
    std::uint32_t processes = 1;
    std::uint32_t process = 0;
    std::string meeting_file = {};
    std::uint64_t seed = 0;  // of the order in which words arrive; 0: in their order

    [[nodiscard]] std::uint32_t world_ranks() const { return all_ranks != 0 ? all_ranks : ranks; }
    /// The ranks of each process but the last.
    [[nodiscard]] std::uint32_t ranks_each() const {
      return (world_ranks() + processes - 1) / processes;
    }
  };

  explicit cpu_world(needs const& wanted);
  cpu_world(cpu_world const&) = delete;
  ~cpu_world();

  /// Runs the rank whose lane calls it. Lanes without a rank return at once.
  void run_own_rank();

  /// Whether each rank has ended or has found nothing since `activity` was the world's activity.
  /// Then no rank can continue.
  ///
  /// This is exact although ranks run on several threads. A rank counts what it does for others (X)
  /// before it looks for itself. It reads the counts (Y) before the look in which it finds nothing,
  /// so it finds whatever was counted then, and says so (P). Suppose that all ranks have said so
  /// (Q) for one activity, and a rank continues nevertheless. It has found something that was not
  /// counted then. The first to do such a thing had found nothing either, or had not said so: a
  /// contradiction. The activity is a sum of counters that are read one after another, so equal
  /// sums could come from different counts. But the sum that is read last, here, is at least that
  /// of the largest counts seen by any rank. If it is equal to each rank's sum, all have seen the
  /// same counts.
  [[nodiscard]] bool is_stuck(std::uint64_t activity) const;

  /// The exit status of the program. Throws `bad_argument` if the heap was too small to begin.
  [[nodiscard]] int status() const;

  [[nodiscard]] world& state() { return all_; }
  [[nodiscard]] heap const& memory() const { return memory_; }
  [[nodiscard]] std::vector<rank_state> const& ranks() const { return ranks_; }

 private:
  bytes heap_bytes_;
  heap memory_;
  std::unique_ptr<char, void (*)(void*)> records_;
  std::vector<rank_state> ranks_;
  std::uint32_t extension_units_;
  struct mail_memory;
  std::unique_ptr<mail_memory> mail_;
  std::vector<early_end> ends_;
  std::vector<activity_counter> activity_;
  struct meeting_memory;
  std::unique_ptr<meeting_memory> meeting_;
  refused_memory refused_{};
  world all_{};
};

}  // namespace quarry::inline QUARRY_ABI::mpi

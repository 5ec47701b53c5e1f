// SPDX-License-Identifier: Apache-2.0
// CPU: the memory of a process that other processes write, in a file that all of them map.
#pragma once

#include "ways.hpp"

#include "quarry/core/errors.hpp"

#include <cstdint>
#include <string>

namespace quarry::inline QUARRY_ABI::mpi {

/// The symmetric memory of a program of several processes: each has as many bytes of it, zero at
/// first, with the same contents at the same places. It stands for memory that no other process can
/// address: a process maps its own part for its ranks, and the parts of the others only for
/// `quarry_mpi_put` and `quarry_mpi_fetch_add`. Each process maps its own part at an address that
/// the others do not use, so that an address of another process is invalid.
///
/// With a seed, words that a thread puts are delivered late and out of order, as a network may do.
class process_memory {
 public:
  /// `file`: process 0 makes it, and the others wait for it, at most a minute. Throws bad_argument
  /// if it does not come or is of another program. A single process needs no file.
  process_memory(std::string const& file, std::uint32_t own, std::uint32_t count,
                 std::uint64_t size, std::uint64_t seed);
  process_memory(process_memory const&) = delete;
  ~process_memory();

  [[nodiscard]] char* own() const { return own_; }
  /// Whether words that ranks of this process have put are under way.
  [[nodiscard]] static bool has_late_words();

 private:
  std::uint64_t all_bytes_;
  std::uint64_t size_;  // of each process: whole pages
  char* all_ = nullptr;
  char* own_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

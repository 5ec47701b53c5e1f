// SPDX-License-Identifier: Apache-2.0
// Runs C++ code as the ranks of an MPI program, without the compiler and the launcher.
#pragma once

#include "quarry/mpi/mpi.h"

#include <cstdint>
#include <functional>
#include <string>

namespace quarry::test {

inline constexpr std::uint64_t default_heap_bytes = std::uint64_t{64} << 20;

/// What became of a program.
struct [[nodiscard]] program_result {
  int status = 0;                 // the program's exit status
  std::uint64_t allocations = 0;  // in use in the heap at the end
  bool is_deadlocked = false;
  std::string failure;            // why the program ended early
  std::uint64_t wrong_frees = 0;  // that the heap has recorded
};

/// Runs `body` as each rank, as fibers that `seed` schedules: another rank may run before each
/// atomic access. `body` must not own memory when an MPI call ends the program.
program_result run_on_fibers(std::uint32_t ranks, std::uint64_t seed,
                             std::function<void()> const& body,
                             std::uint64_t heap_bytes = default_heap_bytes);

/// How fibers share several threads.
struct threads_of_fibers {
  std::uint64_t seed = 1;
  std::uint32_t threads = 2;
  std::uint32_t switches = 64;
};

/// The same on several OS threads, each of which schedules its ranks by a seed of its own.
program_result run_on_fibers(std::uint32_t ranks, threads_of_fibers how,
                             std::function<void()> const& body,
                             std::uint64_t heap_bytes = default_heap_bytes);

/// Runs each rank on an OS thread. Deadlocks are not detected.
program_result run_on_threads(std::uint32_t ranks, std::function<void()> const& body);

/// Runs the ranks as fibers with several seeds, as fibers on two threads, and on threads. The
/// calling test fails unless each program ends by itself. ThreadSanitizer takes each fiber for a
/// thread.
void run_everywhere(std::uint32_t ranks, std::function<void()> const& body);

/// The same with 1 to 9 ranks; on threads only with 3, 5 and 8, since waiting threads use the
/// cores.
void run_in_worlds(std::function<void()> const& body);

/// The result of a program that fails, as fibers.
program_result run_failing(std::uint32_t ranks, std::function<void()> const& body);

/// Programs that run later have blocks of so many ranks, a power of two (mpi/meeting_place.hpp).
void begin_with_blocks_of(std::uint32_t ranks);
inline constexpr std::uint32_t default_block_ranks = 4;  // small worlds have several blocks
/// Programs that run later begin as if so many meetings of each kind were complete.
void begin_with_meetings(std::uint64_t complete);
/// Programs that run later begin as if each rank had received so many messages.
void begin_with_messages(std::uint32_t passed);

inline int rank_in(MPI_Comm communicator) {
  int rank = -1;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}
inline int size_of(MPI_Comm communicator) {
  int size = -1;
  MPI_Comm_size(communicator, &size);
  return size;
}

/// Random numbers that all ranks can draw alike: each rank begins with the same seed.
class shared_random {
 public:
  explicit shared_random(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15u + 1} {}
  /// A number below `end`.
  int below(int end) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int>((state_ >> 11) % static_cast<std::uint64_t>(end));
  }

 private:
  std::uint64_t state_;
};

}  // namespace quarry::test

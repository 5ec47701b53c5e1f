// SPDX-License-Identifier: Apache-2.0
// How a sender reaches the mailbox of another rank.
//
// In most programs all ranks share memory, and `near_way` is the only way: it costs nothing. In
// programs of several processes (quarry-mpicc --processes) `process_way` also leads to the memory
// of other processes, which nobody but their own ranks can read. It can do three things there:
// store a word, add to a word and get what it was before, and nothing else.
#pragma once

#include "quarry/simt/atomic.hpp"

#include <cstdint>

#ifdef __CUDACC__
#define QUARRY_FAST QUARRY_HD __forceinline__
#else
#define QUARRY_FAST inline
#endif

namespace quarry::inline QUARRY_ABI::mpi {

namespace simt = quarry::simt;

/// The order of (T), which `basic_mailbox` explains.
#ifdef __CUDA_ARCH__
inline constexpr simt::memory_order draw_order = simt::relaxed;
#else
inline constexpr simt::memory_order draw_order = simt::acquire;
#endif

/// The way to a mailbox in memory that the sender shares.
struct near_way {
  [[nodiscard]] QUARRY_FAST static constexpr bool is_near() { return true; }
  /// Adds to the word. Returns its former value.
  [[nodiscard]] QUARRY_FAST static std::uint64_t draw(std::uint64_t& word, std::uint64_t change) {
    return simt::atomic_ref<std::uint64_t>{word}.fetch_add(change, draw_order);  // (T)
  }
  /// The word, as a hint that orders nothing.
  [[nodiscard]] QUARRY_FAST static std::uint64_t hint(std::uint64_t& word) {
    return simt::atomic_ref<std::uint64_t>{word}.load(simt::relaxed);  // (L)
  }
  /// The word. Of another process it needs a round trip.
  [[nodiscard]] QUARRY_FAST static std::uint64_t look(std::uint64_t& word) {
    return simt::atomic_ref<std::uint64_t>{word}.load(draw_order);  // (T)
  }
  /// Stores a word of a mailbox that is not near: there is none.
  QUARRY_FAST static void put(std::uint64_t&, std::uint64_t) {}
};

#ifdef QUARRY_MPI_PROCESSES
inline constexpr bool spans_processes = true;

#ifdef __CUDACC__
#define QUARRY_TRANSPORT extern "C" __device__
#else
#define QUARRY_TRANSPORT extern "C"
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi

// The transport between processes: NVSHMEM on GPUs (nvshmem_transport.cu), shared files on the CPU
// (process_memory.cpp). `word` is a word of the caller's own symmetric memory, and stands for the
// word at the same place of the symmetric memory of another process.

/// Stores a word of another process. It arrives as a whole, later, and not in order with others.
QUARRY_TRANSPORT void quarry_mpi_put(std::uint64_t* word, std::uint64_t value,
                                     std::uint32_t process);
/// Adds to a word of another process at once. Returns its former value.
QUARRY_TRANSPORT std::uint64_t quarry_mpi_fetch_add(std::uint64_t* word, std::uint64_t change,
                                                    std::uint32_t process);
#ifndef __CUDACC__
/// Delivers words that this thread has put. Called by ranks that wait.
QUARRY_TRANSPORT void quarry_mpi_deliver();
/// Delivers all of them. Called by ranks that end.
QUARRY_TRANSPORT void quarry_mpi_deliver_all();
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// Words of a process that other processes write.
struct alignas(128) process_words {
  std::uint64_t aborted;  // 0; after another process has aborted the program 2^32 + the code
};

/// Which ranks run in which process. All processes but the last have `ranks_each`.
struct process_layout {
  std::uint32_t own;
  std::uint32_t count;
  std::uint32_t ranks_each;
  std::uint32_t unused;
  process_words* words;         // in symmetric memory, as the next
  std::uint64_t* acknowledged;  // of each rank: words for synchronous sends (message_parts.hpp)
};

}  // namespace quarry::inline QUARRY_ABI::mpi

#ifdef __CUDACC__
extern "C" __constant__ quarry::mpi::process_layout quarry_mpi_processes;
#else
extern "C" quarry::mpi::process_layout quarry_mpi_processes;
#endif

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline process_layout const& the_processes() {
#if defined(__CUDA_ARCH__) || !defined(__CUDACC__)
  return quarry_mpi_processes;
#else
  return *static_cast<process_layout const*>(nullptr);  // nvcc's host pass; never called
#endif
}

/// The process that runs a rank.
[[nodiscard]] QUARRY_HD inline std::uint32_t process_of(std::uint32_t rank) {
  return rank / the_processes().ranks_each;
}
/// The rank's number in its process.
[[nodiscard]] QUARRY_HD inline std::uint32_t index_in_process(std::uint32_t rank) {
  return rank % the_processes().ranks_each;
}
/// Whether the rank runs in the caller's process.
[[nodiscard]] QUARRY_HD inline bool is_near(std::uint32_t rank) {
  return process_of(rank) == the_processes().own;
}

/// The way to a mailbox of any process.
class process_way {
 public:
  QUARRY_FAST explicit process_way(std::uint32_t process) : process_{process} {}
  [[nodiscard]] QUARRY_FAST bool is_near() const { return process_ == the_processes().own; }
  [[nodiscard]] QUARRY_FAST std::uint64_t draw(std::uint64_t& word, std::uint64_t change) const {
    return is_near() ? near_way::draw(word, change) : quarry_mpi_fetch_add(&word, change, process_);
  }
  [[nodiscard]] QUARRY_FAST std::uint64_t hint(std::uint64_t& word) const {
    return is_near() ? near_way::hint(word) : quarry_mpi_fetch_add(&word, 0, process_);
  }
  [[nodiscard]] QUARRY_FAST std::uint64_t look(std::uint64_t& word) const {
    return is_near() ? near_way::look(word) : quarry_mpi_fetch_add(&word, 0, process_);
  }
  QUARRY_FAST void put(std::uint64_t& word, std::uint64_t value) const {
    quarry_mpi_put(&word, value, process_);
  }

 private:
  std::uint32_t process_;
};

/// CPU: delivers words that this thread has put into other processes. Called by ranks that wait.
QUARRY_HD inline void deliver_some() {
#ifndef __CUDACC__
  quarry_mpi_deliver();
#endif
}

using mail_way = process_way;
[[nodiscard]] QUARRY_FAST mail_way way_to(std::uint32_t rank) {
  return process_way{process_of(rank)};
}

#else
inline constexpr bool spans_processes = false;
/// CPU: delivers words that this thread has put into other processes. Called by ranks that wait.
QUARRY_HD inline void deliver_some() {}
[[nodiscard]] QUARRY_HD constexpr std::uint32_t index_in_process(std::uint32_t rank) {
  return rank;
}
[[nodiscard]] QUARRY_HD constexpr bool is_near(std::uint32_t) { return true; }
using mail_way = near_way;
[[nodiscard]] QUARRY_FAST constexpr mail_way way_to(std::uint32_t) { return {}; }
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi

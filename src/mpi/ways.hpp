// SPDX-License-Identifier: Apache-2.0
// How a sender reaches the mailbox of another rank.
//
// In most programs all ranks share memory, and `near_way` is the only way: it costs nothing. In
// programs of several processes (quarry-mpicc --processes) `process_way` also leads to the memory
// of other processes. Where that memory is mapped, as NVLink allows on one host, a sender stores to
// it as to near memory. Elsewhere nobody but the other process's own ranks can read it. A sender
// can do three things there: store a word, add to a word and get what it was before, and store a
// block of bytes and then a word. Pointers to other memory mean nothing in another process.
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
  /// Whether the sender can address the mailbox.
  [[nodiscard]] QUARRY_FAST static constexpr bool is_mapped() { return true; }
  /// Where the sender addresses what is at `place` in the memory of its own process.
  template <class T>
  [[nodiscard]] QUARRY_FAST static constexpr T* reach(T* place) {
    return place;
  }
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
  /// Stores a word of a mailbox that is not mapped: there is none.
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
/// Stores `size` bytes from `data` at the place `to`, then the word. Whoever acquires the word sees
/// the bytes. `data` may change when it returns. On GPUs `data` is symmetric memory as well.
QUARRY_TRANSPORT void quarry_mpi_put_block(char* to, char const* data, std::uint64_t size,
                                           std::uint64_t* word, std::uint64_t value,
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

/// Where a process is not mapped.
inline constexpr std::int64_t not_mapped = std::int64_t{1} << 62;

/// Which ranks run in which process. All processes but the last have `ranks_each`.
struct process_layout {
  static constexpr std::uint32_t most_mapped = 32;

  std::uint32_t own;
  std::uint32_t count;
  std::uint32_t ranks_each;
  std::uint32_t block_bytes;    // of a block for a part of a message; 0: there are none
  process_words* words;         // in symmetric memory, as the next
  std::uint64_t* acknowledged;  // of each rank: words for synchronous sends (message_parts.hpp)
  char* blocks;                 // of each slot of each mailbox, and one more of each rank
  // GPU: which processes are mapped, and how many bytes each is beyond this one's memory.
  std::uint32_t first_mapped;
  std::uint32_t mapped;
  std::int64_t distances[most_mapped];
};

}  // namespace quarry::inline QUARRY_ABI::mpi

#ifdef __CUDACC__
extern "C" __constant__ quarry::mpi::process_layout quarry_mpi_processes;
#else
extern "C" quarry::mpi::process_layout quarry_mpi_processes;
/// CPU: the number of the round in which processes vote (process_states.hpp), atomic; null: none.
extern "C" std::uint64_t* quarry_mpi_round;
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

/// How many bytes the process's memory is beyond the caller's; `not_mapped` if it is not mapped.
[[nodiscard]] QUARRY_FAST std::int64_t distance_to(std::uint32_t process) {
  process_layout const& all = the_processes();
  if (process == all.own) return 0;
  std::uint32_t const index = process - all.first_mapped;
  return index < all.mapped ? all.distances[index] : not_mapped;
}

/// The way to a mailbox of any process. All words that it gets are those that `reach` returns.
class process_way {
 public:
  QUARRY_FAST explicit process_way(std::uint32_t process)
      : process_{process}, distance_{distance_to(process)} {}
  [[nodiscard]] QUARRY_FAST bool is_near() const { return distance_ == 0; }
  [[nodiscard]] QUARRY_FAST bool is_mapped() const { return distance_ != not_mapped; }
  template <class T>
  [[nodiscard]] QUARRY_FAST T* reach(T* place) const {
    auto const address = reinterpret_cast<std::uint64_t>(place);
    return is_mapped() ? reinterpret_cast<T*>(address + static_cast<std::uint64_t>(distance_))
                       : place;
  }
  [[nodiscard]] QUARRY_FAST std::uint64_t draw(std::uint64_t& word, std::uint64_t change) const {
    return is_mapped() ? near_way::draw(word, change)
                       : quarry_mpi_fetch_add(&word, change, process_);
  }
  [[nodiscard]] QUARRY_FAST std::uint64_t hint(std::uint64_t& word) const {
    return is_mapped() ? near_way::hint(word) : quarry_mpi_fetch_add(&word, 0, process_);
  }
  [[nodiscard]] QUARRY_FAST std::uint64_t look(std::uint64_t& word) const {
    return is_mapped() ? near_way::look(word) : quarry_mpi_fetch_add(&word, 0, process_);
  }
  /// Stores a word of a mailbox that is not mapped.
  QUARRY_FAST void put(std::uint64_t& word, std::uint64_t value) const {
    quarry_mpi_put(&word, value, process_);
  }
  /// The same for bytes and then a word.
  QUARRY_FAST void put_block(char* to, char const* data, std::uint64_t size, std::uint64_t& word,
                             std::uint64_t value) const {
    quarry_mpi_put_block(to, data, size, &word, value, process_);
  }

 private:
  std::uint32_t process_;
  std::int64_t distance_;
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

// SPDX-License-Identifier: Apache-2.0
// Copies from global memory by a GPU's copy engine, which one thread drives.
#pragma once

#include "copy_pool.hpp"
#include "thread_copy.hpp"
#include "world.hpp"

extern __shared__ char quarry_mpi_shared[];

namespace quarry::inline QUARRY_ABI::mpi {

/// Instructions of the copy engine. Addresses of shared memory are 32-bit numbers.
namespace engine {

__device__ inline std::uint32_t shared_base() {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(quarry_mpi_shared));
}
__device__ inline std::uint32_t shared_bytes() {
  std::uint32_t size;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
  return size;
}

__device__ inline void initialise_barrier(std::uint32_t barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}

/// Begins to fill shared memory. The barrier's phase ends when the bytes are there.
__device__ inline void begin_load(std::uint32_t to, char const* from, std::uint32_t size,
                                  std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(size)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(__cvta_generic_to_global(from)), "r"(size), "r"(barrier)
      : "memory");
}

/// Waits until a phase of the barrier has ended. `phase` is its number modulo 2.
__device__ inline void wait_for_phase(std::uint32_t barrier, std::uint32_t phase) {
  std::uint32_t has_ended = 0;
  QUARRY_NO_UNROLL
  while (has_ended == 0) {
    asm volatile(
        "{ .reg .pred p;\n"
        "  mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "  selp.u32 %0, 1, 0, p; }"
        : "=r"(has_ended)
        : "r"(barrier), "r"(phase)
        : "memory");
  }
}

/// Begins to store shared memory, as a group of its own.
__device__ inline void begin_store(char* to, std::uint32_t from, std::uint32_t size) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   __cvta_generic_to_global(to)),
               "r"(from), "r"(size)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// Waits until the engine has read the shared memory of all stores but the last `newest` <= 2.
__device__ inline void wait_for_reads(std::uint32_t newest) {
  if (newest == 2) {
    asm volatile("cp.async.bulk.wait_group.read 2;" ::: "memory");
  } else if (newest == 1) {
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
  } else {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}
/// Waits until this thread sees what was stored.
__device__ inline void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

}  // namespace engine

/// Some pieces of the thread block's shared memory, for one copy.
///
/// The engine copies from global to shared memory and from shared to global memory. A rank claims
/// free pieces, copies through them, and releases them. No rank waits for a piece, and no rank that
/// has pieces waits for another rank: it waits only for the engine, which needs no thread. So lanes
/// of a warp may diverge here, and claims cannot be part of a deadlock.
///
/// The first word of the shared memory has a bit for each piece that is free, and a bit for the
/// phase of each piece's barrier. A phase ends when the engine has filled the piece. The rank that
/// has the piece counts the phases, and leaves the count to the next one in the word.
///
/// Memory order. The engine's accesses are of another proxy, in PTX's words: nothing orders them
/// with accesses of threads but a proxy fence between the two. (P) comes after what this rank
/// acquired from other ranks, for instance the contents of the source, and before all accesses of
/// the engine. In the other direction no fence is needed: a thread that sees that the engine has
/// finished sees what it wrote. (C) synchronizes with (R) of the rank that had a piece before.
class claimed_pieces {
 public:
  /// Prepares the shared memory. All threads of the block call it before any rank runs.
  __device__ static void initialise() {
    if (piece_bytes() == 0) return;
    if (threadIdx.x == 0) {
      for (std::uint32_t i = 0; i < copy_pool::pieces; ++i)
        engine::initialise_barrier(barrier_of(i));
      *reinterpret_cast<std::uint32_t*>(quarry_mpi_shared) = all_pieces;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
  }

  /// The bytes of a piece; 0 if the block has no shared memory.
  [[nodiscard]] __device__ static std::uint32_t piece_bytes() {
    std::uint32_t const all =
        engine::shared_bytes() - copy_pool::bytes_of_jobs(blockDim.x, layout().shift);
    return all == 0 ? 0 : (all - copy_pool::header_bytes) / copy_pool::pieces;
  }

  /// Claims 1, 2, 4 or 8 neighbouring pieces, at most `wanted` > 0. Claims none if no piece is
  /// free.
  __device__ explicit claimed_pieces(std::uint32_t wanted)
      : claimed_pieces{wanted, without_engine{}} {
    if (count_ != 0) asm volatile("fence.proxy.async;" ::: "memory");  // (P)
  }
  /// The same for pieces that only threads use.
  struct without_engine {};
  __device__ claimed_pieces(std::uint32_t wanted, without_engine) {
    std::uint32_t const word = engine::shared_base();
    std::uint32_t seen;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(word) : "memory");
    for (;;) {
      std::uint32_t const free = seen & all_pieces;
      if (free == 0) return;
      // where runs of free pieces begin, at multiples of their lengths
      std::uint32_t const twos = free & free >> 1 & 0x55;
      std::uint32_t const fours = twos & twos >> 2 & 0x11;
      bool const is_eight = wanted >= 8 && (fours & fours >> 4 & 1) != 0;
      bool const is_four = wanted >= 4 && fours != 0;
      bool const is_two = wanted >= 2 && twos != 0;
      std::uint32_t const count = is_eight ? 8 : is_four ? 4 : is_two ? 2 : 1;
      std::uint32_t const starts = is_four ? fours : is_two ? twos : free;
      std::uint32_t const first = static_cast<std::uint32_t>(__ffs(static_cast<int>(starts))) - 1;
      std::uint32_t const chosen = ((1u << count) - 1) << first;
      std::uint32_t found;
      asm volatile("atom.acquire.cta.shared.cas.b32 %0, [%1], %2, %3;"  // (C)
                   : "=r"(found)
                   : "r"(word), "r"(seen), "r"(seen & ~chosen)
                   : "memory");
      if (found == seen) {
        count_ = count;
        first_ = first;
        break;
      }
      seen = found;
    }
    before_ = phases_ = seen >> copy_pool::pieces;
    slots_ = count_ < max_slots ? count_ : max_slots;
    slot_pieces_ = count_ / slots_;
    slot_bytes_ = piece_bytes() * slot_pieces_;
  }
  __device__ ~claimed_pieces() {
    if (count_ == 0) return;
    std::uint32_t const freed = ((1u << count_) - 1) << first_;
    asm volatile("red.release.cta.shared.xor.b32 [%0], %1;"  // (R)
                 ::"r"(engine::shared_base()),
                 "r"(freed | (before_ ^ phases_) << copy_pool::pieces)
                 : "memory");
  }
  claimed_pieces(claimed_pieces const&) = delete;
  [[nodiscard]] __device__ explicit operator bool() const { return count_ != 0; }

  /// The first piece.
  [[nodiscard]] __device__ char* memory() const {
    return static_cast<char*>(__cvta_shared_to_generic(address_of(first_)));
  }

  /// Copies from global to global memory. Addresses and size are multiples of 16; `size` > 0.
  ///
  /// The pieces are a ring. A piece is filled again when the engine has read it, `lag` stores
  /// later: so up to `lag` stores and the loads of the other pieces are in flight together.
  __device__ void copy(char* to, char const* from, bytes size) {
    bytes to_load = begin_loads(from, size);
    from += size - to_load;
    std::uint32_t const lag = slots_ / 2;
    for (std::uint32_t i = 0;; ++i) {
      std::uint32_t const part = part_of(size);
      engine::begin_store(to, filled(i), part);
      size -= part;
      if (size == 0) break;
      to += part;
      if (to_load == 0 || i < lag) continue;
      engine::wait_for_reads(lag);
      std::uint32_t const more = part_of(to_load);
      begin_load(i - lag, from, more);
      from += more;
      to_load -= more;
    }
    engine::wait_for_stores();
  }

  /// Copies from global memory to any memory, which the thread writes. `from` and `size` are
  /// multiples of 16; `size` > 0.
  __device__ void copy_by_stores(char* to, char const* from, bytes size) {
    bytes to_load = begin_loads(from, size);
    from += size - to_load;
    for (std::uint32_t i = 0;; ++i) {
      std::uint32_t const part = part_of(size);
      copy_by_thread(to, __cvta_shared_to_generic(filled(i)), part);
      size -= part;
      if (size == 0) break;
      to += part;
      if (to_load == 0) continue;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the thread has read the piece
      std::uint32_t const more = part_of(to_load);
      begin_load(i, from, more);
      from += more;
      to_load -= more;
    }
  }

 private:
  /// More slots are not faster, but longer ones are: the engine takes some 0.2 microseconds for a
  /// slot beside the time for its bytes.
  static constexpr std::uint32_t max_slots = 4;
  static constexpr std::uint32_t all_pieces = (1u << copy_pool::pieces) - 1;

  __device__ static std::uint32_t barrier_of(std::uint32_t piece) {
    return engine::shared_base() + 8 + piece * 8;
  }
  [[nodiscard]] __device__ std::uint32_t place(std::uint32_t use) const {
    return first_ + (use & (slots_ - 1)) * slot_pieces_;
  }
  [[nodiscard]] __device__ std::uint32_t address_of(std::uint32_t piece) const {
    return engine::shared_base() + copy_pool::header_bytes + piece * piece_bytes();
  }
  [[nodiscard]] __device__ std::uint32_t part_of(bytes rest) const {
    return rest < slot_bytes_ ? static_cast<std::uint32_t>(rest) : slot_bytes_;
  }
  __device__ void begin_load(std::uint32_t use, char const* from, std::uint32_t size) const {
    std::uint32_t const piece = place(use);
    engine::begin_load(address_of(piece), from, size, barrier_of(piece));
  }
  /// Begins to fill the pieces. Returns how many bytes remain.
  __device__ bytes begin_loads(char const* from, bytes size) const {
    for (std::uint32_t i = 0; i < slots_ && size != 0; ++i) {
      std::uint32_t const part = part_of(size);
      begin_load(i, from, part);
      from += part;
      size -= part;
    }
    return size;
  }
  /// Waits until the piece of the use is filled. Returns its address.
  __device__ std::uint32_t filled(std::uint32_t use) {
    std::uint32_t const piece = place(use);
    engine::wait_for_phase(barrier_of(piece), phases_ >> piece & 1);
    phases_ ^= 1u << piece;
    return address_of(piece);
  }

  std::uint32_t count_ = 0;  // of pieces: a power of two, or 0
  std::uint32_t first_ = 0;
  std::uint32_t phases_ = 0;  // of the barriers of all pieces, of which only the own ones count
  std::uint32_t before_ = 0;  // `phases_` at first
  std::uint32_t slots_ = 0;   // of the ring: a power of two
  std::uint32_t slot_pieces_ = 0;  // of a slot; the barrier is the first one's
  std::uint32_t slot_bytes_ = 0;
};

/// Up to 15 bytes before a multiple of 16, then 16 bytes.
inline constexpr bytes least_through_engine = 32;

/// Copies from global memory through shared memory: by the engine alone, or by the engine and by
/// the thread. Returns false, and has done nothing, if other ranks have all pieces. Requires that
/// `size` is at least `least_through_engine`.
[[nodiscard]] __device__ inline bool copy_through_pieces(char* to, char const* from, bytes size,
                                                         bool by_engine) {
  std::uint32_t const most = by_engine ? copy_pool::pieces : 2;
  bytes const useful = size / claimed_pieces::piece_bytes() + 1;
  claimed_pieces pieces{useful < most ? static_cast<std::uint32_t>(useful) : most};
  if (!pieces) return false;
  bytes const head = (0 - reinterpret_cast<std::uint64_t>(from)) % granule_bytes;
  bytes const body = (size - head) / granule_bytes * granule_bytes;
  if (head != 0) copy_by_thread(to, from, head);
  if (by_engine) {
    pieces.copy(to + head, from + head, body);
  } else {
    pieces.copy_by_stores(to + head, from + head, body);
  }
  bytes const done = head + body;
  if (done != size) copy_by_thread(to + done, from + done, size - done);
  return true;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

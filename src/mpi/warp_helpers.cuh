// SPDX-License-Identifier: Apache-2.0
// Where a GPU has room for two warps for each rank, the first runs the rank, on one lane, and the
// second helps it to copy.
#pragma once

#include "bulk_copy.cuh"
#include "parts_job.hpp"
#include "reduction_job.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a rank's helpers do with a message.
struct warp_task {
  enum class kind : std::uint32_t { end, store, load, copy, exchange, parts, reduce } what;
  std::uint32_t size;
  std::uint64_t* units;
  char* data;
  std::uint32_t number;
};

/// The warp that helps a rank.
///
/// The rank writes the task to shared memory and arrives at the barrier `begin` (B), for which the
/// helpers wait (H). They do their shares, and the first of them arrives at the barrier `end` (E)
/// after all, for which the rank waits (W). Barriers of shared memory release when a thread
/// arrives, and acquire when its wait ends. So the helpers see the task, and the rank sees what
/// they wrote. A helper waits for nothing but its rank and, in a load, for a sender that waits for
/// nothing; so helpers cannot be part of a deadlock.
///
/// Rejected: the other lanes of the rank's own warp as helpers. As long as they exist, each branch
/// of the rank takes longer: a message of 64 bytes 4.4 in place of 3.8 us to and fro, a barrier of
/// 16 ranks 1.4 in place of 1.3 us.
class warp_helpers {
 public:
  /// Whether ranks have helpers. All ranks have the same.
  [[nodiscard]] __device__ static bool exist() { return helpers_exist(layout().shift); }

  /// All threads of the block call it before any rank runs.
  __device__ static void initialise() {
    if (!exist()) return;
    if (threadIdx.x % 64 == 0) {
      engine::initialise_barrier(address_of(own_post().begin));
      engine::initialise_barrier(address_of(own_post().end));
      own_post().tasks = 0;
    }
    __syncthreads();
  }

  /// The helper's part, until its rank ends. Not inline: its frame is as large as that of a rank's
  /// deepest calls.
  __device__ __noinline__ static void help() {
    post& own = own_post();
    for (std::uint32_t task = 0;; ++task) {
      engine::wait_for_phase(address_of(own.begin), task % 2);  // (H)
      warp_task const todo = own.todo;
      if (todo.what == warp_task::kind::end) return;
      numbered_units const units{todo.units, todo.number};
      lane_share const share{threadIdx.x % 32, 32};
      if (todo.what == warp_task::kind::store) {
        store_numbered(units, todo.data, todo.size, share);
      } else if (todo.what == warp_task::kind::load) {
        load_numbered(units, todo.data, todo.size, share);
      } else {
        help_collective(own);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(own.end);  // (E)
    }
  }
  /// The rank's part: lets the helpers do the task, and waits for them.
  __device__ static void run(warp_task const& task) {
    post& own = own_post();
    own.todo = task;
    arrive(own.begin);                                             // (B)
    engine::wait_for_phase(address_of(own.end), own.tasks++ % 2);  // (W)
  }
  /// The same for jobs of collective operations.
  __device__ static void run(copy_job const& job) {
    own_post().copy = job;
    run(warp_task{warp_task::kind::copy, 0, nullptr, nullptr, 0});
  }
  [[nodiscard]] __device__ static bool run(exchange_job const& job, std::uint32_t bits) {
    post& own = own_post();
    own.exchange = job;
    own.outcome = 0;
    run(warp_task{warp_task::kind::exchange, bits, nullptr, nullptr, 0});
    return own.outcome == 0;
  }
  [[nodiscard]] __device__ static std::uint32_t run(parts_job const& job) {
    post& own = own_post();
    own.parts = job;
    own.outcome = 0;
    run(warp_task{warp_task::kind::parts, 0, nullptr, nullptr, 0});
    return own.outcome;
  }
  /// The rank is worker `worker` of `workers`; each of its helpers is one.
  __device__ static void run(reduction_job const& job, std::uint32_t worker,
                             std::uint32_t workers) {
    post& own = own_post();
    own.reduction = job;
    own.share = {worker * 32, workers * 32};
    run(warp_task{warp_task::kind::reduce, 0, nullptr, nullptr, 0});
  }

  /// The rank is about to end.
  __device__ static void dismiss() {
    if (!exist()) return;
    own_post().todo.what = warp_task::kind::end;
    arrive(own_post().begin);
  }

 private:
  struct post {
    std::uint64_t begin;
    std::uint64_t end;
    warp_task todo;
    std::uint32_t tasks;    // that are done; only the rank uses it
    std::uint32_t outcome;  // of an exchange: whether a helper has met data that it cannot exchange
    lane_share share;       // of a reduction, for the first helper
    union {
      copy_job copy;
      exchange_job exchange;
      parts_job parts;
      reduction_job reduction;
    };
  };
  __device__ __noinline__ static void help_collective(post& own) {
    std::uint32_t const lane = threadIdx.x % 32;
    if (own.todo.what == warp_task::kind::copy) {
      mpi::run(own.copy, {lane, 32});
    } else if (own.todo.what == warp_task::kind::exchange) {
      exchange_members const alone{simt::lane_group::alone(), 1};
      if (!mpi::run(own.exchange, 0, alone, {lane, 32}, own.todo.size)) own.outcome = 1;
    } else if (own.todo.what == warp_task::kind::parts) {
      std::uint32_t const outcome = mpi::run(own.parts, {lane, 32}, copy_by_all);
      if (outcome != 0) (void)atomicOr_block(&own.outcome, outcome);
    } else {
      mpi::run(own.reduction, {own.share.first + lane, own.share.step});
    }
  }
  /// Copies a part of each lane. All helpers call it together.
  __device__ static void copy_by_all(part_copy const& part) {
    QUARRY_NO_UNROLL
    for (std::uint32_t left = __ballot_sync(~0u, part.size != 0); left != 0; left &= left - 1) {
      int const lane = __ffs(static_cast<int>(left)) - 1;
      auto const shuffle = [&](std::uint64_t value) { return __shfl_sync(~0u, value, lane); };
      copy_job const job{
          reinterpret_cast<char*>(shuffle(reinterpret_cast<std::uint64_t>(part.to))),
          reinterpret_cast<char const*>(shuffle(reinterpret_cast<std::uint64_t>(part.from))),
          shuffle(part.size)};
      mpi::run(job, {threadIdx.x % 32, 32});
    }
  }
  __device__ static post& own_post() {
    __shared__ post posts[16];  // of each rank of a thread block
    return posts[threadIdx.x / 64];
  }
  __device__ static std::uint32_t address_of(std::uint64_t& barrier) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier));
  }
  __device__ static void arrive(std::uint64_t& barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address_of(barrier)) : "memory");
  }
};

/// Does a task whose data is in the rank's stack, which helpers cannot read: it goes through shared
/// memory. Returns false, and has done nothing, if other ranks have all pieces.
__device__ __noinline__ bool run_through_piece(warp_task task) {
  claimed_pieces const piece{1, claimed_pieces::without_engine{}};
  if (!piece) return false;
  std::uint32_t const most = claimed_pieces::piece_bytes();
  char* const shared = piece.memory();
  char* stack = task.data;
  std::uint32_t left = task.size;
  task.data = shared;
  QUARRY_NO_UNROLL
  while (left != 0) {
    task.size = left < most ? left : most;
    if (task.what == warp_task::kind::store) copy_by_thread(shared, stack, task.size);
    warp_helpers::run(task);
    if (task.what == warp_task::kind::load) copy_by_thread(stack, shared, task.size);
    stack += task.size;
    left -= task.size;
    task.units += task.size / sizeof(std::uint32_t);
  }
  return true;
}

/// Does a task with the helpers. If its data is in the rank's stack, and other ranks have all
/// pieces of shared memory, the rank does it alone.
__device__ __noinline__ void run_by_warp(warp_task const& task) {
  if (__isGlobal(task.data)) return warp_helpers::run(task);
  if (claimed_pieces::piece_bytes() != 0 && run_through_piece(task)) return;
  numbered_units const units{task.units, task.number};
  if (task.what == warp_task::kind::store) {
    store_numbered(units, task.data, task.size, whole_share);
  } else {
    load_numbered(units, task.data, task.size, whole_share);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

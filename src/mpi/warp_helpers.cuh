// SPDX-License-Identifier: Apache-2.0
// The lanes that help a rank, which runs on one lane, to copy and to combine: the other lanes of
// its warp, or a second warp where a GPU has room for two warps for each rank.
#pragma once

#include "bulk_copy.cuh"
#include "exchange_job.hpp"
#include "parts_job.hpp"
#include "reduction_job.hpp"
#include "seat.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A step of a small_reduction_work in the caller's seat.
struct numbers_job {
  std::uint64_t* values;
  small_reduction how;
  std::uint32_t numbers;
  bool is_of_world;  // the values of all blocks, not of the block's ranks
};

/// What a rank's helpers do with a message.
struct warp_task {
  enum class kind : std::uint32_t { end, store, load, copy, exchange, parts, reduce, numbers } what;
  std::uint32_t size;
  std::uint64_t* units;
  char* data;
  std::uint32_t number;
};

/// A task, and what some kinds of it need more.
struct helper_job {
  union details {
    copy_job copy;
    exchange_job exchange;
    parts_job parts;
    reduction_job reduction;
    numbers_job numbers;
  };

  warp_task todo;
  std::uint32_t outcome;  // the bits of all lanes
  lane_share share;       // of a reduction: this rank's, among those that work for the group
  details about;

  [[nodiscard]] __device__ bool needs_details() const { return todo.what >= warp_task::kind::copy; }
};

/// The lanes that help the caller's rank, or that the caller helps.
struct helping_lanes {
  __device__ helping_lanes() {
    std::uint32_t const shift = layout().shift;
    std::uint32_t const lanes = shift >= 5 ? 32 : 1u << shift;  // of the rank in this warp
    std::uint32_t const own = threadIdx.x % lanes;
    members = ~0u >> (32 - lanes) << (threadIdx.x % 32 - own);
    share = shift == helper_warp_shift ? lane_share{own, 32} : lane_share{own - 1, lanes - 1};
  }

  lane_share share;       // of the caller, if it is a helper
  std::uint32_t members;  // bits: the helpers, and the rank if it has no other warp
};

/// The lanes that help a rank.
///
/// A second warp has its tasks in shared memory. The rank writes a task and arrives at the barrier
/// `begin` (B), for which the helpers wait (H). They do their shares, and the first of them arrives
/// at the barrier `end` (E) after all, for which the rank waits (W). Barriers of shared memory
/// release when a thread arrives, and acquire when its wait ends. So the helpers see the task, and
/// the rank sees what they wrote.
///
/// The other lanes of the rank's own warp have its tasks in shared memory, too. They meet the rank
/// before a task (M) and after it (N). Meetings of lanes order the accesses of their members to
/// memory. The rank does no share: it comes from another place than the helpers, and such lanes do
/// not run together after they have met.
///
/// A helper waits for nothing but its rank and, in a load, for a sender that waits for nothing; so
/// helpers cannot be part of a deadlock. While the other lanes of a warp exist, each branch of the
/// rank takes longer (docs/design/measurement_log.md). So a second warp is better if there is room.
class warp_helpers {
 public:
  /// Whether ranks have helpers. All ranks have the same.
  [[nodiscard]] __device__ static bool exist() { return helpers_exist(layout().shift); }

  /// Whether helpers copy faster than `copy_bytes`, which uses the copy engine for long parts.
  [[nodiscard]] __device__ static bool suit(exchange_job const& job) {
    return exist() && (job.own_bits() % 4 == 0 || job.part < 4096);
  }

  /// Whether helpers combine the numbers of so many ranks or blocks faster than the rank. A lane
  /// combines eight values at a time, in 0.2 us. A job takes lanes of the rank's warp some 4 us, a
  /// second warp less.
  [[nodiscard]] __device__ static bool suit(numbers_job const& job, std::uint32_t count) {
    std::uint32_t const least = are_a_warp() ? 8 : 32;
    return exist() && job.numbers * block_place::padded(count) / 8 >= least;
  }

  /// All threads of the block call it before any rank runs.
  __device__ static void initialise() {
    if (!are_a_warp()) return;
    if (threadIdx.x % 64 == 0) {
      engine::initialise_barrier(address_of(own_post().begin));
      engine::initialise_barrier(address_of(own_post().end));
      own_post().tasks = 0;
    }
    __syncthreads();
  }

  /// The helper's part, until its rank ends. Not inline: its frame is as large as that of a rank's
  /// deepest calls. It calls a function for each task, so that it saves few registers: 31 lanes
  /// that save all of theirs move as many bytes as a copy of some KiB.
  __device__ __noinline__ static void help() {
    bool const is_other_warp = are_a_warp();
    helper_job& job = own_job();
    for (std::uint32_t task = 0;; ++task) {
      if (is_other_warp) {
        engine::wait_for_phase(address_of(own_post().begin), task % 2);  // (H)
      } else {
        meet();  // (M)
      }
      if (job.todo.what == warp_task::kind::end) return;
      do_share(job);
      if (!is_other_warp) {
        meet();  // (N)
        continue;
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(own_post().end);  // (E)
    }
  }

  /// The rank's part: lets the helpers do the task, and waits for them.
  __device__ static void run(warp_task const& task) {
    helper_job job;
    job.todo = task;
    (void)run_job(job);
  }
  /// The same for jobs of collective operations.
  __device__ static void run(copy_job const& of_copy) {
    helper_job job;
    job.todo = task_of(warp_task::kind::copy);
    job.about.copy = of_copy;
    (void)run_job(job);
  }
  [[nodiscard]] __device__ static bool run(exchange_job const& exchange) {
    helper_job job;
    job.todo = task_of(warp_task::kind::exchange);
    job.about.exchange = exchange;
    return run_job(job) == 0;
  }
  [[nodiscard]] __device__ static std::uint32_t run(parts_job const& parts) {
    helper_job job;
    job.todo = task_of(warp_task::kind::parts);
    job.about.parts = parts;
    return run_job(job);
  }
  /// The rank is worker `worker` of `workers`.
  __device__ static void run(reduction_job const& reduction, std::uint32_t worker,
                             std::uint32_t workers) {
    helper_job job;
    job.todo = task_of(warp_task::kind::reduce);
    job.share = {worker, workers};
    job.about.reduction = reduction;
    (void)run_job(job);
  }
  __device__ static void run(numbers_job const& of_numbers) {
    helper_job job;
    job.todo = task_of(warp_task::kind::numbers);
    job.about.numbers = of_numbers;
    (void)run_job(job);
  }

  /// The rank is about to end.
  __device__ static void dismiss() {
    if (!exist()) return;
    own_job().todo.what = warp_task::kind::end;
    if (are_a_warp()) {
      arrive(own_post().begin);
    } else {
      meet();
    }
  }

 private:
  struct post {
    std::uint64_t begin;
    std::uint64_t end;
    helper_job job;
    std::uint32_t tasks;  // that are done; only the rank uses it
  };

  /// The helpers as a group of lanes.
  struct group_of_helpers {
    helping_lanes lanes;

    [[nodiscard]] __device__ std::uint32_t rank() const { return lanes.share.first; }
    [[nodiscard]] __device__ std::uint32_t size() const { return lanes.share.step; }
    [[nodiscard]] __device__ bool is_leader() const { return rank() == 0; }
    __device__ void sync() const { __syncwarp(without_rank(lanes.members)); }
    template <class T>
    [[nodiscard]] __device__ T of_rank(T value, std::uint32_t other) const {
      return __shfl_sync(without_rank(lanes.members), value,
                         static_cast<int>(threadIdx.x % 32 - rank() + other));
    }
  };
  [[nodiscard]] __device__ static std::uint32_t without_rank(std::uint32_t members) {
    return are_a_warp() ? members : members & (members - 1);
  }

  [[nodiscard]] __device__ static bool are_a_warp() { return layout().shift == helper_warp_shift; }

  [[nodiscard]] __device__ static warp_task task_of(warp_task::kind what, std::uint32_t size = 0) {
    return {what, size, nullptr, nullptr, 0};
  }

  /// Returns the bits of the outcomes of all lanes.
  [[nodiscard]] __device__ static std::uint32_t run_job(helper_job const& job) {
    helper_job& own = own_job();
    own.todo = job.todo;
    if (job.needs_details()) {
      own.outcome = 0;
      own.share = job.share;
      own.about = job.about;
    }
    if (are_a_warp()) {
      post& barriers = own_post();
      arrive(barriers.begin);                                                  // (B)
      engine::wait_for_phase(address_of(barriers.end), barriers.tasks++ % 2);  // (W)
    } else {
      meet();  // (M)
      meet();  // (N)
    }
    return job.needs_details() ? own.outcome : 0;
  }

  __device__ static void meet() { __syncwarp(helping_lanes{}.members); }

  /// A lane's share of a job. All lanes call it together.
  __device__ static void do_share(helper_job& job) {
    switch (job.todo.what) {
      case warp_task::kind::store:
      case warp_task::kind::load:
        return do_share_of_message(job.todo);
      case warp_task::kind::copy:
        if (are_a_warp()) return mpi::run(job.about.copy, helping_lanes{}.share);
        return run_lightly(job.about.copy, helping_lanes{}.share);
      case warp_task::kind::reduce:
        return do_share_of_reduction(job);
      case warp_task::kind::numbers:
        return do_share_of_numbers(job.about.numbers);
      default:
        return do_share_of_exchange(job);
    }
  }
  __device__ __noinline__ static void do_share_of_message(warp_task const& todo) {
    numbered_units const units{todo.units, todo.number};
    if (todo.what == warp_task::kind::store) {
      store_numbered(units, todo.data, todo.size, helping_lanes{}.share);
    } else {
      load_numbered(units, todo.data, todo.size, helping_lanes{}.share);
    }
  }
  __device__ __noinline__ static void do_share_of_exchange(helper_job& job) {
    helping_lanes const helpers;
    std::uint32_t outcome = 0;
    if (job.todo.what == warp_task::kind::exchange) {
      outcome = mpi::run(job.about.exchange, helpers.share) ? 0 : 1;
    } else {
      outcome = mpi::run(job.about.parts, helpers.share,
                         [&](part_copy const& part) { copy_by_all(part, helpers); });
    }
    if (outcome != 0) (void)atomicOr_block(&job.outcome, outcome);
  }
  __device__ __noinline__ static void do_share_of_reduction(helper_job const& job) {
    group_of_helpers const group;
    team_reduction const teams{job.about.reduction, group, job.share};
    if (teams.suits()) return teams.run();
    mpi::run(job.about.reduction,
             {job.share.first * group.size() + group.rank(), job.share.step * group.size()});
  }
  __device__ __noinline__ static void do_share_of_numbers(numbers_job const& job) {
    seat const at = own_seat();
    small_reduction_work const work{at, job.how, job.numbers, job.values};
    group_of_helpers const group;
    if (job.is_of_world)
      work.in_world(group);
    else
      work.in_block(group);
  }
  /// Copies a part of each lane. All lanes call it together.
  __device__ static void copy_by_all(part_copy const& part, helping_lanes const& helpers) {
    std::uint32_t const members = without_rank(helpers.members);
    QUARRY_NO_UNROLL
    for (std::uint32_t left = __ballot_sync(members, part.size != 0); left != 0; left &= left - 1) {
      int const lane = __ffs(static_cast<int>(left)) - 1;
      auto const shuffle = [&](std::uint64_t value) { return __shfl_sync(members, value, lane); };
      copy_job const job{
          reinterpret_cast<char*>(shuffle(reinterpret_cast<std::uint64_t>(part.to))),
          reinterpret_cast<char const*>(shuffle(reinterpret_cast<std::uint64_t>(part.from))),
          shuffle(part.size)};
      mpi::run(job, helpers.share);
    }
  }
  __device__ static post& own_post() {
    __shared__ post posts[16];  // of each rank of a thread block
    return posts[threadIdx.x / 64];
  }
  [[nodiscard]] __device__ static helper_job& own_job() {
    static_assert(sizeof(helper_job) <= copy_pool::bytes_of_job);
    if (are_a_warp()) return own_post().job;
    std::uint32_t const jobs = blockDim.x >> layout().shift;
    std::uint32_t const number = threadIdx.x >> layout().shift;
    return *reinterpret_cast<helper_job*>(quarry_mpi_shared + engine::shared_bytes() -
                                          (jobs - number) * copy_pool::bytes_of_job);
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

// SPDX-License-Identifier: Apache-2.0
// Collective operations of the world whose ranks read each other's memory, with few calls from the
// entry of the MPI function on. Calls before and between the meetings would take longer than these:
// a frame of a rank on one lane of a GPU takes a line of 128 bytes for each word.
#pragma once

#include "copy_bytes.hpp"
#include "copy_pool.hpp"
#include "errors.hpp"
#include "exchange_job.hpp"
#include "meeting.hpp"
#include "point_to_point.hpp"
#include "shared_reads.hpp"

#ifdef __CUDACC__
#include "warp_helpers.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// What these operations share: basic types in memory that all ranks can read, on the CPU or on one
/// GPU where ranks have helpers. Other ranks of the same call may go another way (alltoall,
/// broadcast_any, reduce_to_all): it has the same meetings, and publishes the same.
class entry_collective {
 public:
  static constexpr std::uint32_t max_elements = 1 << 20;  // more spend their time on copies

  /// `size`: of at most `max_elements`, or `not_small` (small_size).
  [[nodiscard]] QUARRY_FAST static bool suits(void const* data, std::uint32_t size,
                                              MPI_Comm communicator) {
    return !spans_processes && communicator == MPI_COMM_WORLD && size != 0 && size != not_small &&
           data != MPI_IN_PLACE && (is_on_host() || helpers_exist(layout().shift)) &&
           !spans_gpus() && is_shared_memory(data);
  }

 protected:
  /// Counts the operation, as `collective` does: later ones that send messages need its number.
  QUARRY_FAST static void begin() { ++self().member_of[0].collectives; }

  [[nodiscard]] QUARRY_FAST static published_place& place_of(std::uint32_t rank) {
    return places_of_world()[rank];
  }
  /// A function for each kind of operation: lanes that arrive here together have the same.
  template <call Which>
  QUARRY_FAST static void meet() {
    constexpr auto kind = static_cast<std::uint32_t>(Which);
    meeting::unfinished rest;
    if (!meeting::try_barrier(kind, true, rest)) meeting::finish_barrier(Which, kind, rest);
    join_lanes();
  }
  QUARRY_FAST static void read(copy_job const& job) {
#ifdef __CUDA_ARCH__
    warp_helpers::run(job);
#else
    copy_bytes(job.to, job.from, job.size);
#endif
  }
  /// What the MPI function returns.
  [[nodiscard]] QUARRY_FAST static int result(int error, char const* function) {
    return error == MPI_SUCCESS ? error
                                : fail(self(), MPI_COMM_WORLD, error, function, "rank", own_rank());
  }
};

/// MPI_Alltoall.
class entry_exchange : entry_collective {
 public:
  using entry_collective::suits;

  /// `part`: the bytes for each rank.
  QUARRY_FAST static int run(void const* sent, void* received, std::uint32_t part) {
    begin();
    exchange_job const job{places_of_world(),
                           static_cast<char*>(received),
                           part,
                           bytes{part} * own_rank(),
                           bytes{part} * layout().size,
                           layout().size,
                           own_rank()};
    place_of(job.own).publish(static_cast<char const*>(sent), job.published, nullptr);
    meet<call::alltoall>();
    int const error = read_all(job) ? MPI_SUCCESS : read_each(job);
    meet<call::alltoall>();
    return result(error, "MPI_Alltoall");
  }

 private:
  [[nodiscard]] QUARRY_FAST static bool read_all([[maybe_unused]] exchange_job const& job) {
#ifdef __CUDA_ARCH__
    return warp_helpers::suit(job) && warp_helpers::run(job);
#else
    return false;
#endif
  }
  /// What other ranks have published may have another size, or another alignment.
  QUARRY_SLOW static int read_each(exchange_job const& job) {
    int error = MPI_SUCCESS;
    for (std::uint32_t step = 0; step < job.size; ++step) {
      std::uint32_t const from = (job.own + step) % job.size;  // not all from one rank at once
      published_place const& place = job.places[from];
      bytes const part = place.size / job.size;
      if (part > job.part) error = MPI_ERR_TRUNCATE;
      copy_bytes(job.target_of(from), place.data + job.own * part,
                 part < job.part ? part : job.part);
    }
    return error;
  }
};

/// MPI_Bcast of more than meeting::best_broadcast().
class entry_broadcast : entry_collective {
 public:
  using entry_collective::suits;

  QUARRY_FAST static int run(void* data, std::uint32_t size, std::uint32_t root) {
    begin();
    bool const is_root = own_rank() == root;
    published_place& source = place_of(root);
    if (is_root) source.publish(static_cast<char const*>(data), size, nullptr);
    meet<call::shared_bcast>();
    bool const is_longer = source.size > size;
    if (!is_root)
      read({static_cast<char*>(data), source.data, is_longer ? bytes{size} : source.size});
    meet<call::shared_bcast>();
    return result(is_longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS, "MPI_Bcast");
  }
};

/// MPI_Allreduce of more than meets, as `reduce_directly` does it.
class entry_reduction : entry_collective {
 public:
  /// `sent` and `received` may be the same buffer.
  [[nodiscard]] QUARRY_FAST static bool suits(void const* sent, void const* received,
                                              std::uint32_t size, MPI_Datatype type, MPI_Op op,
                                              MPI_Comm communicator) {
    auto const element = static_cast<std::uint32_t>(type) >> 8;
    return (op == MPI_SUM || op == MPI_MAX || op == MPI_MIN) &&
           small_reduction::number_of(type) != small_reduction::number::none &&
           entry_collective::suits(sent, size, communicator) && is_shared_memory(received) &&
           ((unit_bits(sent) | unit_bits(received)) & (element - 1)) == 0;
  }

  QUARRY_FAST static int run(void const* sent, void* received, std::uint32_t size,
                             MPI_Datatype type, MPI_Op op) {
    begin();
    std::uint32_t const own = own_rank();
    place_of(own).publish(static_cast<char const*>(sent), size, static_cast<char*>(received));
    meet<call::shared_allreduce>();
    reduction_job const job{places_of_world(), 0, 1, 0, op, small_reduction::number_of(type), size};
    reduce_in_levels(job, own, layout().size, reduce, [] { meet<call::shared_allreduce>(); });
    published_place const& first = place_of(0);
    bool const is_longer = first.size > size;
    if (received != first.result && !is_longer)
      read({static_cast<char*>(received), first.result, first.size});
    meet<call::shared_allreduce>();
    return result(is_longer ? MPI_ERR_TRUNCATE : MPI_SUCCESS, "MPI_Allreduce");
  }

 private:
  QUARRY_FAST static void reduce(reduction_job const& job, std::uint32_t worker,
                                 std::uint32_t workers) {
#ifdef __CUDA_ARCH__
    warp_helpers::run(job, worker, workers);
#else
    reduce_share(job, worker, workers);
#endif
  }
};

}  // namespace quarry::inline QUARRY_ABI::mpi

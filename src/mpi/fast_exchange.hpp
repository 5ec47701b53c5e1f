// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_bytes.hpp"
#include "copy_pool.hpp"
#include "errors.hpp"
#include "exchange_job.hpp"
#include "meeting.hpp"
#include "point_to_point.hpp"

#ifdef __CUDACC__
#include "warp_helpers.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// The way of MPI_Alltoall from its entry to a meeting without calls, where those would take longer
/// than two meetings: for buffers of basic types of ranks of the world, on one GPU that has helpers
/// for them, or on the CPU. Other ranks of the same call may take the other way, which has the same
/// meetings.
class fast_exchange {
 public:
  static constexpr std::uint32_t most = 1024;  // elements for each rank; more take long anyway

  /// Whether the arguments allow this way. `part`: the bytes for each rank, or `not_small`.
  [[nodiscard]] QUARRY_FAST static bool suits(void const* sent, std::uint32_t part, void* received,
                                              MPI_Comm communicator) {
    return !spans_processes && communicator == MPI_COMM_WORLD && part != 0 && part != not_small &&
           sent != MPI_IN_PLACE && (is_on_host() || helpers_exist(layout().shift)) &&
           !spans_gpus() && is_shared_memory(sent) && is_shared_memory(received);
  }
  QUARRY_FAST fast_exchange(void const* sent, void* received, std::uint32_t part)
      : job_{places_of_world(),
             static_cast<char*>(received),
             part,
             bytes{part} * own_rank(),
             bytes{part} * layout().size,
             layout().size,
             own_rank()} {
    ++self().member_of[0].collectives;  // as `collective` does
    job_.places[job_.own].publish(static_cast<char const*>(sent), job_.published, nullptr);
    meet();
  }
  /// Returns what the MPI function returns.
  QUARRY_FAST int run(MPI_Comm communicator) const {
    int const error = read() ? MPI_SUCCESS : read_each(job_);
    meet();
    return error == MPI_SUCCESS
               ? MPI_SUCCESS
               : fail(self(), communicator, error, "MPI_Alltoall", "rank", job_.own);
  }

 private:
  QUARRY_FAST static void meet() {
    constexpr auto kind = static_cast<std::uint32_t>(call::alltoall);
    meeting::unfinished rest;
    if (!meeting::try_barrier(kind, true, rest))
      meeting::finish_barrier(call::alltoall, kind, rest);
    join_lanes();
  }
  [[nodiscard]] QUARRY_FAST bool read() const {
#ifdef __CUDA_ARCH__
    return warp_helpers::run(job_, job_.own_bits());
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

  exchange_job job_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

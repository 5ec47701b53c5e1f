// SPDX-License-Identifier: Apache-2.0
#include "shared_reads.hpp"

#include "copy_bytes.hpp"
#include "point_to_point.hpp"
#include "progress.hpp"

#ifdef __CUDACC__
#include "warp_helpers.cuh"
#else
#include "sliced_reduction.hpp"
#endif

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The members of the communicator in the caller's warp that call this together, if they are
/// neighbouring lanes, or the caller alone. Ranks of the world wait for each other first. Members
/// of another communicator cannot: other lanes of the warp may be elsewhere. On the CPU ranks have
/// no reason to work for each other, but tests let them.
struct reading_site {};
[[nodiscard]] QUARRY_HD simt::lane_group reading_lanes(collective const& of) {
#ifdef __CUDA_ARCH__
  if (layout().shift != 0) return simt::lane_group::alone();
#else
  if (the_meeting().joins_lanes == 0) return simt::lane_group::alone();
#endif
  if (is_world(*of.through.at)) join_lanes();
  auto const group = simt::lane_group::coalesced<reading_site>().match(
      reinterpret_cast<std::uint64_t>(of.through.at->shared));
  simt::lane_mask const lanes = group.members() >> group.leader();
  return (lanes & (lanes + 1)) == 0 ? group : simt::lane_group::alone();
}

/// Copies units of a buffer to those of all lanes in `served`. Each unit is loaded once.
template <class Unit>
QUARRY_HD void copy_to_lanes(simt::lane_group group, simt::lane_mask served, char* to,
                             char const* from, bytes units) {
  constexpr std::uint32_t batch = 4;
  std::uint32_t const lanes = group.size();
  QUARRY_NO_UNROLL
  for (bytes begin = 0; begin < units; begin += batch * lanes) {
    bytes const first = begin + group.rank();
    loaded_units<Unit, batch> loaded;
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k)
      if (first + k * lanes < units)
        loaded[k] = reinterpret_cast<Unit const*>(from)[first + k * lanes];
    QUARRY_NO_UNROLL
    for (simt::lane_mask left = served; left != 0; left &= left - 1) {
      auto* const target = reinterpret_cast<Unit*>(group.broadcast(to, lowest_one(left)));
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < batch; ++k)
        if (first + k * lanes < units) target[first + k * lanes] = loaded[k];
    }
  }
}

/// Copies to the lanes whose buffers the others can write. Returns whether this lane's was one.
QUARRY_HD bool copy_together(simt::lane_group group, char* to, char const* from, bytes size) {
  bool const can_write = to != nullptr && is_shared_memory(to);
  simt::lane_mask const served = group.ballot(can_write);
  auto const bits =
      static_cast<std::uint32_t>(group.or_reduce(can_write ? unit_bits(to) : 0)) | unit_bits(from);
  std::uint32_t unit = 1;
  if (bits % 16 == 0) {
    copy_to_lanes<granule>(group, served, to, from, size / (unit = 16));
  } else if (bits % 8 == 0) {
    copy_to_lanes<long_word>(group, served, to, from, size / (unit = 8));
  } else if (bits % 4 == 0) {
    copy_to_lanes<narrow_word>(group, served, to, from, size / (unit = 4));
  } else {
    copy_to_lanes<char>(group, served, to, from, size);
  }
  group.sync();
  bytes const rest = size % unit;
  if (can_write && rest != 0) copy_by_thread(to + (size - rest), from + (size - rest), rest);
  return can_write;
}

/// The exchanges of the lanes that `can_write`, one after the other, each by all lanes. Returns
/// whether the caller's is complete.
QUARRY_HD bool read_in_turn(simt::lane_group group, exchange_job const& job, bool can_write) {
  bool is_complete = false;
  simt::lane_mask const served = group.ballot(can_write);
  QUARRY_NO_UNROLL
  for (simt::lane_mask left = served; left != 0; left &= left - 1) {
    std::uint32_t const lane = lowest_one(left);
    exchange_job const of_lane{job.places,
                               group.broadcast(job.to, lane),
                               group.broadcast(job.part, lane),
                               group.broadcast(job.offset, lane),
                               group.broadcast(job.published, lane),
                               job.size,
                               group.broadcast(job.own, lane)};
    bool const is_sound = run(of_lane, {group.rank(), group.size()});
    bool const are_all_sound = group.ballot(!is_sound) == 0;
    if (simt::lane_group::own_lane() == lane) is_complete = are_all_sound;
  }
  group.sync();
  return is_complete;
}

}  // namespace

QUARRY_SLOW void read_common(collective const& of, char* to, char const* from, bytes size) {
  if (size == 0) return;
#ifdef __CUDA_ARCH__
  if (to != nullptr && warp_helpers::exist() && __isGlobal(to))
    return warp_helpers::run(copy_job{to, from, size});
#endif
  simt::lane_group const group = reading_lanes(of);
  if (group.size() > 1 && copy_together(group, to, from, size)) return;
  if (to != nullptr) copy_bytes(to, from, size);
}

QUARRY_SLOW bool read_parts(collective const& of, exchange_job const& job) {
  bool const can_write =
      job.part != 0 && job.part <= exchange_job::longest_part && is_shared_memory(job.to);
#ifdef __CUDA_ARCH__
  if (warp_helpers::exist()) return can_write && warp_helpers::suit(job) && warp_helpers::run(job);
#endif
  simt::lane_group const group = reading_lanes(of);
  if (group.size() == 1) {
    std::uint32_t const bits = job.own_bits();
    std::uint32_t const unit = bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : 4;
    return !is_on_host() && can_write && job.part <= 4 * unit && run(job, whole_share);
  }
  constexpr bytes longest_by_lanes = 64;
  bool const are_short = group.all_equal(job.part) && group.all_equal(job.published) &&
                         group.ballot(can_write) == group.members() && job.part <= longest_by_lanes;
  if (are_short)
    return run_by_lanes(job, group, static_cast<std::uint32_t>(group.or_reduce(job.own_bits())));
  return read_in_turn(group, job, can_write);
}

QUARRY_SLOW std::uint32_t read_parts(parts_job const& job) {
#ifdef __CUDA_ARCH__
  if (warp_helpers::exist() && is_shared_memory(job.to) && is_shared_memory(job.counts) &&
      is_shared_memory(job.displacements))
    return warp_helpers::run(job);
#endif
  return run(job, whole_share, [](part_copy const& part) {
    if (part.size != 0) copy_bytes(part.to, part.from, part.size);
  });
}

QUARRY_SLOW void reduce_share(reduction_job const& job, std::uint32_t worker,
                              std::uint32_t workers) {
#ifdef __CUDA_ARCH__
  if (warp_helpers::exist()) return warp_helpers::run(job, worker, workers);
#endif
#ifdef __CUDACC__
  run(job, {worker, workers});
#else
  reduce_slice(job, worker, workers);
#endif
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
// The work of collective operations whose ranks read each other's memory, in forms that several
// lanes can share. Neighbouring lanes access neighbouring addresses, and each lane has several
// loads in flight: a load of the GPU's memory takes as long as a hundred instructions.
#pragma once

#include "extension.hpp"
#include "published_place.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Units that a lane has loaded. On a GPU they lie in registers, which need no value before.
template <class Unit, std::uint32_t Count>
struct loaded_units {
#ifdef __CUDA_ARCH__
  Unit units[Count];
#else
  Unit units[Count] = {};
#endif
  [[nodiscard]] QUARRY_HD Unit& operator[](std::uint32_t index) { return units[index]; }
};

/// Copies `size` bytes from one buffer to another one.
struct copy_job {
  char* to;
  char const* from;
  bytes size;
};

/// A lane's share of a copy, with `Batch` loads in flight. What is left after the last whole unit
/// is the first lane's.
template <class Unit, std::uint32_t Batch>
QUARRY_HD void copy_share_of(copy_job const& job, lane_share share) {
  auto* const to = reinterpret_cast<Unit*>(job.to);
  auto const* const from = reinterpret_cast<Unit const*>(job.from);
  bytes const units = job.size / sizeof(Unit);
  QUARRY_NO_UNROLL
  for (bytes i = share.first; i < units; i += Batch * share.step) {
    loaded_units<Unit, Batch> loaded;
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < Batch; ++k)
      if (i + k * share.step < units) loaded[k] = from[i + k * share.step];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < Batch; ++k)
      if (i + k * share.step < units) to[i + k * share.step] = loaded[k];
  }
  if (share.first != 0) return;
  QUARRY_NO_UNROLL
  for (bytes i = units * sizeof(Unit); i < job.size; ++i) job.to[i] = job.from[i];
}

template <std::uint32_t Batch>
QUARRY_HD void run_with(copy_job const& job, lane_share share) {
  std::uint32_t const bits = unit_bits(job.to) | unit_bits(job.from);
  if (bits % 16 == 0) {
    copy_share_of<granule, Batch>(job, share);
  } else if (bits % 8 == 0) {
    copy_share_of<long_word, Batch>(job, share);
  } else if (bits % 4 == 0) {
    copy_share_of<narrow_word, Batch>(job, share);
  } else {
    copy_share_of<char, Batch>(job, share);
  }
}
QUARRY_SLOW inline void run(copy_job const& job, lane_share share) { run_with<8>(job, share); }

/// The same for the lanes of many warps of a multiprocessor, which need fewer loads of each lane in
/// flight. It saves no registers, whose bytes would be more than those of a short copy.
QUARRY_SLOW inline void run_lightly(copy_job const& job, lane_share share) {
  run_with<4>(job, share);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

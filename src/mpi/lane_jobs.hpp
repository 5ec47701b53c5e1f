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

/// Copies a part of each rank's published data, all parts of one size, to a buffer. Part i is of
/// rank i. It begins at `offset` in the data.
struct exchange_job {
  published_places places;
  char* to;
  bytes part;
  bytes offset;
  bytes published;      // by each rank; what a rank has published that is not as long, is not read
  std::uint32_t size;   // the number of ranks
  std::uint32_t start;  // the rank whose part is copied first
};

/// Parts of `members` ranks that are neighbours, whose lanes copy for all of them. Their parts lie
/// side by side in the published data.
struct exchange_members {
  simt::lane_group group;
  std::uint32_t count;

  [[nodiscard]] QUARRY_HD char* buffer_of(char* own, std::uint32_t member) const {
    return count == 1 ? own : group.broadcast(own, group.leader() + member);
  }
};

/// Which part a unit of one rank's data belongs to, and where in it.
struct unit_place {
  QUARRY_HD unit_place(std::uint32_t unit, std::uint32_t part_units)
      : member{unit / part_units}, in_part{unit - member * part_units} {}
  std::uint32_t member;
  bytes in_part;
};

/// A lane's share of an exchange. `job.offset` is that of the first member's part, and `distance`
/// that of the next member's from it. All lanes make the same steps. Returns whether all ranks have
/// published as many bytes as they should, at addresses for these units.
template <class Unit, std::uint32_t Batch>
[[nodiscard]] QUARRY_HD bool exchange_share_of(exchange_job const& job, bytes distance,
                                               exchange_members const& members, lane_share share) {
  auto const part_units = static_cast<std::uint32_t>(job.part / sizeof(Unit));
  std::uint32_t const rank_units = part_units * members.count;
  std::uint32_t const most = (1u << 20) / rank_units;
  std::uint32_t const window = most == 0 ? 1 : most;  // of ranks: units in it have 32-bit numbers
  bool is_complete = true;
  QUARRY_NO_UNROLL
  for (std::uint32_t first = 0; first < job.size; first += window) {
    std::uint32_t const ranks = job.size - first < window ? job.size - first : window;
    std::uint32_t const units = ranks * rank_units;
    QUARRY_NO_UNROLL
    for (std::uint32_t begin = 0; begin < units; begin += Batch * share.step) {
      char const* sources[Batch];
      std::uint32_t ranks_of[Batch];
      loaded_units<Unit, Batch> loaded;
      std::uint32_t done = 0;  // a bit for each unit that is loaded
      // all loads of places precede all loads of data
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < Batch; ++k) {
        std::uint32_t const unit = begin + k * share.step + share.first;
        std::uint32_t const number = unit < units ? unit / rank_units : 0;
        std::uint32_t const rank = job.start + first + number;
        ranks_of[k] = rank < job.size ? rank : rank - job.size;
        published_place const& place = job.places[ranks_of[k]];
        sources[k] = place.size == job.published ? place.data : nullptr;
      }
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < Batch; ++k) {
        std::uint32_t const unit = begin + k * share.step + share.first;
        if (unit >= units) continue;
        unit_place const at{unit % rank_units, part_units};
        if (sources[k] == nullptr || unit_bits(sources[k]) % sizeof(Unit) != 0) {
          is_complete = false;
          continue;
        }
        loaded[k] = *reinterpret_cast<Unit const*>(sources[k] + job.offset + at.member * distance +
                                                   at.in_part * sizeof(Unit));
        done |= 1u << k;
      }
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < Batch; ++k) {
        std::uint32_t const unit = begin + k * share.step + share.first;
        unit_place const at{unit % rank_units, part_units};
        char* const target = members.buffer_of(job.to, at.member) + ranks_of[k] * job.part +
                             at.in_part * sizeof(Unit);
        // A rank's own part may lie in place, and others read it now.
        bool const is_in_place =
            target == sources[k] + job.offset + at.member * distance + at.in_part * sizeof(Unit);
        if ((done >> k & 1) != 0 && !is_in_place) *reinterpret_cast<Unit*>(target) = loaded[k];
      }
    }
  }
  return is_complete;
}

/// `bits` has the bits of all addresses and sizes except for the addresses that ranks publish.
[[nodiscard]] QUARRY_SLOW inline bool run(exchange_job const& job, bytes distance,
                                          exchange_members const& members, lane_share share,
                                          std::uint32_t bits) {
  // As many loads in flight as 128 registers allow: with more ranks than have 128, buffers for all
  // pairs of ranks would not fit in a GPU's memory.
  if (bits % 16 == 0) return exchange_share_of<granule, 8>(job, distance, members, share);
  if (bits % 8 == 0) return exchange_share_of<long_word, 16>(job, distance, members, share);
  if (bits % 4 == 0) return exchange_share_of<narrow_word, 16>(job, distance, members, share);
  return exchange_share_of<char, 8>(job, distance, members, share);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
// Exchanges of parts of one size, in forms that several lanes can share.
#pragma once

#include "lane_jobs.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies a part of each rank's published data, all parts of one size, to a buffer. Part i is of
/// rank i. It begins at `offset` in the data.
struct exchange_job {
  published_places places;
  char* to;
  bytes part;
  bytes offset;
  bytes published;     // by each rank; what a rank has published that is not as long, is not read
  std::uint32_t size;  // the number of ranks
  std::uint32_t own;   // the rank whose buffer it is

  static constexpr bytes longest_part = bytes{1} << 31;  // so that its units have 32-bit numbers

  /// The rank whose part is copied first: the first of the 32 ranks that `own` is one of. So they
  /// read neighbouring parts at the same time, and not all ranks read from one.
  [[nodiscard]] QUARRY_HD std::uint32_t start() const { return own & ~31u; }
  [[nodiscard]] QUARRY_HD char* target_of(std::uint32_t rank) const { return to + rank * part; }
  /// The bits of all addresses and sizes that decide which units the copy can have, except for the
  /// addresses that ranks publish.
  [[nodiscard]] QUARRY_HD std::uint32_t own_bits() const {
    return unit_bits(to) | static_cast<std::uint32_t>(part | offset) % 16;
  }
  /// Whether the rank's own part lies in place. Then others read it now, so that it is not written,
  /// although the bytes would be the same.
  [[nodiscard]] QUARRY_HD bool is_in_place() const {
    return places[own].data + offset == target_of(own);
  }
};

/// What a rank has published, in a form that one load can get.
struct alignas(16) published_bytes {
  char const* data;
  bytes size;

  [[nodiscard]] QUARRY_HD static published_bytes of(published_place const& place) {
    return {place.data, place.size};
  }
  /// Whether it can be read in units of `unit` bytes and is as long as the job says.
  [[nodiscard]] QUARRY_HD bool suits(exchange_job const& job, std::uint32_t unit) const {
    return size == job.published && unit_bits(data) % unit == 0;
  }
};

/// The units of an exchange that a lane copies, one after the other, at equal distances. To find
/// the next one takes no division, for which a GPU needs some twenty instructions.
class unit_walk {
 public:
  QUARRY_HD unit_walk(exchange_job const& job, std::uint32_t part_units, lane_share share)
      : size_{job.size},
        part_units_{part_units},
        part_step_{share.step % part_units},
        rank_step_{share.step / part_units},
        in_part_{share.first % part_units},
        number_{share.first / part_units},
        rank_{wrapped(job.start() + number_)} {}

  /// Whether the walk has not passed the last unit.
  [[nodiscard]] QUARRY_HD bool has_unit() const { return number_ < size_; }
  /// The rank whose unit it is; some rank, if there is no unit.
  [[nodiscard]] QUARRY_HD std::uint32_t rank() const { return rank_; }
  /// The unit's number in the rank's part.
  [[nodiscard]] QUARRY_HD std::uint32_t in_part() const { return in_part_; }

  QUARRY_HD void advance() {
    in_part_ += part_step_;
    bool const is_next = in_part_ >= part_units_;
    in_part_ -= is_next ? part_units_ : 0;
    std::uint32_t const step = rank_step_ + (is_next ? 1 : 0);
    number_ += step;
    rank_ = wrapped(rank_ + step);
  }

 private:
  /// Some rank, if there are fewer ranks than a walk's step.
  [[nodiscard]] QUARRY_HD std::uint32_t wrapped(std::uint32_t rank) const {
    std::uint32_t const result = rank < size_ ? rank : rank - size_;
    return result < size_ ? result : 0;
  }

  std::uint32_t size_;
  std::uint32_t part_units_;
  std::uint32_t part_step_;
  std::uint32_t rank_step_;
  std::uint32_t in_part_;
  std::uint32_t number_;  // of the rank in the order in which ranks are read
  std::uint32_t rank_;
};

/// A lane's share of an exchange. Returns whether all ranks whose places it read have published as
/// many bytes as they should, at addresses for these units.
///
/// A step has three loops, over places, loads and stores, so that four loads are in flight
/// together: more of them need more registers than helpers have. Each loop walks again, because
/// what one of them stored for the next would need registers, too. `given` is copied: otherwise the
/// compiler loads it again after each store, which might change it.
template <class Unit>
[[nodiscard]] QUARRY_HD bool exchange_share_of(exchange_job const& given, lane_share share) {
  constexpr std::uint32_t batch = 4;
  exchange_job const job = given;
  bool const is_in_place = job.is_in_place();
  bool is_complete = true;
  unit_walk at{job, static_cast<std::uint32_t>(job.part / sizeof(Unit)), share};
  QUARRY_NO_UNROLL
  while (at.has_unit()) {
    published_bytes sources[batch];
    loaded_units<Unit, batch> loaded;
    std::uint32_t is_wanted = 0;  // a bit for each unit
    unit_walk next = at;
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k, next.advance())
      sources[k] = published_bytes::of(job.places[next.rank()]);
    next = at;
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k, next.advance()) {
      bool const is_sound = sources[k].suits(job, sizeof(Unit));
      is_complete &= is_sound;
      if (!is_sound || !next.has_unit()) continue;
      loaded[k] = reinterpret_cast<Unit const*>(sources[k].data + job.offset)[next.in_part()];
      is_wanted |= (is_in_place && next.rank() == job.own ? 0u : 1u) << k;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k, at.advance())
      if ((is_wanted >> k & 1) != 0)
        reinterpret_cast<Unit*>(job.target_of(at.rank()))[at.in_part()] = loaded[k];
  }
  return is_complete;
}

[[nodiscard]] QUARRY_SLOW inline bool run(exchange_job const& job, lane_share share) {
  std::uint32_t const bits = job.own_bits();
  if (bits % 16 == 0) return exchange_share_of<granule>(job, share);
  if (bits % 8 == 0) return exchange_share_of<long_word>(job, share);
  if (bits % 4 == 0) return exchange_share_of<narrow_word>(job, share);
  return exchange_share_of<char>(job, share);
}

/// The exchanges of all lanes of a group, each of which copies for its own rank: `to`, `offset` and
/// `own` are the lane's. For parts of a few units: the lanes read neighbouring parts. A lane loads
/// the place of one rank for all of them, and stores 16 bytes at once where it can.
class exchange_by_lanes {
 public:
  QUARRY_HD exchange_by_lanes(exchange_job const& job, simt::lane_group group)
      : job_{job}, group_{group}, is_in_place_{job.is_in_place()} {}

  /// Returns as `exchange_share_of`, the same for all lanes.
  template <class Unit>
  [[nodiscard]] QUARRY_HD bool run() const {
    std::uint32_t const start = group_.broadcast(job_.start());
    return read_from<Unit>(start, job_.size) && read_from<Unit>(0, start);
  }

 private:
  /// Reads the parts of ranks `first` to `end`.
  template <class Unit>
  [[nodiscard]] QUARRY_HD bool read_from(std::uint32_t first, std::uint32_t end) const {
    QUARRY_NO_UNROLL
    for (; first < end; first += group_.size()) {
      std::uint32_t const ranks = end - first < group_.size() ? end - first : group_.size();
      std::uint32_t const number = group_.rank() < ranks ? group_.rank() : 0;
      published_bytes const place = published_bytes::of(job_.places[first + number]);
      if (group_.ballot(!place.suits(job_, sizeof(Unit))) != 0) return false;
      read_known<Unit>(place.data, first, ranks);
    }
    return true;
  }

  /// Reads the parts of `ranks` ranks from `first` on. Each lane knows the data of one of them.
  template <class Unit>
  QUARRY_HD void read_known(char const* data, std::uint32_t first, std::uint32_t ranks) const {
    constexpr std::uint32_t batch = 16, in_granule = sizeof(granule) / sizeof(Unit);
    auto const part_units = static_cast<std::uint32_t>(job_.part / sizeof(Unit));
    std::uint32_t const units = ranks * part_units;
    std::uint32_t const skipped = is_in_place_ ? job_.own - first : ranks;  // rank, from `first` on
    auto* const target = reinterpret_cast<Unit*>(job_.target_of(first));
    std::uint32_t number = 0, in_part = 0;  // of the rank and of the unit that is loaded next
    QUARRY_NO_UNROLL
    for (std::uint32_t begin = 0; begin < units; begin += batch) {
      loaded_units<Unit, batch> loaded;
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < batch; ++k) {
        auto const* const source = reinterpret_cast<Unit const*>(
            group_.broadcast(data, group_.leader() + number) + job_.offset);
        if (begin + k < units) loaded[k] = source[in_part];
        if (++in_part != part_units) continue;
        in_part = 0;
        number += number + 1 < ranks ? 1 : 0;
      }
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < batch; k += in_granule) {
        if (skipped >= ranks && begin + k + in_granule <= units &&
            unit_bits(&target[begin + k]) == 0) {
          granule all;
          std::memcpy(&all, &loaded[k], sizeof all);
          *reinterpret_cast<granule*>(&target[begin + k]) = all;
          continue;
        }
        QUARRY_UNROLL
        for (std::uint32_t i = begin + k; i < begin + k + in_granule; ++i)
          if (i < units && (skipped >= ranks || i / part_units != skipped))
            target[i] = loaded[i - begin];
      }
    }
  }

  exchange_job job_;
  simt::lane_group group_;
  bool is_in_place_;
};

[[nodiscard]] QUARRY_SLOW inline bool run_by_lanes(exchange_job const& job, simt::lane_group group,
                                                   std::uint32_t bits) {
  exchange_by_lanes const exchange{job, group};
  if (bits % 16 == 0) return exchange.run<granule>();
  if (bits % 8 == 0) return exchange.run<long_word>();
  if (bits % 4 == 0) return exchange.run<narrow_word>();
  return exchange.run<char>();
}

}  // namespace quarry::inline QUARRY_ABI::mpi

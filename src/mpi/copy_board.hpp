// SPDX-License-Identifier: Apache-2.0
// Long copies of ranks, whose parts others copy, too.
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/core/config.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/this_lane.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// The blocks of a GPU's launch.
struct copier_layout {
  std::uint32_t ranks;        // of this GPU
  std::uint32_t rank_blocks;  // the first blocks
  std::uint32_t count;        // of copiers: the blocks after these
};

/// The long copies of a GPU's ranks. Copiers, which are no ranks, help with them.
///
/// A rank claims a place (C), writes what it wants to copy, opens its parts (O) and announces the
/// place. It copies parts itself, as the copiers do. When no part is left, it waits until the
/// copiers have done theirs (W), and frees the place (F). A copier looks for an announced place,
/// takes a part (T), copies it, and counts it (D). When all ranks have ended, the copiers end.
///
/// A copier waits for nothing but announcements, and a rank only for copiers that copy. So neither
/// can be part of a deadlock. A rank that finds no free place copies alone.
///
/// Memory order. (T) acquires what (O) has released: the copy, and what its rank has acquired from
/// other ranks, such as the data at `from`. Between the two, `left` changes only by
/// read-modify-writes, which continue the release sequence of (O). (D) releases the bytes at `to`,
/// and (W) acquires them; all that count a part are read-modify-writes, too. (C) acquires what (F)
/// has released: the rank before has seen that all of its parts are done. If a place gets another
/// copy after a copier has seen the announcement, the copier takes a part of that copy: only `left`
/// decides. The rest is relaxed (L): announcements and a look before (T) only save
/// read-modify-writes, and the count of ended ranks orders nothing.
///
/// Zeros are a board without copies.
class copy_board {
 public:
  static constexpr std::uint32_t places = 32;
  static constexpr bytes part_bytes = bytes{32} << 10;
  static constexpr bytes max_size = part_bytes << 30;  // of a copy

  /// Copies bytes that do not overlap, by `copy_bytes(to, from, size)`, which the copiers call as
  /// well. Returns false, and has done nothing, if the copy is too long or all places are in use.
  template <class CopyBytes>
  [[nodiscard]] QUARRY_HD bool copy(char* to, char const* from, bytes size,
                                    CopyBytes const& copy_bytes) {
    std::uint32_t const place = size <= max_size ? claim() : places;
    if (place == places) return false;
    auto const parts = static_cast<std::uint32_t>((size + part_bytes - 1) / part_bytes);
    entry& own = entries_[place];
    own.to = to;
    own.from = from;
    own.size = size;
    done_of(own).store(0, simt::relaxed);      // (L) ordered by (O)
    left_of(own).store(parts, simt::release);  // (O)
    std::uint64_t const bit = std::uint64_t{1} << place;
    (void)word().fetch_or(bit, simt::relaxed);  // (L)
    std::uint32_t own_parts = 0;
    QUARRY_NO_UNROLL
    while (copy_part(own, copy_bytes)) ++own_parts;
    (void)word().fetch_and(~bit, simt::relaxed);  // (L)
    QUARRY_NO_UNROLL
    while (done_of(own).load(simt::acquire) != parts - own_parts) simt::pause();  // (W)
    (void)used().fetch_and(~(1u << place), simt::release);                        // (F)
    return true;
  }

  /// A copier's step: copies a part, if there is one. `start`: the place where it looks first.
  /// Returns whether there was one.
  template <class CopyBytes>
  [[nodiscard]] QUARRY_HD bool help(std::uint32_t start, CopyBytes const& copy_bytes) {
    auto const announced = static_cast<std::uint32_t>(word().load(simt::relaxed));  // (L)
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < places && announced != 0; ++i) {
      std::uint32_t const place = (start + i) % places;
      if ((announced >> place & 1) == 0 || !copy_part(entries_[place], copy_bytes)) continue;
      (void)done_of(entries_[place]).fetch_add(1, simt::release);  // (D)
      return true;
    }
    return false;
  }

  /// A rank has ended.
  QUARRY_HD void leave() { word().add_blindly(one_ended); }  // (L)
  [[nodiscard]] QUARRY_HD std::uint32_t ended() {
    return static_cast<std::uint32_t>(word().load(simt::relaxed) / one_ended);  // (L)
  }

 private:
  struct alignas(64) entry {
    char* to;
    char const* from;
    bytes size;
    std::uint32_t left;  // parts that nobody has taken; atomic; below 0 if some came too late
    std::uint32_t done;  // parts that copiers have copied; atomic
  };
  static constexpr std::uint64_t one_ended = std::uint64_t{1} << places;

  [[nodiscard]] QUARRY_HD static simt::atomic_ref<std::uint32_t> left_of(entry& of) {
    return simt::atomic_ref<std::uint32_t>{of.left};
  }
  [[nodiscard]] QUARRY_HD static simt::atomic_ref<std::uint32_t> done_of(entry& of) {
    return simt::atomic_ref<std::uint32_t>{of.done};
  }
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint64_t> word() {
    return simt::atomic_ref<std::uint64_t>{word_};
  }
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> used() {
    return simt::atomic_ref<std::uint32_t>{used_};
  }
  [[nodiscard]] QUARRY_HD static bool is_left(std::uint32_t left) {
    return static_cast<std::int32_t>(left) > 0;
  }

  /// A place that nobody uses; `places` if there is none.
  [[nodiscard]] QUARRY_HD std::uint32_t claim() {
    std::uint32_t seen = used().load(simt::relaxed);  // (L)
    QUARRY_NO_UNROLL
    while (seen != ~0u) {
      std::uint32_t const bit = ~seen & (seen + 1);
      std::uint32_t const found = used().fetch_or(bit, simt::acquire);  // (C)
      if ((found & bit) == 0) return lowest_one(bit);
      seen = found;
    }
    return places;
  }

  /// Takes a part and copies it. Returns false if none is left. `left` counts down from the number
  /// of parts, at most 2^30, and each thread that comes too late takes 1 more once.
  template <class CopyBytes>
  [[nodiscard]] QUARRY_HD bool copy_part(entry& of, CopyBytes const& copy_bytes) {
    if (!is_left(left_of(of).load(simt::relaxed))) return false;         // (L)
    std::uint32_t const left = left_of(of).fetch_sub(1, simt::acquire);  // (T)
    if (!is_left(left)) return false;
    bytes const begin = (left - 1) * part_bytes;
    bytes const rest = of.size - begin;
    copy_bytes(of.to + begin, of.from + begin, rest < part_bytes ? rest : part_bytes);
    return true;
  }

  std::uint64_t word_;  // a bit for each announced place, and the number of ended ranks; atomic
  std::uint32_t used_;  // a bit for each place; atomic
  entry entries_[places];
};

}  // namespace quarry::inline QUARRY_ABI::mpi

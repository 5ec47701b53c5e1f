// SPDX-License-Identifier: Apache-2.0
// Exchanges of parts of different sizes, in a form that several lanes can share.
#pragma once

#include "lane_jobs.hpp"
#include "thread_copy.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies the part that each member of a communicator has published for this rank. Elements lie
/// without gaps, here and where `published_place::size` says so.
struct parts_job {
  published_places places;
  char* to;
  int const* counts;         // of each member's part, in this rank's elements
  int const* displacements;  // the same
  bytes element;             // of this rank
  std::uint32_t own;         // this rank
  std::uint32_t size;        // the number of members
  std::uint32_t start;       // the member whose part is copied first
};

/// What a share of the job has met. Shares that are a part of it together have all bits of it.
namespace parts_outcome {
inline constexpr std::uint32_t has_gaps = 1;     // parts of elements with gaps; they are not copied
inline constexpr std::uint32_t is_too_long = 2;  // a part with more elements than there is room for
}  // namespace parts_outcome

/// A part of a job.
struct part_copy {
  char* to;
  char const* from;
  bytes size;

  [[nodiscard]] QUARRY_HD bool has_words() const {
    return size >= sizeof(long_word) &&
           (unit_bits(to) | unit_bits(from) | static_cast<std::uint32_t>(size)) %
                   sizeof(long_word) ==
               0;
  }
};

/// Parts of more bytes are copied by all lanes of a share together.
inline constexpr bytes longest_of_lane = 256;

/// A lane's share of the members: each `share.step`-th. All lanes make the same steps. In each of
/// them all lanes call `copy_long(part)`, for a part without bytes if they have none. Returns bits
/// of `parts_outcome`.
///
/// The places of several members are loaded together, then their counts, then the first words of
/// their parts: each of these loads takes as long as a hundred instructions.
template <class CopyLong>
[[nodiscard]] QUARRY_HD std::uint32_t run(parts_job const& job, lane_share share,
                                          CopyLong const& copy_long) {
  constexpr std::uint32_t batch = 4;
  std::uint32_t outcome = 0;
  QUARRY_NO_UNROLL
  for (std::uint32_t begin = 0; begin < job.size; begin += batch * share.step) {
    published_place const* places[batch];
    part_copy parts[batch];
    long_word first[batch];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      std::uint32_t const step = begin + k * share.step + share.first;
      std::uint32_t const rank = job.start + step;
      bool const exists = step < job.size;
      places[k] = exists ? &job.places[rank < job.size ? rank : rank - job.size] : nullptr;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      parts[k] = {nullptr, nullptr, 0};
      first[k] = long_word{};
      if (places[k] == nullptr) continue;
      published_place const& source = *places[k];
      auto const rank = static_cast<std::uint32_t>(places[k] - &job.places[0]);
      bytes const length = static_cast<bytes>(source.counts[job.own]) * source.size;
      bytes const room = static_cast<bytes>(job.counts[rank]) * job.element;
      parts[k] = {
          job.to + job.displacements[rank] * static_cast<std::int64_t>(job.element),
          source.data + source.displacements[job.own] * static_cast<std::int64_t>(source.size),
          length < room ? length : room};
      if (length > room) outcome |= parts_outcome::is_too_long;
      if (source.size == 0) outcome |= parts_outcome::has_gaps;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k)
      if (parts[k].has_words()) first[k] = *reinterpret_cast<long_word const*>(parts[k].from);
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      part_copy const& part = parts[k];
      bool const is_long = part.size > longest_of_lane;
      if (!is_long && part.has_words()) {
        auto* const to = reinterpret_cast<long_word*>(part.to);
        *to = first[k];
        copy_units<long_word, 8>(to + 1, reinterpret_cast<long_word const*>(part.from) + 1,
                                 part.size / sizeof(long_word) - 1);
      } else if (!is_long && part.size != 0) {
        copy_by_thread(part.to, part.from, part.size);
      }
      copy_long(is_long ? part : part_copy{nullptr, nullptr, 0});
    }
  }
  return outcome;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

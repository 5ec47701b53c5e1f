// SPDX-License-Identifier: Apache-2.0
#include "split_order.hpp"

#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Runs of this many members are sorted without a meeting: each member looks at all of its run.
constexpr std::uint32_t first_run = 64;
/// So many runs become one between two meetings. More runs need fewer meetings, and each member
/// searches more runs.
constexpr std::uint32_t merged_runs = 32;

[[nodiscard]] QUARRY_HD bool is_before(wish const& left, wish const& right) {
  if (left.color != right.color) return left.color < right.color;
  if (left.key != right.key) return left.key < right.key;
  return left.rank < right.rank;
}

/// Wishes in order.
struct wish_run {
  wish const* first;
  std::uint32_t length;

  /// How many wishes `is_low` holds for: for a first part of the run, of at least `low`. Two steps
  /// if that is nothing more, or the whole run.
  template <class IsLow>
  [[nodiscard]] QUARRY_HD std::uint32_t count(std::uint32_t low, IsLow const& is_low) const {
    std::uint32_t high = length;
    if (low == high || !is_low(first[low])) return low;
    if (is_low(first[high - 1])) return high;
    while (high - low > 1) {  // that at `low` is low, that at `high` is not
      std::uint32_t const middle = low + (high - low) / 2;
      (is_low(first[middle]) ? low : high) = middle;
    }
    return high;
  }
};

}  // namespace

QUARRY_SLOW split_table::published& split_table::of(std::uint32_t member) const {
  static_assert(sizeof(published) <= meeting::part_bytes);
  std::uint32_t const world = among_.shared->world_rank(member, rank_.rank);
  return *reinterpret_cast<published*>(the_meeting().parts + world * meeting::part_bytes);
}

QUARRY_SLOW split_table::split_table(rank_state& rank, membership& among, call which,
                                     wish const& own)
    : rank_{rank}, among_{among}, which_{which}, own_{own} {
  std::uint32_t const size = among.size;
  color_part* parts = nullptr;
  if (own.rank == 0)
    parts = static_cast<color_part*>(
        allocate(size * (sizeof(color_part) + (size > first_run ? 2 * sizeof(wish) : 0))));
  of(own.rank) = {own, 0, parts};
  meet();
  parts_ = of(0).parts;
}

QUARRY_SLOW split_table::~split_table() {
  if (own_.rank == 0 && parts_ != nullptr) release(parts_);
}

QUARRY_SLOW wish_order split_table::order() const {
  std::uint32_t const size = among_.size;
  wish const own = own_;
  std::uint32_t begin = own.rank / first_run * first_run;
  std::uint32_t end = size - begin < first_run ? size : begin + first_run;
  wish_order result{0, 0, 0};
  for (std::uint32_t i = begin; i < end; ++i) {
    wish const other = of(i).own;
    result.place += is_before(other, own) ? 1 : 0;
    result.first += other.color < own.color ? 1 : 0;
    result.end += other.color <= own.color ? 1 : 0;
  }
  if (size <= first_run) return result;
  auto* from = reinterpret_cast<wish*>(parts_ + size);
  wish* to = from + size;
  from[begin + result.place] = own;
  for (std::uint32_t length = first_run;; length *= merged_runs) {
    meet();
    bool const is_last = (size - 1) / merged_runs < length;
    std::uint32_t const wide = length * merged_runs;
    begin = is_last ? 0 : own.rank / wide * wide;
    end = is_last || size - begin < wide ? size : begin + wide;
    auto const add_over_runs = [&](auto const& count_in) {
      for (std::uint32_t run = begin; run < end; run += length)
        count_in(wish_run{from + run, end - run < length ? end - run : length},
                 own.rank - run < length);
    };
    std::uint32_t const in_own_run = result.place;
    result = {0, 0, 0};
    add_over_runs([&](wish_run const& run, bool is_own) {
      std::uint32_t const lower =
          is_last ? run.count(0, [&](wish const& other) { return other.color < own.color; }) : 0;
      result.first += lower;
      result.place +=
          is_own ? in_own_run
                 : run.count(lower, [&](wish const& other) { return is_before(other, own); });
    });
    if (is_last) {
      if (result.place == result.first)
        add_over_runs([&](wish_run const& run, bool) {
          result.end += run.count(0, [&](wish const& other) { return other.color <= own.color; });
        });
      return result;
    }
    to[begin + result.place] = own;
    wish* const swapped = from;
    from = to;
    to = swapped;
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

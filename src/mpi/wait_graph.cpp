// SPDX-License-Identifier: Apache-2.0
#include "wait_graph.hpp"

#include "calls.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <sstream>
#include <utility>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr std::uint32_t nobody = ~std::uint32_t{0};
constexpr std::size_t most_shown = 8;  // ranks of a circle
constexpr std::size_t most_rows = 4;   // circles, and ranks that others wait for

bool waits(rank_state const& rank) { return rank.stage != life::done && rank.waiting.call != 0; }

/// Whether the rank waits until all ranks of its communicator are in its operation, and not for one
/// of them.
bool meets(rank_state const& rank) {
  return waits(rank) && rank.waiting.peer == MPI_PROC_NULL &&
         rank.waiting.call < first_scheduled_call &&
         is_collective(static_cast<call>(rank.waiting.call));
}

/// Whether a message of any rank ends the wait.
bool waits_for_any(rank_state const& rank) { return rank.waiting.peer == MPI_ANY_SOURCE; }

/// An operation of one communicator.
struct meeting_kind {
  std::uint32_t call;
  std::uint32_t context;  // 0: the world
  std::int32_t numbers;   // that are reduced, if several
  bool has_all_ranks;     // the communicator is the world or a copy of it
  auto operator<=>(meeting_kind const&) const = default;

  /// Whether the rank must come to the operation and is elsewhere. Who belongs to a communicator of
  /// fewer ranks is not known here. But a rank that waits in another call of it does.
  bool lacks(rank_state const& rank) const {
    bool const is_other = rank.waiting.call != call || (meets(rank) && rank.waiting.tag != numbers);
    if (has_all_ranks) return !meets(rank) || is_other || rank.waiting.context != context;
    return waits(rank) && (rank.waiting.context | 1) == context && is_other;
  }
};

/// For each rank, the one that it waits for.
std::vector<std::uint32_t> edges_of(std::vector<rank_state> const& ranks) {
  std::map<meeting_kind, std::uint32_t> absent;  // the lowest rank that an operation lacks
  auto const absent_from = [&](meeting_kind const& which) {
    auto const [found, is_new] = absent.try_emplace(which, nobody);
    for (std::uint32_t i = 0; is_new && i < ranks.size() && found->second == nobody; ++i)
      if (which.lacks(ranks[i])) found->second = i;
    return found->second;
  };
  std::vector<std::uint32_t> next(ranks.size(), nobody);
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    rank_state const& rank = ranks[i];
    if (meets(rank)) {
      bool const has_all_ranks = rank.waiting.context == 0 || rank.awaiting_members == ranks.size();
      next[i] =
          absent_from({rank.waiting.call, rank.waiting.context, rank.waiting.tag, has_all_ranks});
    } else if (waits(rank) && rank.awaited >= 0 &&
               static_cast<std::size_t>(rank.awaited) < ranks.size()) {
      next[i] = static_cast<std::uint32_t>(rank.awaited);
    }
  }
  return next;
}

std::string plural(std::size_t count, char const* noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::string describe_wait_graph(std::vector<rank_state> const& ranks) {
  std::vector<std::uint32_t> const next = edges_of(ranks);
  std::size_t const size = ranks.size();
  // Ranks that nobody waits for are removed one after another. Those that are left are in circles,
  // since each rank waits for one.
  std::vector<std::uint32_t> waiters(size, 0);      // that are not removed
  std::vector<std::uint32_t> all_waiters(size, 0);  // directly or through others
  for (std::uint32_t const to : next)
    if (to != nobody) ++waiters[to];
  std::vector<std::uint32_t> removed;
  for (std::uint32_t i = 0; i < size; ++i)
    if (waiters[i] == 0) removed.push_back(i);
  for (std::size_t k = 0; k < removed.size(); ++k) {
    std::uint32_t const to = next[removed[k]];
    if (to == nobody) continue;
    all_waiters[to] += 1 + all_waiters[removed[k]];
    if (--waiters[to] == 0) removed.push_back(to);
  }

  std::map<std::size_t, std::vector<std::uint32_t>> circles;  // the lowest ranks, by length
  std::vector<bool> is_seen(size, false);
  for (std::uint32_t const i : removed) is_seen[i] = true;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (is_seen[i]) continue;
    std::size_t length = 0;
    for (std::uint32_t at = i; !is_seen[at]; at = next[at], ++length) is_seen[at] = true;
    circles[length].push_back(i);
  }
  std::ostringstream text;
  std::size_t rows = 0;
  for (auto const& [length, first] : circles) {
    if (++rows > most_rows) break;
    text << "  a circle of " << plural(length, "rank") << ": " << first.front();
    std::uint32_t at = next[first.front()];
    for (std::size_t k = 1; k < std::min(length, most_shown); ++k, at = next[at])
      text << " -> " << at;
    text << (length > most_shown ? " -> ... -> " : " -> ") << first.front();
    if (first.size() > 1)
      text << ", and " << plural(first.size() - 1, "other") << " of this length";
    text << '\n';
  }

  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;  // waiters, rank
  for (std::uint32_t i = 0; i < size; ++i)
    if (next[i] == nobody && all_waiters[i] != 0) ends.emplace_back(all_waiters[i], i);
  std::stable_sort(ends.begin(), ends.end(),
                   [](auto const& left, auto const& right) { return left.first > right.first; });
  for (std::size_t k = 0; k < std::min(ends.size(), most_rows); ++k) {
    rank_state const& end = ranks[ends[k].second];
    text << "  " << plural(ends[k].first, "rank") << (ends[k].first == 1 ? " waits" : " wait")
         << ", directly or through others, for rank " << ends[k].second
         << (end.stage == life::done ? ", which has ended"
             : !waits(end)           ? ", which does not wait"
             : waits_for_any(end)    ? ", which waits for any rank"
                                     : ", which waits for no single rank")
         << '\n';
  }
  if (ends.size() > most_rows)
    text << "  and others for " << plural(ends.size() - most_rows, "other rank") << '\n';
  return text.str();
}

}  // namespace quarry::inline QUARRY_ABI::mpi

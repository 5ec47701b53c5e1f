// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/plan.hpp"

#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace quarry::inline QUARRY_ABI {
namespace {

constexpr std::size_t max_problems = 100;

}  // namespace

std::vector<std::string> audit(plan const& checked) {
  std::vector<std::string> problems;
  auto const add = [&](std::string text) {
    if (problems.size() < max_problems) problems.push_back(std::move(text));
  };
  try {
    check_alignment("plan", checked.alignment);
  } catch (bad_argument const& wrong) {
    return {wrong.message()};
  }
  auto const& all = checked.allocations;
  auto const count = all.size();
  if (count > max_plan_allocations)
    return {std::to_string(count) + " allocations exceed the limit of " +
            std::to_string(max_plan_allocations)};
  if (checked.period_begin > count)
    return {"the period begins at allocation " + std::to_string(checked.period_begin) + " of " +
            std::to_string(count)};
  bytes const mask = checked.alignment - 1;
  if ((checked.size & mask) != 0) add("the size is not a multiple of the alignment");
  if (checked.lower_bound > checked.size) add("the lower bound exceeds the size");

  // a change at a time: an allocation begins or ends. Ends come first
  struct change {
    std::uint64_t time;
    bool begins;
    std::size_t number;
  };
  std::vector<change> changes;
  for (std::size_t i = 0; i < count; ++i) {
    auto const& each = all[i];
    auto const refuse = [&](char const* reason) {
      add("allocation " + std::to_string(i) + ' ' + reason);
    };
    std::uint64_t const period = count - checked.period_begin;
    if (each.size == 0 || (each.size & mask) != 0) {
      refuse("has a size that is no multiple of the alignment");
    } else if (each.min_size > each.size || (each.min_size & mask) != 0) {
      refuse("has a least size that is no multiple of the alignment, or exceeds its size");
    } else if (each.offset == not_planned) {
      continue;
    } else if ((each.offset & mask) != 0) {
      refuse("has an offset that is no multiple of the alignment");
    } else if (each.offset > checked.size || each.size > checked.size - each.offset) {
      refuse("does not lie in the range");
    } else if (each.freed_before <= i ||
               (i < checked.period_begin ? each.freed_before > count
                                         : each.freed_before - i > period)) {
      refuse("is freed too late, or before it begins");
    } else {
      changes.push_back({i, true, i});
      changes.push_back({std::min<std::uint64_t>(each.freed_before, count), false, i});
      if (each.freed_before <= count) continue;
      changes.push_back({checked.period_begin, true, i});
      changes.push_back({each.freed_before - period, false, i});
    }
  }
  std::ranges::sort(changes, [](change const& a, change const& b) {
    return a.time != b.time ? a.time < b.time : a.begins < b.begins;
  });
  std::map<bytes, std::size_t> live;  // by offset
  for (change const& each : changes) {
    bytes const offset = all[each.number].offset, end = offset + all[each.number].size;
    if (!each.begins) {
      if (auto const found = live.find(offset); found != live.end() && found->second == each.number)
        live.erase(found);
      continue;
    }
    auto const next = live.lower_bound(offset);
    auto const overlaps_with = [&](std::size_t other) {
      add("allocation " + std::to_string(each.number) + " overlaps allocation " +
          std::to_string(other) + ", which lives at the same time");
    };
    if (next != live.end() && next->first < end) {
      overlaps_with(next->second);
    } else if (next != live.begin() &&
               std::prev(next)->first + all[std::prev(next)->second].size > offset) {
      overlaps_with(std::prev(next)->second);
    } else {
      live.emplace(offset, each.number);
    }
  }
  return problems;
}

}  // namespace quarry::inline QUARRY_ABI

// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/plan.hpp"

#include "quarry/host/resources/resource.hpp"
#include "quarry/trace/reader.hpp"
#include "trace/address_map.hpp"
#include "trace/placement.hpp"
#include "trace/repetition.hpp"

#include <algorithm>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::uint64_t max_overlaps = std::uint64_t{1} << 33;

/// Collects the sizes and lifetimes of a trace's allocations.
class lifetime_recorder {
 public:
  explicit lifetime_recorder(bytes alignment) : alignment_{alignment} {}

  void add(std::span<event const> events) {
    for (event const& each : events) {
      if (each.address == 0) continue;  // of size 0, by allocators that return null for it
      if (each.kind == event_kind::allocate) {
        allocate(each);
      } else if (each.kind == event_kind::deallocate) {
        free(each.address);
      }
    }
  }
  /// Allocations without a free have `end` equal to `not_freed`.
  [[nodiscard]] std::vector<lifetime>& result() { return allocations_; }
  /// The period by sizes, or else by call sites.
  [[nodiscard]] repetition find_repetition() const {
    std::vector<std::uint64_t> keys;
    keys.reserve(allocations_.size());
    for (lifetime const& each : allocations_) keys.push_back(each.size);
    auto found = trace::find_repetition(allocations_, keys);
    if (!found.sequence.empty() || std::ranges::count(call_sites_, 0u) == std::ssize(call_sites_))
      return found;
    keys.assign(call_sites_.begin(), call_sites_.end());
    return trace::find_repetition(allocations_, keys);
  }

 private:
  void allocate(event const& request) {
    if (request.size > max_bytes_at_once)
      throw bad_argument{"plan: allocation " + std::to_string(allocations_.size()) + " has " +
                         std::to_string(request.size) + " bytes; " + request_too_large};
    if (allocations_.size() == max_trace_allocations)
      throw bad_argument{"plan: the trace has more than " + std::to_string(max_trace_allocations) +
                         " allocations. Record fewer iterations"};
    auto const number = static_cast<std::uint32_t>(allocations_.size());
    if (!live_.insert(request.address, number)) {
      free(request.address);  // its free is missing
      (void)live_.insert(request.address, number);
    }
    bytes const rounded = (std::max<bytes>(request.size, 1) + alignment_ - 1) & ~(alignment_ - 1);
    allocations_.push_back({rounded, not_freed, 0});
    call_sites_.push_back(request.call_site);
  }
  void free(std::uint64_t address) {
    if (auto const number = live_.remove(address))
      allocations_[*number].end = static_cast<std::uint32_t>(allocations_.size());
  }

  bytes alignment_;
  address_map<std::uint32_t> live_;
  std::vector<lifetime> allocations_;
  std::vector<std::uint32_t> call_sites_;
};

[[nodiscard]] bytes peak_of(placement_problem const& problem) {
  auto const live = live_bytes(problem);
  return live.empty() ? 0 : std::ranges::max(live);
}

/// The problem of the allocations before a period, and of one repetition. Sets the sizes of the
/// repetition in `sizes` and `min_sizes`.
[[nodiscard]] placement_problem problem_of_period(std::vector<lifetime> allocations,
                                                  repetition const& found,
                                                  std::vector<bytes>& sizes,
                                                  std::vector<bytes>& min_sizes) {
  auto const length = static_cast<std::uint32_t>(found.sequence.size());
  // begins the period where the fewest bytes are live: few allocations wrap
  std::uint32_t begin = found.begin;
  {
    placement_problem all{allocations, 0};
    auto const count = static_cast<std::uint32_t>(allocations.size());
    for (lifetime& each : all.allocations) each.end = std::min(each.end, count);
    auto const live = live_bytes(all);
    auto const before = [&](std::uint32_t i) { return live[i] - allocations[i].size; };
    for (std::uint32_t i = begin; i < found.begin + length; ++i) {
      if (before(i) < before(begin)) begin = i;
    }
  }
  std::uint32_t const end = begin + length;
  allocations.resize(end);
  sizes.resize(end);
  for (std::uint32_t i = 0; i < end; ++i) {
    lifetime& each = allocations[i];
    if (i >= begin) {
      auto const& repeated = found.sequence[(i - found.begin) % length];
      sizes[i] = repeated.size;
      min_sizes[i] = repeated.min_size;
      // what outlives a whole period has no place: the next repetition needs it
      each = {repeated.duration == 0 ? 0 : repeated.size, i + repeated.duration, 0};
      if (each.end > end) each.wrapped_end = each.end - length;
    }
    each.end = std::min(each.end, end);
  }
  return {std::move(allocations), begin};
}

/// The problem of all allocations of a trace.
[[nodiscard]] placement_problem problem_of_trace(std::vector<lifetime> allocations) {
  auto const total = static_cast<std::uint32_t>(allocations.size());
  for (lifetime& each : allocations) each.end = std::min(each.end, total);
  return {std::move(allocations), total};
}

/// Sizes that vary may be largest in different repetitions. If a period needs more than this
/// multiple of the trace's peak, a plan of the whole trace is better.
constexpr double max_excess_of_period = 1.1;

[[nodiscard]] plan plan_of(lifetime_recorder& recorder, plan_options const& options) {
  std::vector<lifetime>& allocations = recorder.result();
  auto const found = options.finds_period ? recorder.find_repetition() : repetition{};
  std::vector<bytes> sizes, min_sizes(allocations.size());
  for (lifetime const& each : allocations) sizes.push_back(each.size);
  placement_problem problem;
  if (found.sequence.empty()) {
    problem = problem_of_trace(std::move(allocations));
  } else {
    auto sizes_of_period = sizes;
    problem = problem_of_period(allocations, found, sizes_of_period, min_sizes);
    auto whole = problem_of_trace(std::move(allocations));
    if (static_cast<double>(peak_of(problem)) >
        max_excess_of_period * static_cast<double>(peak_of(whole))) {
      problem = std::move(whole);
      std::ranges::fill(min_sizes, 0);
    } else {
      sizes = std::move(sizes_of_period);
    }
  }
  if (problem.allocations.size() > max_plan_allocations)
    throw bad_argument{"plan: " + std::to_string(problem.allocations.size()) +
                       " allocations exceed the limit of " + std::to_string(max_plan_allocations) +
                       ". Record fewer iterations"};
  if (auto const pairs = overlaps(problem); pairs > max_overlaps)
    throw bad_argument{"plan: " + std::to_string(pairs) +
                       " pairs of allocations live at one time, more than 2^33. Record fewer "
                       "iterations"};
  plan result;
  result.alignment = options.alignment;
  result.period_begin = problem.wrap_begin;
  result.lower_bound = peak_of(problem);
  auto placed =
      place(problem, result.lower_bound, options.max_steps, options.seed, options.progress);
  result.size = placed.size;
  result.method = std::move(placed.method);
  auto const length = problem.allocations.size() - problem.wrap_begin;
  for (std::size_t i = 0; i < problem.allocations.size(); ++i) {
    lifetime const& each = problem.allocations[i];
    bool const is_planned = each.size != 0;
    result.allocations.push_back({sizes[i], is_planned ? placed.offsets[i] : not_planned,
                                  each.wrapped_end != 0 ? each.wrapped_end + length : each.end,
                                  min_sizes[i]});
  }
  return result;
}

void check(plan_options const& options) { check_alignment("plan_options", options.alignment); }

}  // namespace

plan make_plan(std::span<event const> events, plan_options const& options) {
  check(options);
  lifetime_recorder recorder{options.alignment};
  recorder.add(events);
  return plan_of(recorder, options);
}

plan make_plan(reader& trace, plan_options const& options) {
  check(options);
  lifetime_recorder recorder{options.alignment};
  std::vector<event> events(4096);
  while (std::size_t const count = trace.read(events)) recorder.add(std::span{events}.first(count));
  return plan_of(recorder, options);
}

period find_period(std::span<event const> events, bytes alignment) {
  check_alignment("find_period", alignment);
  lifetime_recorder recorder{alignment};
  recorder.add(events);
  auto const found = recorder.find_repetition();
  return {found.begin, found.sequence.size(), found.repetitions};
}

}  // namespace quarry::inline QUARRY_ABI::trace

// SPDX-License-Identifier: Apache-2.0
// What a replay is told by Python, and what it tells Python.
#pragma once

#include "quarry/trace/plan.hpp"
#include "quarry/trace/replay.hpp"

#include "module.hpp"
#include "options.hpp"
#include "resources.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace quarry::python {

class replay_settings {
 public:
  /// `heuristic` replaces that of `pool`.
  replay_settings(std::string const& strategy, std::string const& heuristic,
                  pool_options const& pool, double us_per_allocation, double us_per_gib,
                  double us_per_free, std::uint64_t stream_delay, std::size_t max_samples,
                  std::uint64_t sample_begin, std::optional<std::uint64_t> sample_end,
                  std::optional<std::string> const& resource, int device,
                  std::optional<routing_table> routing, std::optional<plan> plan)
      : options{.placement = trace::strategy_named(strategy),
                .pool = pool,
                .cost = cost_of(us_per_allocation, us_per_free, us_per_gib),
                .stream_delay = stream_delay,
                .max_samples = max_samples,
                .sample_begin = sample_begin},
        routing_{std::move(routing)},
        plan_{std::move(plan)} {
    if (sample_end) options.sample_end = *sample_end;
    auto const named = trace::heuristic_named(heuristic);
    options.pool.coalesce = named.value;
    options.rules = named.rules;
    if (plan_) options.plan = &*plan_;
    if (resource) {
      upstream_ = std::make_unique<any_resource>(resource_named(*resource, device));
      options.upstream = upstream_.get();
    }
  }

  /// The options for a trace with these call sites. Both must outlive the replayer.
  [[nodiscard]] trace::replay_options options_for(trace::name_table const& call_sites) const {
    trace::replay_options result = options;
    if (routing_) {
      result.routing = &*routing_;
      result.call_sites = &call_sites;
    }
    return result;
  }

  trace::replay_options options;

 private:
  std::unique_ptr<any_resource> upstream_;
  std::optional<routing_table> routing_;
  std::optional<plan> plan_;
};

/// The result as the arguments of ReplayResult. Needs Python's lock.
[[nodiscard]] text_dict dict_of(trace::replay_result const& replayed);
/// The same, with the call site of the first failure as `failed_call_site`.
[[nodiscard]] text_dict dict_of(trace::replay_result const& replayed,
                                trace::name_table const& call_sites);

}  // namespace quarry::python

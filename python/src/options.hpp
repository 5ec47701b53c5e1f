// SPDX-License-Identifier: Apache-2.0
// Conversions between the options of pools and what Python states them by. Each option has one name
// in Python: that of its argument, of its member and of its key in a dictionary.
#pragma once

#include "quarry/host/pools/pool_options.hpp"
#include "quarry/trace/replay.hpp"

#include "module.hpp"

#include <optional>

namespace quarry::python {

/// None stands for no limit.
[[nodiscard]] inline bytes limit_of(std::optional<bytes> limit) { return limit.value_or(no_limit); }

/// The time that calls of a modelled upstream take.
[[nodiscard]] inline trace::upstream_cost cost_of(
    double us_per_allocation, double us_per_free,
    double us_per_gib = trace::upstream_cost{}.us_per_gib) {
  return {
      .us_per_allocation = us_per_allocation, .us_per_gib = us_per_gib, .us_per_free = us_per_free};
}

/// The options that a replay of a candidate of `tune` sets, as arguments of `quarry.replay`.
[[nodiscard]] text_dict replay_arguments(trace::replay_options const& options);

}  // namespace quarry::python

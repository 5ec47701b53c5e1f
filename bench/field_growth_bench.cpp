// SPDX-License-Identifier: Apache-2.0
// Which growth policy serves which pattern of sizes? (The question that the seed of coalescing
// heuristics leaves open.)
//
// 32 arrays of doubles change size 400 times, by a pattern; counted, not timed: bytes copied by
// each resize, in times of what is needed at the end of it, and what the arrays hold beyond what
// they need, as mean over the resizes. A `paged` array has pages of 64 KiB of its own, and copies
// nothing. One figure is a time: a resize, with the copy.
#include "trial.hpp"

#include "quarry/host/pools/growable_array.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/platform/host_pages.hpp"

#include <cmath>
#include <memory>
#include <random>

namespace {

using namespace quarry::literals;
using quarry::detail::growth_policy;
using host_pool = quarry::pool<quarry::host_resource>;

constexpr std::size_t arrays = 32, changes = 400;
using sizes = std::vector<std::size_t>;  // of one array, change by change

/// Sizes are about 4,000 to 100,000 doubles.
sizes pattern(std::string const& name, std::uint32_t seed) {
  std::mt19937 random{seed};
  auto const noise = [&](double share) {
    return 1 + share * (static_cast<double>(random() % 2001) / 1000.0 - 1);
  };
  sizes result;
  double now = 10'000;
  for (std::size_t i = 0; i < changes; ++i) {
    double const t = static_cast<double>(i) / changes;
    if (name == "grows") now = 4000 + 96'000 * t;
    if (name == "refines-and-coarsens") now = 40'000 * (1 + 0.6 * std::sin(t * 40)) * noise(0.05);
    if (name == "wanders") now = std::clamp(now * noise(0.1), 4000.0, 100'000.0);
    if (name == "bursts") now = random() % 40 == 0 ? 100'000 : 8000 * noise(0.1);
    if (name == "one-peak") now = 5000 + 90'000 * std::exp(-200 * (t - 0.2) * (t - 0.2));
    result.push_back(static_cast<std::size_t>(now));
  }
  return result;
}

struct sums {
  double copied = 0, reserved = 0, needed = 0, seconds = 0;
  void report(std::string const& shape, char const* policy) const {
    auto const params = bench::parameters{}.add("pattern", shape).add("policy", policy);
    bench::record("host/field/copied_per_needed", params, copied / needed, "ratio");
    bench::record("host/field/held_per_needed", params, reserved / needed, "ratio");
    bench::record("host/field/resize", params, seconds * 1e6 / (arrays * changes), "us");
  }
};

template <class GrowableArray>
double seconds_of(GrowableArray& one, std::size_t size) {
  auto const base = std::chrono::steady_clock::now();
  one.resize(size);
  if (size != 0) one.data()[size - 1] = 1;  // a user touches what he asked for
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - base).count();
}

void measure(std::string const& shape) {
  std::vector<sizes> all, earlier;
  for (std::uint32_t i = 0; i < arrays; ++i) {
    all.push_back(pattern(shape, i + 1));
    earlier.push_back(pattern(shape, i + 1001));  // another run of the same simulation
  }
  auto const in_a_pool = [&](char const* name, auto const& policy_of) {
    host_pool from{quarry::host_resource{}};
    std::vector<quarry::growable_array<double, host_pool>> fields;
    for (std::size_t i = 0; i < arrays; ++i) fields.emplace_back(from, policy_of(i));
    sums result;
    for (std::size_t change = 0; change < changes; ++change) {
      for (std::size_t i = 0; i < arrays; ++i) {
        result.seconds += seconds_of(fields[i], all[i][change]);
        result.needed += static_cast<double>(all[i][change] * sizeof(double));
        result.reserved += static_cast<double>(fields[i].room() * sizeof(double));
      }
    }
    for (auto const& each : fields) result.copied += static_cast<double>(each.counts().copied);
    result.report(shape, name);
  };
  in_a_pool("exact", [](std::size_t) { return growth_policy::exact(); });
  in_a_pool("geometric-1.5", [](std::size_t) { return growth_policy::geometric(1.5); });
  in_a_pool("geometric-2", [](std::size_t) { return growth_policy::geometric(2); });
  in_a_pool("hysteresis", [](std::size_t) { return growth_policy::hysteresis(); });
  in_a_pool("history-16",
            [&](std::size_t i) { return growth_policy::from_history(earlier[i], 16); });
  in_a_pool("history-64",
            [&](std::size_t i) { return growth_policy::from_history(earlier[i], 64); });
  for (bool const is_exact : {true, false}) {
    std::vector<std::unique_ptr<quarry::paged_array<double, quarry::host_pages>>> fields;
    auto const policy = is_exact ? growth_policy::exact() : growth_policy::hysteresis();
    for (std::size_t i = 0; i < arrays; ++i)
      fields.push_back(std::make_unique<quarry::paged_array<double, quarry::host_pages>>(
          quarry::host_pages{}, 1'000'000, policy));
    sums result;
    for (std::size_t change = 0; change < changes; ++change) {
      for (std::size_t i = 0; i < arrays; ++i) {
        result.seconds += seconds_of(*fields[i], all[i][change]);
        result.needed += static_cast<double>(all[i][change] * sizeof(double));
        result.reserved += static_cast<double>(fields[i]->reserved());
      }
    }
    result.report(shape, is_exact ? "paged" : "paged-hysteresis");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_asked_for(argc, argv)) return 0;
  for (char const* const shape : {"grows", "refines-and-coarsens", "wanders", "bursts", "one-peak"})
    measure(shape);
}

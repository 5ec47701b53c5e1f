// SPDX-License-Identifier: Apache-2.0
// Which growth policy suits which pattern of sizes? (The seed of the coalescing heuristics leaves
// this question open.)
//
// 32 arrays of doubles change their size 400 times by a pattern. The program counts two quantities
// over all resizes: the bytes that resizes copy, divided by the bytes that the arrays need after
// them, and the bytes that the arrays reserve, divided by the bytes that they need. A `paged` array
// has its own pages of 64 KiB and copies nothing. One figure is a time: a resize with its copy.
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
using sizes = std::vector<std::size_t>;  // of one array after each change

/// The sizes of an array, about 4,000 to 100,000 doubles.
sizes pattern(std::string const& name, std::uint32_t seed) {
  std::mt19937 random{seed};
  auto const noise = [&](double share) {
    return 1 + share * (static_cast<double>(random() % 2001) / 1000.0 - 1);
  };
  sizes result;
  double size = 10'000;
  for (std::size_t i = 0; i < changes; ++i) {
    double const t = static_cast<double>(i) / changes;
    if (name == "grows") size = 4000 + 96'000 * t;
    if (name == "refines-and-coarsens") size = 40'000 * (1 + 0.6 * std::sin(t * 40)) * noise(0.05);
    if (name == "wanders") size = std::clamp(size * noise(0.1), 4000.0, 100'000.0);
    if (name == "bursts") size = random() % 40 == 0 ? 100'000 : 8000 * noise(0.1);
    if (name == "one-peak") size = 5000 + 90'000 * std::exp(-200 * (t - 0.2) * (t - 0.2));
    result.push_back(static_cast<std::size_t>(size));
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

/// Resizes an array and writes to its last element, as a user would. Returns the seconds.
template <class GrowableArray>
double seconds_of(GrowableArray& array, std::size_t size) {
  auto const begin = std::chrono::steady_clock::now();
  array.resize(size);
  if (size != 0) array.data()[size - 1] = 1;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(std::string const& shape) {
  std::vector<sizes> current, earlier;
  for (std::uint32_t i = 0; i < arrays; ++i) {
    current.push_back(pattern(shape, i + 1));
    earlier.push_back(pattern(shape, i + 1001));  // another run of the same simulation
  }
  auto const measure_in_pool = [&](char const* name, auto const& policy_of) {
    host_pool pool{quarry::host_resource{}};
    std::vector<quarry::growable_array<double, host_pool>> fields;
    for (std::size_t i = 0; i < arrays; ++i) fields.emplace_back(pool, policy_of(i));
    sums result;
    for (std::size_t change = 0; change < changes; ++change) {
      for (std::size_t i = 0; i < arrays; ++i) {
        result.seconds += seconds_of(fields[i], current[i][change]);
        result.needed += static_cast<double>(current[i][change] * sizeof(double));
        result.reserved += static_cast<double>(fields[i].capacity() * sizeof(double));
      }
    }
    for (auto const& field : fields) result.copied += static_cast<double>(field.counts().copied);
    result.report(shape, name);
  };
  measure_in_pool("exact", [](std::size_t) { return growth_policy::exact(); });
  measure_in_pool("geometric-1.5", [](std::size_t) { return growth_policy::geometric(1.5); });
  measure_in_pool("geometric-2", [](std::size_t) { return growth_policy::geometric(2); });
  measure_in_pool("hysteresis", [](std::size_t) { return growth_policy::hysteresis(); });
  measure_in_pool("history-16",
                  [&](std::size_t i) { return growth_policy::from_history(earlier[i], 16); });
  measure_in_pool("history-64",
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
        result.seconds += seconds_of(*fields[i], current[i][change]);
        result.needed += static_cast<double>(current[i][change] * sizeof(double));
        result.reserved += static_cast<double>(fields[i]->reserved());
      }
    }
    result.report(shape, is_exact ? "paged" : "paged-hysteresis");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  for (char const* const shape : {"grows", "refines-and-coarsens", "wanders", "bursts", "one-peak"})
    measure(shape);
}

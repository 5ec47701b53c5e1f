// SPDX-License-Identifier: Apache-2.0
// The published coalescing heuristics on a trace: how often they coalesce, and how much more memory
// they reserve than was ever in use.
//
//   pool_heuristics TRACE [--ours]
//
// TRACE has lines `a ID BYTES` and `f ID`. Prints CSV. The heuristics are Umpire's of its poster of
// 2022 (based on 2021) and of its release of 2024-10, with blocks of at least 1 MiB. With --ours,
// the program prints Quarry's pools instead.
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <unordered_map>

namespace {

using namespace quarry;
using namespace quarry::literals;

struct step {
  bool is_allocation;
  std::uint32_t id;
  bytes size;
};

/// Reads the steps of a trace. Numbers the allocations from 0. Throws `bad_argument`, which names
/// the line.
std::vector<step> read_trace(char const* path) {
  std::ifstream file{path};
  if (!file) throw bad_argument{std::string{path} + ": " + std::strerror(errno)};
  std::vector<step> steps;
  std::unordered_map<std::uint64_t, std::uint32_t> allocated;
  std::uint32_t next = 0;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    auto const refuse = [&](char const* reason) {
      throw bad_argument{std::string{path} + ':' + std::to_string(number) + ": " + reason + ": " +
                         line};
    };
    std::istringstream words{line};
    std::string kind, remainder;
    std::uint64_t id = 0;
    bytes size = 0;
    if (!(words >> kind)) continue;
    if (kind != "a" && kind != "f") refuse("the line is neither 'a ID BYTES' nor 'f ID'");
    if (!(words >> id) || (kind == "a" && !(words >> size)) || words >> remainder)
      refuse("the line is neither 'a ID BYTES' nor 'f ID'");
    auto const found = allocated.find(id);
    if (kind == "a") {
      if (found != allocated.end()) refuse("the line allocates an ID that is in use");
      allocated[id] = next;
      steps.push_back({true, next++, size});
    } else {
      if (found == allocated.end()) refuse("the line frees an ID that is not in use");
      steps.push_back({false, found->second, 0});
      allocated.erase(found);
    }
  }
  return steps;
}

/// Makes the allocations and deallocations of a trace in order.
template <class Pool>
void replay(std::vector<step> const& steps, Pool& pool) {
  std::vector<void*> pointers;
  for (step const& next : steps) {
    if (next.is_allocation) {
      pointers.push_back(pool.allocate(next.size));
    } else {
      pool.deallocate(pointers[next.id]);
    }
  }
}

struct outcome {
  std::uint64_t coalesces;
  bytes peak_reserved, peak_allocated;
  std::uint64_t blocks_allocated, blocks_returned;
};

void print_row(char const* variant, char const* name, std::uint32_t parameter,
               outcome const& counts) {
  double const overhead = counts.peak_allocated == 0
                              ? 0
                              : 100.0 * (static_cast<double>(counts.peak_reserved) /
                                             static_cast<double>(counts.peak_allocated) -
                                         1.0);
  std::printf("%s,%s,%u,%llu,%llu,%llu,%.1f,%llu,%llu\n", variant, name, parameter,
              static_cast<unsigned long long>(counts.coalesces),
              static_cast<unsigned long long>(counts.peak_reserved),
              static_cast<unsigned long long>(counts.peak_allocated), overhead,
              static_cast<unsigned long long>(counts.blocks_allocated),
              static_cast<unsigned long long>(counts.blocks_returned));
}

/// Replays the trace on a pool and prints its row.
template <class Strategy>
void print_row(std::vector<step> const& steps, char const* variant, char const* name,
               std::uint32_t parameter, pool_options const& options) {
  pool<simulated_resource, Strategy> pool{simulated_resource{}, options};
  replay(steps, pool);
  auto const counts = pool.counts();
  print_row(variant, name, parameter,
            {counts.coalesces, counts.peak_reserved, counts.peak_allocated, counts.blocks_allocated,
             counts.blocks_returned});
}

/// Replays the trace on a stitched pool and prints its row. Its blocks are new pages that it maps
/// together.
template <class Strategy>
void print_stitched(std::vector<step> const& steps, char const* name, bytes page) {
  stitched_pool<simulated_pages, Strategy> pool{simulated_pages{page}};
  replay(steps, pool);
  auto const counts = pool.counts();
  print_row("stitched", name, static_cast<std::uint32_t>(page >> 10),
            {0, counts.peak_reserved, counts.peak_allocated, pool.pages().maps(), 0});
}

void print_published(std::vector<step> const& steps) {
  constexpr std::uint32_t block_counts[] = {2, 3, 5, 7, 12};
  auto const print = [&](char const* variant, char const* name, heuristic const& rule) {
    pool_options const options{
        .first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .coalesce = rule};
    print_row<chunk_arena<oldest_best_fit>>(steps, variant, name, rule.parameter, options);
  };
  auto const release = [](heuristic const& rule) {
    return rule.with_rules(heuristic_rules::umpire_2024);
  };
  auto const poster = [](heuristic const& rule) {
    return rule.with_rules(heuristic_rules::poster_2022);
  };
  print("2021", "percent", poster(heuristic::percent_releasable(100)));
  for (auto const n : block_counts)
    print("2021", "blocks", poster(heuristic::blocks_releasable(n)));
  for (auto const n : block_counts)
    print("2021-HWM", "blocks", poster(heuristic::blocks_releasable(n).to_high_water()));
  for (auto const n : block_counts)
    print("2021-CBG", "blocks", poster(heuristic::blocks_releasable(n).before_growth()));
  print("2024", "percent", release(heuristic::percent_releasable(100)));
  print("2024", "percent_hwm", release(heuristic::percent_releasable(100).to_high_water()));
  for (auto const n : block_counts)
    print("2024", "blocks", release(heuristic::blocks_releasable(n)));
  for (auto const n : block_counts)
    print("2024", "blocks_hwm", release(heuristic::blocks_releasable(n).to_high_water()));
}

/// Proportional growth without a heuristic, with first blocks of 16 MiB. Then Umpire's heuristics
/// with Quarry's rules: percentages, some of which make Umpire crash, and coalesces before growth,
/// after which Quarry's pools search again.
template <class Strategy>
void print_ours(std::vector<step> const& steps, char const* variant) {
  for (std::uint32_t const percent : {4u, 6u, 12u, 25u}) {
    print_row<Strategy>(steps, variant, "growth", percent,
                        {.first_block = 16_MiB, .next_block = 16_MiB, .growth_percent = percent});
  }
  auto const small = [](heuristic const& rule) {
    return pool_options{
        .first_block = 1_MiB, .next_block = 1_MiB, .growth_percent = 0, .coalesce = rule};
  };
  for (std::uint32_t const percent : {50u, 75u, 90u, 100u}) {
    print_row<Strategy>(steps, variant, "percent", percent,
                        small(heuristic::percent_releasable(percent)));
    print_row<Strategy>(steps, variant, "percent_before_growth", percent,
                        small(heuristic::percent_releasable(percent).before_growth()));
  }
  for (std::uint32_t const n : {2u, 3u, 5u, 7u, 12u}) {
    print_row<Strategy>(steps, variant, "blocks_before_growth", n,
                        small(heuristic::blocks_releasable(n).before_growth()));
  }
}

}  // namespace

int main(int count, char** arguments) {
  bool const is_ours = count == 3 && std::strcmp(arguments[2], "--ours") == 0;
  if (count != 2 && !is_ours) {
    std::cerr << "usage: pool_heuristics TRACE [--ours]\n";
    return 2;
  }
  try {
    auto const steps = read_trace(arguments[1]);
    std::puts(
        "variant,heuristic,parm,coalesces,peak_actual,hwm_current,overhead_pct,upstream_allocs,"
        "upstream_frees");
    if (is_ours) {
      print_ours<chunk_arena<oldest_best_fit>>(steps, "oldest_best_fit");
      print_ours<chunk_arena<segregated_fit>>(steps, "segregated_fit");
      print_ours<fast_fit>(steps, "fast_fit");
      for (bytes const page : {64_KiB, 2_MiB}) {  // pages of the host, and of a GPU
        print_stitched<chunk_arena<lowest_best_fit>>(steps, "lowest_best_fit_page_KiB", page);
        print_stitched<fast_fit>(steps, "fast_fit_page_KiB", page);
      }
    } else {
      print_published(steps);
    }
  } catch (std::exception const& failed) {
    std::cerr << "pool_heuristics: " << failed.what() << '\n';
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0
// What does each strategy of a pool cost in time and in memory, for the same requests?
//
// All strategies run over simulated memory, so that the clock times only the strategy. They run
// interleaved, so that other work on the machine affects all of them alike. Pools reserve blocks of
// 1 MiB or of 4 % of their reserved bytes, whichever is more. Stitched pools use pages of 64 KiB,
// as on a host, and of 2 MiB, as on a GPU.
//
// `pair`: replaces a random one of N live allocations, after three warm-up rounds. `step`: one
// allocation or deallocation of the trace of a simulation on a mesh
// (tests/host/pools/simulation_trace.hpp); the pool is empty at first. `pair_held` and `step_held`:
// the peak of the reserved bytes, divided by the peak of the allocated bytes. `excess`: that ratio
// less 1, in percent, over 28 such traces, with blocks of several sizes. A single trace is off by
// several percent by chance.
#include "host/pools/simulation_trace.hpp"
#include "pairs.hpp"
#include "trial.hpp"

#include "quarry/host/pools/placements.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <memory>
#include <tuple>

namespace {

using namespace quarry::literals;
using quarry::bytes;

template <class Counts>
double reserved_per_allocated(Counts const& counts) {
  return static_cast<double>(counts.peak_reserved) / static_cast<double>(counts.peak_allocated);
}

template <class Strategy>
struct pooled {
  explicit pooled(bytes min_block = 1_MiB)
      : source{quarry::simulated_resource{}, {.first_block = min_block, .next_block = min_block}} {}
  quarry::pool<quarry::simulated_resource, Strategy> source;
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
};
template <class Strategy, bytes Page>
struct stitched {
  quarry::stitched_pool<quarry::simulated_pages, Strategy> source{quarry::simulated_pages{Page}};
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
};

/// A pool with a placement of the table, under its name.
template <class Placement>
struct pool_with : pooled<Placement> {
  using pooled<Placement>::pooled;
  static constexpr char const* name =
      std::get<quarry::named_placement<Placement>>(quarry::named_placements).name;
};
/// Calls `use.template operator()<Pool>()` for the pool of each placement.
template <class Use>
void for_each_placement(Use const& use) {
  std::apply(
      [&]<class... Placement>(quarry::named_placement<Placement> const&...) {
        (use.template operator()<pool_with<Placement>>(), ...);
      },
      quarry::named_placements);
}
struct stitched_64_kib : stitched<quarry::chunk_arena<quarry::lowest_best_fit>, 64_KiB> {
  static constexpr char const* name = "stitched-64-KiB";
};
struct stitched_2_mib : stitched<quarry::chunk_arena<quarry::lowest_best_fit>, 2_MiB> {
  static constexpr char const* name = "stitched-2-MiB";
};
struct stitched_fast_64_kib : stitched<quarry::fast_fit, 64_KiB> {
  static constexpr char const* name = "stitched-fast_fit-64-KiB";
};
struct stitched_fast_2_mib : stitched<quarry::fast_fit, 2_MiB> {
  static constexpr char const* name = "stitched-fast_fit-2-MiB";
};

/// One strategy with one load, and its results so far.
class contender {
 public:
  virtual ~contender() = default;
  /// Runs another round, if the contender needs one. Returns false at the end.
  virtual bool run() = 0;
  virtual void finish() = 0;
};

constexpr bench::effort effort{.max_ms = 20'000, .warm_ups = 3, .rounds = 21};

template <class Pool>
class replacing final : public contender {
 public:
  explicit replacing(bench::replacing const& load)
      : params_{load.params(Pool::name)},
        allocated_{pool_, load},
        rounds_{params_, {{"host/strategy/pair", "ns"}}, effort} {}
  bool run() override {
    if (!rounds_.next()) return false;
    rounds_.add({allocated_.pair_ns(50'000)});
    return true;
  }
  void finish() override {
    rounds_.finish();
    bench::record("host/strategy/pair_held", params_, reserved_per_allocated(pool_.source.counts()),
                  "ratio");
  }

 private:
  bench::parameters params_;
  Pool pool_;
  bench::live_allocations<Pool> allocated_;
  bench::trial rounds_;
};

template <class Pool>
class tracing final : public contender {
 public:
  tracing(int steps, std::uint64_t seed)
      : params_{bench::parameters{}
                    .add("allocator", Pool::name)
                    .add("steps", steps)
                    .add("seed", seed)},
        trace_{steps, seed},
        rounds_{params_, {{"host/strategy/step", "ns"}}, effort} {}
  bool run() override {
    if (!rounds_.next()) return false;
    auto const& steps = trace_.steps();
    std::vector<void*> pointers(steps.size());
    Pool pool;
    auto const begin = std::chrono::steady_clock::now();
    for (auto const& step : steps) {
      if (step.is_allocation) {
        pointers[step.id] = pool.allocate(step.size);
      } else {
        pool.deallocate(pointers[step.id], step.size);
      }
    }
    std::chrono::duration<double, std::nano> const elapsed =
        std::chrono::steady_clock::now() - begin;
    rounds_.add({elapsed.count() / static_cast<double>(steps.size())});
    ratio_ = reserved_per_allocated(pool.source.counts());
    return true;
  }
  void finish() override {
    rounds_.finish();
    bench::record("host/strategy/step_held", params_, ratio_, "ratio");
  }

 private:
  bench::parameters params_;
  quarry::test::simulation_trace trace_;
  bench::trial rounds_;
  double ratio_ = 0;
};

/// All strategies with one load, interleaved.
template <template <class> class Load, class... Arguments>
void measure(Arguments const&... arguments) {
  std::vector<std::unique_ptr<contender>> contenders;
  auto const add = [&]<class Pool>() {
    contenders.push_back(std::make_unique<Load<Pool>>(arguments...));
  };
  for_each_placement(add);
  add.template operator()<stitched_64_kib>();
  add.template operator()<stitched_2_mib>();
  add.template operator()<stitched_fast_64_kib>();
  add.template operator()<stitched_fast_2_mib>();
  for (bool is_running = true; is_running;) {
    is_running = false;
    for (auto const& strategy : contenders) is_running |= strategy->run();
  }
  for (auto const& strategy : contenders) strategy->finish();
}

template <class Pool>
void measure_excess(bytes min_block) {
  std::vector<double> percents;
  for (std::uint64_t seed = 1; seed <= 28; ++seed) {
    quarry::test::simulation_trace const trace{80, 31 * seed};
    std::vector<void*> pointers(trace.steps().size());
    Pool pool{min_block};
    for (auto const& step : trace.steps()) {
      if (step.is_allocation) {
        pointers[step.id] = pool.allocate(step.size);
      } else {
        pool.deallocate(pointers[step.id], step.size);
      }
    }
    percents.push_back(100 * (reserved_per_allocated(pool.source.counts()) - 1));
  }
  bench::record_moments(
      "host/strategy/excess",
      bench::parameters{}.add("allocator", Pool::name).add("least_block_mib", min_block >> 20),
      percents, "%");
}
template <class Pool>
void measure_excess() {
  for (bytes const min_block : {bytes{0}, 1_MiB, 4_MiB, 16_MiB}) measure_excess<Pool>(min_block);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  for (bench::replacing const& load :
       {bench::one_small_size, bench::up_to_4_kib, bench::up_to_1_mib, bench::up_to_64_mib})
    measure<replacing>(load);
  measure<tracing>(80, std::uint64_t{1});
  measure<tracing>(60, std::uint64_t{7});
  measure<tracing>(120, std::uint64_t{5});
  for_each_placement([]<class Pool>() { measure_excess<Pool>(); });
}

// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/replay.hpp"

#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"
#include "quarry/trace/reader.hpp"
#include "trace/trace_files.hpp"

#include <algorithm>
#include <map>
#include <span>

namespace quarry::test {
namespace {

using trace::event;
using trace::event_kind;
using trace::replay_options;
using trace::replay_result;
using trace::replayer;
using trace::strategy;

/// The strategies of the table without a plan that `is_chosen` names.
template <class Choice>
std::vector<strategy> strategies_where(Choice const& is_chosen) {
  std::vector<strategy> result;
  for (trace::strategy_text const& each : trace::strategy_texts())
    if (!each.needs_plan && is_chosen(each)) result.push_back(trace::strategy_named(each.name));
  return result;
}
auto const all_strategies = strategies_where([](trace::strategy_text const&) { return true; });
auto const strategies_with_blocks = strategies_where(
    [](trace::strategy_text const& each) { return each.has_blocks || each.name == "direct"; });

replay_result replay_of(std::vector<event> const& events, replay_options const& options = {}) {
  replayer memory{options};
  memory.add(events);
  return memory.result();
}
event allocation(std::uint64_t address, bytes size, std::uint64_t time = 0) {
  return {.time = time, .address = address, .size = size};
}
event free_of(std::uint64_t address, std::uint64_t time = 0) {
  return {.time = time, .address = address, .kind = event_kind::deallocate};
}

/// A trace with every sort of event, among them frees of unknown addresses and repeated addresses.
std::vector<event> random_trace(std::mt19937_64& random, std::size_t count,
                                std::uint64_t addresses) {
  std::vector<event> result(count);
  std::uint64_t time = 0;
  for (event& each : result) {
    each.time = time += random() % 3'000'000;
    each.stream = static_cast<std::uint32_t>(random() % 3);
    each.address = random() % addresses * 512;
    each.size = random() % 16 == 0 ? random() % (8 << 20) : random() % 5000;
    auto const choice = random() % 100;
    each.kind = choice < 50   ? event_kind::allocate
                : choice < 94 ? event_kind::deallocate
                              : static_cast<event_kind>(2 + choice % 5);
    if (each.kind == event_kind::wait) each.size = random() % 3;
  }
  return result;
}

/// What a replay without a capacity must count, found with maps.
struct naive_replay {
  explicit naive_replay(std::vector<event> const& events) {
    bytes reserved = 0;
    for (event const& each : events) {
      if (each.kind == event_kind::allocate && each.address != 0) {
        if (live.contains(each.address)) {
          ++repeated;
          allocated -= live[each.address];
        }
        live[each.address] = each.size;
        allocated += each.size;
        peak = std::max(peak, allocated);
        max_live = std::max<std::uint64_t>(max_live, live.size());
        ++allocations;
      } else if (each.kind == event_kind::deallocate && each.address != 0) {
        auto const found = live.find(each.address);
        if (found == live.end()) {
          ++unknown;
        } else {
          allocated -= found->second;
          live.erase(found);
        }
      } else if (each.kind == event_kind::reserve) {
        recorded_peak = std::max(recorded_peak, reserved += each.size);
      } else if (each.kind == event_kind::unreserve) {
        if (each.size > reserved) recorded_peak += each.size - reserved;  // older blocks
        reserved -= std::min(reserved, each.size);
      } else if (each.kind == event_kind::fail) {
        ++recorded_failures;
      }
      allocated_after.push_back(allocated);
    }
  }
  std::map<std::uint64_t, bytes> live;
  bytes allocated = 0, peak = 0, recorded_peak = 0;
  std::uint64_t max_live = 0, repeated = 0, unknown = 0, recorded_failures = 0, allocations = 0;
  std::vector<bytes> allocated_after;
};

TEST(Replay, CountsAsANaiveModelInEveryStrategy) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  for (int round = 0; round < 6; ++round) {
    auto const events = random_trace(random, 1 + random() % 3000, 1 + random() % 400);
    naive_replay const model{events};
    for (strategy const placement : all_strategies) {
      SCOPED_TRACE(name_of(placement));
      auto const found = replay_of(events, {.placement = placement});
      EXPECT_TRUE(found.fits());
      EXPECT_FALSE(found.first_failure.has_value());
      EXPECT_EQ(found.events, events.size());
      EXPECT_EQ(found.pool.allocated, model.allocated);
      EXPECT_EQ(found.pool.peak_allocated, model.peak);
      EXPECT_EQ(found.pool.allocations_in_use, model.live.size());
      EXPECT_EQ(found.pool.allocations, model.allocations);
      EXPECT_EQ(found.pool.deallocations, model.allocations - model.live.size());
      EXPECT_EQ(found.max_live, model.max_live);
      EXPECT_EQ(found.unknown_frees, model.unknown);
      EXPECT_EQ(found.repeated_addresses, model.repeated);
      EXPECT_EQ(found.recorded_failures, model.recorded_failures);
      EXPECT_EQ(found.recorded_peak_reserved, model.recorded_peak);
      EXPECT_EQ(found.pool.invalid_frees, 0u);
      EXPECT_GE(found.pool.peak_reserved, model.peak);
    }
  }
}

TEST(Replay, CountsUpstreamCallsOfTheDirectStrategy) {
  auto const found =
      replay_of({allocation(512, 1000), allocation(1024, 1 << 20), free_of(512)},
                {.placement = strategy::direct,
                 .cost = {.us_per_allocation = 10, .us_per_gib = 1024, .us_per_free = 3}});
  EXPECT_EQ(found.pool.reserved, 1u << 20);
  EXPECT_EQ(found.pool.peak_reserved, (1u << 20) + 1024) << "sizes are rounded to 256";
  EXPECT_EQ(found.pool.blocks_allocated, 2u);
  EXPECT_EQ(found.pool.blocks_returned, 1u);
  EXPECT_DOUBLE_EQ(found.upstream_us, 10 + 10 + 3 + 1024.0 * ((1 << 20) + 1024) / (1 << 30));
}

TEST(Replay, KeepsTheTruePeaksHoweverFewSamplesThereAre) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  auto const events = random_trace(random, 3000, 300);
  naive_replay const model{events};
  for (std::size_t const limit : {0, 1, 2, 3, 5, 7, 10, 64, 1001, 5000}) {
    for (strategy const placement : {strategy::fast_fit, strategy::direct}) {
      SCOPED_TRACE("max_samples " + std::to_string(limit));
      auto const found = replay_of(events, {.placement = placement, .max_samples = limit});
      ASSERT_FALSE(found.samples.empty());
      EXPECT_LE(found.samples.size(), std::max<std::size_t>(limit, 2));
      bytes peak_reserved = 0;
      std::uint64_t before = 0;
      for (auto const& sample : found.samples) {
        ASSERT_GT(sample.event, before);
        auto const begin = model.allocated_after.begin();
        auto const first = begin + static_cast<std::ptrdiff_t>(before == 0 ? 0 : before - 1);
        ASSERT_EQ(sample.allocated,
                  *std::max_element(first, begin + static_cast<std::ptrdiff_t>(sample.event)));
        ASSERT_EQ(sample.time, events[sample.event - 1].time);
        peak_reserved = std::max(peak_reserved, sample.reserved);
        before = sample.event;
      }
      EXPECT_EQ(before, events.size());
      EXPECT_EQ(peak_reserved, found.pool.peak_reserved);
    }
  }
}

TEST(Replay, SamplesOfARangeHaveItsPeaksOnly) {
  std::mt19937_64 random{7};
  auto const events = random_trace(random, 3000, 300);
  naive_replay const model{events};
  for (std::size_t const limit : {2, 5, 64, 5000}) {
    for (auto const& [first, end] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
             {0, 1}, {0, 40}, {1, 2}, {700, 701}, {700, 1200}, {2999, 3000}, {2900, 9000}}) {
      SCOPED_TRACE("limit " + std::to_string(limit) + ", from " + std::to_string(first));
      auto const found =
          replay_of(events, {.max_samples = limit, .sample_begin = first, .sample_end = end});
      ASSERT_FALSE(found.samples.empty());
      EXPECT_LE(found.samples.size(), limit);
      EXPECT_GT(found.samples.front().event, first);
      EXPECT_EQ(found.samples.back().event, std::min<std::uint64_t>(end, events.size()));
      bytes peak = 0;
      for (auto const& each : found.samples) peak = std::max(peak, each.allocated);
      auto const begin = model.allocated_after.begin();
      auto const before = static_cast<std::ptrdiff_t>(first == 0 ? 0 : first - 1);
      EXPECT_EQ(peak, *std::max_element(begin + before,
                                        begin + static_cast<std::ptrdiff_t>(
                                                    std::min<std::uint64_t>(end, events.size()))));
      if (limit == 5000) {
        EXPECT_EQ(found.samples.size(), found.samples.back().event - first);
      }
      EXPECT_EQ(found.pool.peak_allocated, *std::ranges::max_element(model.allocated_after))
          << "the counts are those of the whole trace";
    }
  }
  auto const late = replay_of(events, {.sample_begin = 3000});
  EXPECT_TRUE(late.samples.empty());
  EXPECT_EQ(message_of([&] { (void)replay_of(events, {.sample_begin = 8, .sample_end = 8}); }),
            "replay: the range of samples is empty: it begins at event 8 and ends before event 8");
}

TEST(Replay, HasOneSampleForEachEventWhileThereIsRoom) {
  auto const found = replay_of({allocation(512, 10), allocation(1024, 20), free_of(512)});
  ASSERT_EQ(found.samples.size(), 3u);
  EXPECT_EQ(found.samples[1].allocated, 30u);
  EXPECT_EQ(found.samples[2].allocated, 30u) << "the maximum since the sample before it";
  EXPECT_EQ(found.samples[2].event, 3u);
}

TEST(Replay, NamesTheFirstAllocationThatExceedsTheCapacity) {
  std::vector<event> const events{allocation(512, 100),    allocation(1024, 4_MiB),
                                  allocation(2048, 4_MiB), allocation(4096, 20_MiB),
                                  free_of(4096),           free_of(1024),
                                  allocation(8192, 30_MiB)};
  for (strategy const placement : all_strategies) {
    SCOPED_TRACE(name_of(placement));
    replay_options options{.placement = placement};
    options.pool.max_bytes = 16_MiB;
    options.pool.first_block = options.pool.next_block = 1_MiB;
    auto const found = replay_of(events, options);
    EXPECT_FALSE(found.fits());
    EXPECT_EQ(found.failures, 2u);
    ASSERT_TRUE(found.first_failure.has_value());
    EXPECT_NE(found.first_failure->reason.find("no memory for"), std::string::npos)
        << found.first_failure->reason;
    EXPECT_EQ(found.first_failure->event, 3u);
    EXPECT_EQ(found.first_failure->request, events[3]);
    EXPECT_EQ(found.first_failure->pool.allocated, 8_MiB + 100);
    EXPECT_EQ(found.unknown_frees, 0u) << "the free of a failed allocation is skipped";
    EXPECT_EQ(found.pool.allocated, 4_MiB + 100);
    EXPECT_LE(found.pool.peak_reserved, 16_MiB);
    EXPECT_EQ(found.max_live, 3u) << "failed allocations are not live";
  }
}

/// Its old allocation is freed first, as the recorded program did.
TEST(Replay, ARepeatedAddressNeedsNoRoomForBothAllocations) {
  for (strategy const placement : all_strategies) {
    SCOPED_TRACE(name_of(placement));
    replay_options options{.placement = placement};
    options.pool.max_bytes = 16_MiB;
    options.pool.first_block = options.pool.next_block = 1_MiB;
    options.stream_delay = 0;
    auto const found = replay_of({allocation(512, 10_MiB), allocation(512, 10_MiB)}, options);
    EXPECT_TRUE(found.fits());
    EXPECT_EQ(found.repeated_addresses, 1u);
    EXPECT_EQ(found.pool.peak_allocated, 10_MiB);
  }
}

TEST(Replay, IgnoresAddressZeroAndAcceptsSizeZero) {
  for (strategy const placement : all_strategies) {
    auto const found =
        replay_of({allocation(0, 100), free_of(0), allocation(512, 0), free_of(512), free_of(512)},
                  {.placement = placement});
    EXPECT_TRUE(found.fits()) << name_of(placement);
    EXPECT_EQ(found.unknown_frees, 1u);
    EXPECT_EQ(found.max_live, 1u);
    EXPECT_EQ(found.pool.peak_allocated, 0u);
  }
}

TEST(Replay, AllocationsThatNoMemoryServesFailAndChangeNothing) {
  for (strategy const placement : all_strategies) {
    for (unsigned shift = 47; shift <= 64; ++shift) {
      for (bytes const less : {0, 1, 255, 256, 4096, 1 << 20, (1 << 20) + 1}) {
        bytes const size = (shift == 64 ? 0 : bytes{1} << shift) - (shift == 64 ? less + 1 : 0) +
                           (shift == 64 ? 0 : less);
        auto const found = replay_of({allocation(512, size), allocation(1024, 10), free_of(512)},
                                     {.placement = placement});
        EXPECT_EQ(found.failures, 1u) << name_of(placement) << " " << size;
        EXPECT_EQ(found.pool.allocated, 10u);
        EXPECT_EQ(found.max_live, 1u);
      }
    }
  }
}

/// Refers to the test's resource.
struct counted_host {
  statistics_resource<host_resource>* owner;
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return owner->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    owner->deallocate(pointer, size, alignment);
  }
};

/// Replays `events` with the host's memory. Returns the result.
replay_result replayed_on_host(std::vector<event> const& events, replay_options options) {
  statistics_resource<host_resource> memory{host_resource{}};
  any_resource upstream{counted_host{&memory}};
  options.upstream = &upstream;
  auto const found = [&] {
    replayer pool{options};
    pool.add(events);
    auto result = pool.result();
    EXPECT_GE(memory.counts().allocated, static_cast<std::int64_t>(result.pool.reserved));
    return result;
  }();
  EXPECT_GT(found.measured_us.value(), 0);
  EXPECT_EQ(memory.counts().allocated, 0);
  EXPECT_EQ(memory.counts().allocations_in_use, 0);
  EXPECT_GT(memory.counts().total_allocations, 0u);
  return found;
}

/// What a pool reserves is not compared: where several chunks fit, a placement may prefer one by
/// its address, and a resource returns other addresses than the simulation.
TEST(Replay, ReturnsAllMemoryToARealResource) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  auto const events = random_trace(random, 1000, 60);
  for (strategy const placement : strategies_with_blocks) {
    SCOPED_TRACE(name_of(placement));
    replay_options options{.placement = placement};
    options.pool.first_block = options.pool.next_block = 1_MiB;
    options.pool.max_bytes = 1024_GiB;  // else only real memory tries recorded failures again
    auto const simulated = replay_of(events, options);
    EXPECT_FALSE(simulated.measured_us);
    auto const found = replayed_on_host(events, options);
    EXPECT_EQ(found.pool.peak_allocated, simulated.pool.peak_allocated);
    EXPECT_EQ(found.pool.allocations_in_use, simulated.pool.allocations_in_use);
    EXPECT_EQ(found.failures, simulated.failures);
  }
}

TEST(Replay, StitchedMapsPagesOfTheHostAsItMapsSimulatedOnes) {
  std::mt19937_64 random{7};
  auto const events = random_trace(random, 1000, 60);
  any_resource upstream{host_resource{}};
  replay_options options{.placement = strategy::stitched, .pool = {.max_bytes = 1024_GiB}};
  auto const simulated = replay_of(events, options);
  options.upstream = &upstream;
  auto const real = replay_of(events, options);
  EXPECT_TRUE(real.fits());
  EXPECT_GT(real.pool.peak_reserved, 0u);
  EXPECT_EQ(real.pool.peak_reserved, simulated.pool.peak_reserved);
  EXPECT_EQ(real.pool.peak_granted, simulated.pool.peak_granted);
  EXPECT_EQ(real.upstream_us, simulated.upstream_us);
  EXPECT_GT(real.measured_us.value(), 0);
}

struct managed_memory {
  [[nodiscard]] static void* allocate(bytes, bytes) { throw std::bad_alloc{}; }
  static void deallocate(void*, bytes, bytes) noexcept {}
  [[nodiscard]] static quarry::memory_location location() {
    return {quarry::memory_kind::managed, 0};
  }
};
TEST(Replay, RefusesToStitchMemoryWithoutPages) {
  any_resource upstream{managed_memory{}};
  EXPECT_EQ(message_of([&] { replayer{{.placement = strategy::stitched, .upstream = &upstream}}; }),
            "replay: the strategy stitched maps pages of host or device memory; there are none of "
            "managed memory");
}

TEST(Replay, RefusesOptionsThatPoolsRefuse) {
  for (strategy const placement : all_strategies) {
    replay_options options{.placement = placement};
    options.pool.alignment = 48;
    EXPECT_THROW(replayer{options}, bad_argument) << name_of(placement);
  }
}

TEST(Replay, AResultBeforeTheFirstEventHasOneEmptySample) {
  auto const found = replayer{{}}.result();
  EXPECT_TRUE(found.fits());
  ASSERT_EQ(found.samples.size(), 1u);
  EXPECT_EQ(found.samples[0].event, 0u);
}

TEST(Replay, AReplayerCanBeMovedBetweenBatches) {
  replayer first{{}};
  first.add(std::vector<event>{allocation(512, 100)});
  replayer second{std::move(first)};
  second.add(std::vector<event>{free_of(512)});
  EXPECT_EQ(second.result().pool.allocated, 0u);
  first = std::move(second);
  EXPECT_EQ(first.result().events, 2u);
}

TEST(Replay, StreamsReuseTheMemoryOfOtherStreamsInsteadOfGrowing) {
  auto const on_stream = [](event each, std::uint32_t stream) {
    each.stream = stream;
    return each;
  };
  replay_options options{.placement = strategy::streams, .stream_delay = 1000};
  options.pool.first_block = options.pool.next_block = 1_MiB;
  std::vector<event> events{on_stream(allocation(512, 1_MiB, 1), 1), on_stream(free_of(512, 2), 1),
                            on_stream(allocation(1024, 1_MiB, 3), 1)};
  EXPECT_EQ(replay_of(events, options).pool.blocks_allocated, 1u);
  events[2].stream = 2;
  EXPECT_EQ(replay_of(events, options).pool.blocks_allocated, 1u) << "the second stream waits";
  events[2].time = 5000;
  EXPECT_EQ(replay_of(events, options).pool.blocks_allocated, 1u);
}

/// With the default options, and without more blocks when the program repeats itself.
TEST(Replay, AStreamPoolReservesLittleMoreThanARecordedProgramUses) {
  for (std::string const name : {"gpt", "resnet", "kvcache", "gnn"}) {
    SCOPED_TRACE(name);
    replayer pool{{.placement = strategy::streams}};
    std::uint64_t blocks = 0;
    for (int round = 0; round < 2; ++round) {
      auto const trace = trace::open_trace(QUARRY_DATA "/" + name + ".pickle.gz");
      std::vector<event> events(4096);
      std::map<std::uint64_t, event> live;
      while (std::size_t const count = trace->read(events)) {
        for (auto& each : std::span{events}.first(count)) {
          each.time += std::uint64_t(round) << 40;
          if (each.kind == event_kind::allocate) live[each.address] = each;
          if (each.kind == event_kind::deallocate) live.erase(each.address);
        }
        pool.add(std::span{events}.first(count));
      }
      for (auto& [address, each] : live) {
        each.kind = event_kind::deallocate;
        pool.add({&each, 1});
      }
      if (round == 0) blocks = pool.result().pool.blocks_allocated;
    }
    auto const found = pool.result().pool;
    EXPECT_LE(found.peak_reserved, found.peak_allocated / 4 * 5);
    EXPECT_EQ(found.blocks_allocated, blocks);
  }
}

TEST(ReplayNames, OfHeuristicsRoundTrip) {
  std::size_t count = 0;
  for (std::string const rule :
       {"percent:0", "percent:100", "blocks:0", "blocks:4294967295", "cost:7"}) {
    for (std::string const size : {"", "+hwm"}) {
      for (std::string const moment : {"", "+cbg"}) {
        for (std::string const rules : {"", "+2022", "+2024"}) {
          std::string const text = rule + size + moment + rules;
          EXPECT_EQ(trace::name_of(trace::heuristic_named(text)), text);
          ++count;
        }
      }
    }
  }
  EXPECT_EQ(count, 60u);
  EXPECT_EQ(trace::name_of(trace::heuristic_named("never")), "never");
  EXPECT_EQ(trace::name_of(trace::heuristic_named("cost:3+2022+cbg+hwm")), "cost:3+hwm+cbg+2022");
  auto const named = trace::heuristic_named("blocks:2+hwm+2024");
  heuristic const& rule = named.value;
  EXPECT_EQ(rule.condition, heuristic::trigger::blocks);
  EXPECT_EQ(rule.parameter, 2u);
  EXPECT_EQ(rule.size, heuristic::target::high_water);
  EXPECT_EQ(rule.checked_at, heuristic::moment::after_free);
  EXPECT_EQ(named.rules, trace::heuristic_rules::umpire_2024);
}

TEST(ReplayNames, OfOtherHeuristicsAreRefusedWithTheWrongPart) {
  std::pair<char const*, char const*> const cases[] = {
      {"", "'' is unknown"},
      {"never:1", "'never' is unknown"},
      {"percent", "'percent' has no number from 0 to 4294967295"},
      {"percent:", "'percent:' has no number from 0 to 4294967295"},
      {"percent:5%", "'percent:5%' has no number from 0 to 4294967295"},
      {"percent:-5", "'percent:-5' has no number from 0 to 4294967295"},
      {"percent: 5", "'percent: 5' has no number from 0 to 4294967295"},
      {"blocks:4294967296", "'blocks:4294967296' has no number from 0 to 4294967295"},
      {"percent:101", "the number exceeds 100"},
      {"size:3", "'size' is unknown"},
      {"percent:5+", "'+' is unknown"},
      {"percent:5++hwm", "'+' is unknown"},
      {"percent:5+HWM", "'+HWM' is unknown"},
      {"never+2023", "'+2023' is unknown"}};
  for (auto const& [text, reason] : cases) {
    std::string const message = message_of([&] { (void)trace::heuristic_named(text); });
    EXPECT_TRUE(message.starts_with("'" + std::string{text} + "' is no heuristic: " + reason +
                                    ". A heuristic is"))
        << message;
  }
}

}  // namespace
}  // namespace quarry::test

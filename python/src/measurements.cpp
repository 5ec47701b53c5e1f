// SPDX-License-Identifier: Apache-2.0
// What `quarry bench` measures, with the loops of bench/.
#include "quarry/host/pools/cuda_async_pool.hpp"
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/placements.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/platform/host_pages.hpp"
#include "quarry/trace/replay.hpp"

#include "event_buffer.hpp"
#include "pairs.hpp"
#include "progress.hpp"
#include "record_loop.hpp"
#include "rounds.hpp"

#include <nanobind/stl/optional.h>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;

constexpr double round_ns = 5e6;  // the goal; long rounds would exceed the time limit

/// The values of the rounds of a measurement, in order.
struct spread {
  double median, p10, p90;
  std::size_t runs;
};

/// Calls `round`, which returns the value of a round, for about `seconds`.
template <class Round>
spread measure(double seconds, progress_reporter& progress, Round round) {
  bench::round_counter rounds{{.max_ms = 1000 * seconds, .warm_ups = 2, .rounds = 1000}};
  std::vector<double> values;
  while (rounds.next()) {
    double const value = round();
    if (rounds.count()) values.push_back(value);
    progress.report();
  }
  std::sort(values.begin(), values.end());
  return {bench::percentile(values, 0.5), bench::percentile(values, 0.1),
          bench::percentile(values, 0.9), values.size()};
}

nb::dict dict_of_spread(spread const& values) {
  nb::dict result;
  result["median"] = values.median;
  result["p10"] = values.p10;
  result["p90"] = values.p90;
  result["runs"] = values.runs;
  return result;
}

/// Streams of the host, whose work is always done.
class idle_streams {
 public:
  using stream = std::uint32_t;
  struct event {};
  [[nodiscard]] static stream_identity identity(stream number) { return {number, number}; }
  [[nodiscard]] static bool depends_on_thread(stream) noexcept { return false; }
  [[nodiscard]] static event record(stream) { return {}; }
  static void wait(stream, event) {}
  [[nodiscard]] static bool is_done(event) noexcept { return true; }
  static void finish(event) noexcept {}
  [[nodiscard]] static bool finish(stream) noexcept { return true; }
  [[nodiscard]] static bool finish_all() noexcept { return true; }
  static void drop(event) noexcept {}
};

/// The pools, with the two functions that bench::live_allocations calls.
template <class Source>
struct pool_of {
  Source source;
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
};
template <class Source, class Stream>
struct stream_pool_of {
  Source source;
  void* allocate(bytes size) { return source.allocate(size, Stream{}); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer, Stream{}); }
};
template <class Source>
struct resource_of {
  Source source;
  bytes alignment;
  void* allocate(bytes size) { return source.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) { source.deallocate(pointer, size, alignment); }
};

/// Nanoseconds of a deallocation and an allocation in `pool`.
template <class Pool>
spread pair_ns(Pool pool, bench::replacing const& load, double seconds,
               progress_reporter& progress) {
  bench::live_allocations<Pool> allocations{pool, load};
  std::uint64_t pairs = 16;
  while (pairs < 1 << 20) {  // finds the number of pairs that fill a round
    double const ns = allocations.pair_ns(pairs) * static_cast<double>(pairs);
    if (ns > round_ns / 2) break;
    pairs *= 2;
  }
  return measure(seconds, progress, [&] { return allocations.pair_ns(pairs); });
}

template <class Strategy, class Resource>
spread pool_ns(Resource resource, bytes alignment, bench::replacing const& load, double seconds,
               progress_reporter& progress) {
  using source = pool<Resource, Strategy>;
  return pair_ns(pool_of<source>{source{std::move(resource), {.alignment = alignment}}}, load,
                 seconds, progress);
}

/// The pools that exist over memory of the host and of a GPU.
template <class Memory>
spread pool_ns(std::string const& name, Memory const& memory, bench::replacing const& load,
               double seconds, progress_reporter& progress) {
  bytes const alignment = Memory::alignment;
  auto const is = [&](trace::strategy kind) { return name == trace::name_of(kind); };
  if (is(trace::strategy::stitched)) {
    using source = stitched_pool<typename Memory::pages_type>;
    return pair_ns(pool_of<source>{source{memory.pages(), {.alignment = alignment}}}, load, seconds,
                   progress);
  }
  if (is(trace::strategy::streams)) {
    using order = typename Memory::streams_type;
    using source = stream_pool<typename Memory::resource_type, order>;
    return pair_ns(
        stream_pool_of<source, typename order::stream>{source{memory.resource(), memory.streams()}},
        load, seconds, progress);
  }
  if (is(trace::strategy::direct))
    return pair_ns(resource_of<typename Memory::resource_type>{memory.resource(), alignment}, load,
                   seconds, progress);
  return quarry::with_placement(
      name,
      [&]<class Placement>() {
        return pool_ns<Placement>(memory.resource(), alignment, load, seconds, progress);
      },
      [&](std::string const&) {
        throw bad_argument{"bench: there is no pool '" + name + "' of this memory"};
      });
}

struct host_memory {
  using resource_type = host_resource;
  using pages_type = host_pages;
  using streams_type = idle_streams;
  static constexpr bytes alignment = 16;
  [[nodiscard]] static host_resource resource() { return {}; }
  [[nodiscard]] static host_pages pages() { return host_pages{}; }
  [[nodiscard]] static idle_streams streams() { return {}; }
};
struct device_memory {
  using resource_type = device_resource;
  using pages_type = cuda_pages;
  using streams_type = cuda_streams;
  static constexpr bytes alignment = 256;
  int device;
  [[nodiscard]] device_resource resource() const { return device_resource{device}; }
  [[nodiscard]] cuda_pages pages() const { return cuda_pages{device}; }
  [[nodiscard]] cuda_streams streams() const { return cuda_streams{device}; }
};

nb::dict measure_pool(std::string const& name, std::optional<int> device, std::uint32_t live,
                      bytes max_size, double seconds) {
  nb::object no_callback = nb::none();
  spread values{};
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(no_callback)};
    bench::replacing const load{live, 1, max_size};
    if (!device) {
      values = pool_ns(name, host_memory{}, load, seconds, progress);
    } else if (name == "cuda-async") {
      cuda_async_options const options{
          .location = {memory_kind::device, static_cast<std::uint8_t>(*device)}};
      values =
          pair_ns(resource_of<cuda_async_pool>{cuda_async_pool{options}, device_memory::alignment},
                  load, seconds, progress);
    } else {
      values = pool_ns(name, device_memory{*device}, load, seconds, progress);
    }
  }
  return dict_of_spread(values);
}

nb::dict measure_replay(record_view bytes, std::string const& strategy, double seconds) {
  auto const events = records_of<event>(bytes);
  nb::object no_callback = nb::none();
  spread values{};
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(no_callback)};
    trace::replay_options const options{.placement = trace::strategy_named(strategy)};
    values = measure(seconds, progress, [&] {
      trace::replayer memory{options};
      double const ms = bench::host_ms([&] { memory.add(events); });
      return 1e-3 * static_cast<double>(events.size()) / ms;
    });
  }
  return dict_of_spread(values);
}

nb::dict measure_record(std::optional<std::string> const& path, double seconds) {
  constexpr std::size_t events = 1 << 18;
  constexpr trace::ring_limit ring{100'000};
  nb::object no_callback = nb::none();
  spread values{};
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(no_callback)};
    values = measure(seconds, progress, [&] {
      auto const target =
          path ? std::make_unique<trace::recorder>(*path) : std::make_unique<trace::recorder>(ring);
      return bench::record_ns(target.get(), 1, events) - bench::record_ns(nullptr, 1, events);
    });
  }
  return dict_of_spread(values);
}

}  // namespace

void add_measurements(nb::module_& core) {
  core.def("measure_pool", measure_pool, "pool"_a, nb::kw_only(), "device"_a.none(), "live"_a,
           "max_size"_a, "seconds"_a,
           "Nanoseconds of a deallocation and an allocation. The pool has `live` allocations of 1 "
           "to `max_size` bytes and replaces a random one. `device`: a GPU, or None for host "
           "memory.");
  core.def("measure_replay", measure_replay, "events"_a, nb::kw_only(), "strategy"_a, "seconds"_a,
           "Million events a second that a replay in simulated memory handles.");
  core.def("measure_record", measure_record, "path"_a.none(), nb::kw_only(), "seconds"_a,
           "Nanoseconds of processor time for an event that one thread records into a file, or "
           "into a ring without a path.");
}

}  // namespace quarry::python

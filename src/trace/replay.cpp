// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/replay.hpp"

#include "quarry/host/pools/chunk_arena.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/platform/host_pages.hpp"
#include "quarry/trace/reader.hpp"
#include "trace/address_map.hpp"
#include "trace/published_growth.hpp"
#include "trace/replay_memory.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <exception>
#include <new>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

pool_options for_replay(pool_options options) {
  options.is_tracked = false;
  options.red_zone = 0;
  options.keeps_backtraces = false;
  return options;
}

}  // namespace

/// Samples: each has `stride_` events. When the samples are too many, pairs become one sample.
class replayer::implementation {
 public:
  explicit implementation(replay_options const& options)
      : max_samples_{std::max<std::size_t>(options.max_samples & ~std::size_t{1}, 2)},
        calls_{options.cost},
        measures_{options.upstream != nullptr},
        is_limited_{measures_ || options.pool.max_bytes != no_limit} {}
  virtual ~implementation() = default;
  virtual void add(std::span<event const> events) = 0;
  [[nodiscard]] virtual replay_result result() const = 0;

 protected:
  struct live_allocation {
    void* pointer;
    bytes size;
  };

  template <class Memory>
  void replay(Memory& memory, std::span<event const> events) {
    for (event const& each : events) {
      time_ = each.time;
      switch (each.kind) {
        case event_kind::allocate:
          allocate(memory, each);
          break;
        case event_kind::deallocate:
          deallocate(memory, each);
          break;
        case event_kind::fail:
          retry(memory, each);
          break;
        case event_kind::reserve:
          recorded_reserved_ += each.size;
          found_.recorded_peak_reserved =
              std::max(found_.recorded_peak_reserved, recorded_reserved_);
          break;
        case event_kind::unreserve:
          recorded_reserved_ -= std::min(recorded_reserved_, each.size);
          break;
        case event_kind::wait:
          memory.wait(each);
          break;
        case event_kind::phase:
          if constexpr (requires { memory.begin_phase(each); }) memory.begin_phase(each);
          break;
      }
      if (++found_.events == next_sample_) take_sample(memory.counts());
    }
  }

  template <class Memory>
  [[nodiscard]] replay_result result_of(Memory const& memory) const {
    replay_result result = found_;
    result.pool = memory.counts();
    if constexpr (requires { memory.use(); }) result.plan = memory.use();
    result.upstream_us = calls_.us;
    if (measures_) result.measured_us = calls_.measured_us;
    if (result.samples.empty() || result.samples.back().event != found_.events)
      result.samples.push_back(sample(result.pool));
    return result;
  }

  /// Frees what the trace has not freed.
  template <class Memory>
  void free_all(Memory& memory) {
    live_.for_each([&](live_allocation const& each) { free_allocation(memory, each, {}); });
  }

  upstream_calls& calls() { return calls_; }

 private:
  template <class Memory>
  void allocate(Memory& memory, event const& request) {
    if (request.address == 0) return;  // of size 0, by allocators that return null for it
    live_allocation* entry = live_.insert(request.address, {nullptr, request.size});
    if (entry == nullptr) [[unlikely]] {
      ++found_.repeated_addresses;  // its free is missing, for example before a ring's first event
      free_allocation(memory, *live_.remove(request.address), request);
      entry = live_.insert(request.address, {nullptr, request.size});
    }
    entry->pointer = try_to_allocate(memory, request);
    if (entry->pointer == nullptr) ++found_.failures;
  }
  /// Null if the request does not fit.
  template <class Memory>
  [[nodiscard]] void* try_to_allocate(Memory& memory, event const& request) {
    void* result = nullptr;
    try {
      result = memory.allocate(request);
    } catch (out_of_memory const& failed) {
      if (!found_.first_failure)
        found_.first_failure =
            replay_failure{found_.events, request, failed.what(), memory.counts()};
      return nullptr;
    }
    allocated_ += request.size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    found_.max_live = std::max(found_.max_live, ++live_count_);
    return result;
  }
  /// Tries a request that failed in the recording.
  template <class Memory>
  void retry(Memory& memory, event const& request) {
    ++found_.recorded_failures;
    found_.peak_with_failures = std::max(
        found_.peak_with_failures, allocated_ + std::min(request.size, ~bytes{0} - allocated_));
    if (!is_limited_) return;
    ++found_.retried_failures;
    void* const pointer = try_to_allocate(memory, request);
    if (pointer == nullptr) ++found_.repeated_failures;
    free_allocation(memory, {pointer, request.size}, request);
  }
  template <class Memory>
  void deallocate(Memory& memory, event const& request) {
    if (request.address == 0) return;
    if (auto const found = live_.remove(request.address)) {
      free_allocation(memory, *found, request);
    } else {
      ++found_.unknown_frees;
    }
  }
  template <class Memory>
  void free_allocation(Memory& memory, live_allocation const& freed, event const& request) {
    if (freed.pointer == nullptr) return;  // it did not fit
    memory.deallocate(freed.pointer, freed.size, request);
    allocated_ -= freed.size;
    --live_count_;
  }

  [[nodiscard]] replay_sample sample(pool_counts const& counts) const {
    return {found_.events,       time_,
            peak_allocated_,     counts.granted,
            calls_.peak,         counts.releasable,
            counts.largest_free, calls_.allocations,
            counts.coalesces};
  }
  [[gnu::noinline]] void take_sample(pool_counts const& counts) {
    auto& samples = found_.samples;
    samples.push_back(sample(counts));
    calls_.peak = calls_.reserved;
    peak_allocated_ = allocated_;
    if (samples.size() == max_samples_) {
      for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
        replay_sample merged = samples[i + 1];
        merged.allocated = std::max(merged.allocated, samples[i].allocated);
        merged.reserved = std::max(merged.reserved, samples[i].reserved);
        samples[i / 2] = merged;
      }
      samples.resize(samples.size() / 2);
      stride_ *= 2;
    }
    next_sample_ = (found_.events / stride_ + 1) * stride_;
  }

  address_map<live_allocation> live_;
  std::uint64_t live_count_ = 0;  // entries of `live_` that did not fail
  std::size_t max_samples_;       // even, because samples become pairs
  std::uint64_t stride_ = 1, next_sample_ = 1;
  std::uint64_t time_ = 0;
  bytes allocated_ = 0, peak_allocated_ = 0;  // the peak since the last sample
  bytes recorded_reserved_ = 0;
  upstream_calls calls_;
  bool measures_;    // the time of the calls
  bool is_limited_;  // the memory: failures of the recording can repeat
  replay_result found_;
};

namespace {

/// Replays in one sort of pool.
template <class Memory, class Base>
class replayer_of final : public Base {
 public:
  template <class... Arguments>
  explicit replayer_of(replay_options const& options, Arguments&&... arguments)
      : Base{options},
        memory_{std::make_unique<Memory>(std::forward<Arguments>(arguments)..., this->calls(),
                                         for_replay(options.pool))} {}
  ~replayer_of() override { this->free_all(*memory_); }
  void add(std::span<event const> events) override { this->replay(*memory_, events); }
  [[nodiscard]] replay_result result() const override { return this->result_of(*memory_); }

 private:
  std::unique_ptr<Memory> memory_;
};

/// Replays with a plan. If there is no memory for its block, no allocation succeeds.
template <class Memory, class Base, class Upstream, class... Arguments>
std::unique_ptr<Base> make_planned(replay_options const& options, Upstream upstream,
                                   Arguments... arguments) {
  if (options.plan == nullptr)
    throw bad_argument{std::string{"replay: the strategy "} + name_of(options.placement) +
                       " needs a plan (replay_options::plan)"};
  try {
    return std::make_unique<replayer_of<Memory, Base>>(options, *options.plan, arguments...,
                                                       std::move(upstream));
  } catch (out_of_memory const&) {
    return std::make_unique<replayer_of<no_memory, Base>>(options, std::current_exception());
  }
}

/// A stitched pool over pages of the memory that `location` names.
template <class Base>
std::unique_ptr<Base> make_stitched(replay_options const& options, memory_location location) {
  constexpr bytes page = 2_MiB;  // as on a GPU
  switch (location.kind) {
    case memory_kind::host:
      return std::make_unique<replayer_of<stitched<host_pages>, Base>>(options, host_pages{page});
    case memory_kind::device:
      return std::make_unique<replayer_of<stitched<cuda_pages>, Base>>(options,
                                                                       cuda_pages{location.device});
    case memory_kind::pinned:
    case memory_kind::managed:
    case memory_kind::file:
    case memory_kind::shared:
      break;
  }
  throw bad_argument{
      std::string{"replay: the strategy stitched maps pages of host or device memory; there are "
                  "none of "} +
      name_of(location.kind) + " memory"};
}

template <class Base, class Upstream>
std::unique_ptr<Base> make(replay_options const& options, Upstream upstream) {
  std::unique_ptr<Base> result;
  if (with_placement_of(options.placement, [&]<class Placement>() {
        if (has_published_rules(options)) {
          result = std::make_unique<replayer_of<published_pool<Upstream, Placement>, Base>>(
              options, options.rules, std::move(upstream));
        } else {
          result = std::make_unique<replayer_of<plain_pool<Upstream, Placement>, Base>>(
              options, std::move(upstream));
        }
      }))
    return result;
  switch (options.placement) {
    case strategy::direct:
      return std::make_unique<replayer_of<no_pool<Upstream>, Base>>(options, std::move(upstream));
    case strategy::planned:
      return make_planned<from_plan<Upstream>, Base>(options, std::move(upstream));
    case strategy::planned_streams:
      return make_planned<from_plan_in_stream_order<Upstream>, Base>(options, std::move(upstream),
                                                                     options.stream_delay);
    case strategy::streams:
      return std::make_unique<replayer_of<in_stream_order<Upstream>, Base>>(
          options, options.stream_delay, std::move(upstream));
    case strategy::stitched:
      if constexpr (simulated<Upstream>) {
        return std::make_unique<replayer_of<stitched<simulated_pages>, Base>>(
            options, simulated_pages{2_MiB, max_simulated_pages});
      } else {
        return make_stitched<Base>(options, location_of(upstream));
      }
    default:
      break;
  }
  throw bad_argument{"replay: there is no such strategy"};
}

/// Takes and returns a block. The first call of a GPU also makes its context, which takes longer
/// than all other calls, and must not count as time of the upstream.
void warm_up(any_resource& upstream) {
  constexpr bytes size = 256, alignment = 256;
  try {
    upstream.deallocate(upstream.allocate(size, alignment), size, alignment);
  } catch (std::bad_alloc const&) {  // the first allocation fails, too, and is counted
  }
}

template <class Base>
std::unique_ptr<Base> make_routed(replay_options const& options) {
  if (options.upstream != nullptr)
    throw bad_argument{"replay: a routing table needs simulated memory, but `upstream` is set"};
  std::unique_ptr<Base> result;
  if (with_placement_of(options.placement, [&]<class Placement>() {
        result = std::make_unique<replayer_of<routed<Placement>, Base>>(options, options);
      }))
    return result;
  throw bad_argument{std::string{"replay: the strategy "} + name_of(options.placement) +
                     " takes no routing table"};
}

}  // namespace

replayer::replayer(replay_options const& options) {
  (void)has_published_rules(options);
  if (options.upstream != nullptr) warm_up(*options.upstream);
  if (options.routing != nullptr) {
    implementation_ = make_routed<implementation>(options);
  } else if (options.upstream != nullptr) {
    implementation_ = make<implementation>(options, borrowed_resource{*options.upstream});
  } else {
    implementation_ = make<implementation>(options, simulated_resource{});
  }
}
replayer::replayer(replayer&&) noexcept = default;
replayer& replayer::operator=(replayer&&) noexcept = default;
replayer::~replayer() = default;

void replayer::add(std::span<event const> events) { implementation_->add(events); }
replay_result replayer::result() const { return implementation_->result(); }

replay_result replay(reader& trace, replay_options const& options) {
  replayer memory{options};
  std::vector<event> events(4096);
  while (std::size_t const count = trace.read(events)) memory.add(std::span{events}.first(count));
  return memory.result();
}

}  // namespace quarry::inline QUARRY_ABI::trace

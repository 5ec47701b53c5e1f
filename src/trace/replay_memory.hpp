// SPDX-License-Identifier: Apache-2.0
// The pools that replays use. Each has `allocate(event)`, `deallocate(pointer, size, event)`,
// `wait(event)` and `counts()`. Those that follow a plan also have `use()`.
#pragma once

#include "quarry/host/pools/planned_pool.hpp"
#include "quarry/host/pools/planned_stream_pool.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/routed_pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/platform/simulated_pages.hpp"
#include "quarry/trace/replay.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {

/// Calls of the upstream, and what they would cost.
struct upstream_calls {
  upstream_cost price;
  double us = 0, measured_us = 0;
  std::uint64_t allocations = 0;
  bytes reserved = 0, peak = 0;  // the peak since the last sample

  /// `calls` calls that allocate `size` bytes in total.
  void count_allocation(bytes size, std::uint64_t calls = 1) {
    us += price.us_per_allocation * static_cast<double>(calls) +
          price.us_per_gib * static_cast<double>(size) * 0x1p-30;
    allocations += calls;
    reserved += size;
    peak = std::max(peak, reserved);
  }
  void count_free(bytes size, std::uint64_t calls = 1) {
    us += price.us_per_free * static_cast<double>(calls);
    reserved -= size;
  }
  void count_moved_pages(std::uint64_t pages) {
    us += price.us_per_allocation * static_cast<double>(pages);
  }
  /// The result of `call`, whose time is measured if it takes or returns real memory.
  template <bool IsSimulated, class Call>
  decltype(auto) measured(Call const& call) {
    if constexpr (IsSimulated) {
      return call();
    } else {
      struct timer {
        using clock = std::chrono::steady_clock;
        double& us;
        clock::time_point begin = clock::now();
        ~timer() { us += std::chrono::duration<double, std::micro>(clock::now() - begin).count(); }
      };
      timer const running{measured_us};
      return call();
    }
  }
};

/// `result` with the counts that every pool has, copied from `found`.
template <class Counts>
[[nodiscard]] pool_counts with_counts(pool_counts result, Counts const& found) {
  result.reserved = found.reserved;
  result.peak_reserved = found.peak_reserved;
  result.allocated = found.allocated;
  result.peak_allocated = found.peak_allocated;
  result.allocations_in_use = found.allocations_in_use;
  result.invalid_frees = found.invalid_frees;
  return result;
}

/// Counts the calls of a resource.
template <class Upstream>
class counted_resource {
 public:
  static constexpr bool is_simulated = simulated<Upstream>;

  counted_resource(Upstream upstream, upstream_calls& calls)
      : upstream_{std::move(upstream)}, calls_{&calls} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    void* const result =
        calls_->measured<is_simulated>([&] { return upstream_.allocate(size, alignment); });
    calls_->count_allocation(size);
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    calls_->measured<is_simulated>([&] { upstream_.deallocate(pointer, size, alignment); });
    calls_->count_free(size);
  }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  Upstream upstream_;
  upstream_calls* calls_;
};

/// Refers to a resource of the user.
class borrowed_resource {
 public:
  explicit borrowed_resource(any_resource& owner) : owner_{&owner} {}
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return owner_->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    owner_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() { return owner_->location(); }
  [[nodiscard]] any_resource& upstream() { return *owner_; }

 private:
  any_resource* owner_;
};

/// Each simulated page needs 50 bytes of memory, so a trace with absurd sizes needs 100 MB at most.
inline constexpr bytes max_simulated_pages = bytes{1} << 42;

/// Counts the pages that are mapped, moved and unmapped. Each is a call of the upstream, because a
/// driver maps page by page.
template <page_source Pages>
class counted_pages : public Pages {
 public:
  static constexpr bool is_simulated = simulated<Pages>;

  counted_pages(Pages pages, upstream_calls& calls) : Pages{std::move(pages)}, calls_{&calls} {}
  void map(std::uint64_t address, bytes size) {
    calls_->measured<is_simulated>([&] { Pages::map(address, size); });
    calls_->count_allocation(size, size / Pages::page_bytes());
  }
  void move(std::uint64_t source, std::uint64_t target, bytes size) {
    calls_->measured<is_simulated>([&] { Pages::move(source, target, size); });
    calls_->count_moved_pages(size / Pages::page_bytes());
  }
  void unmap(std::uint64_t address, bytes size) noexcept {
    calls_->measured<is_simulated>([&] { Pages::unmap(address, size); });
    calls_->count_free(size, size / Pages::page_bytes());
  }

 private:
  upstream_calls* calls_;
};

/// Streams by their numbers in the trace. Work takes a fixed time of the trace's clock. A wait of
/// the host does not advance the clock, but the work that it waited for is done.
class traced_streams {
 public:
  using stream = std::uint32_t;
  using event = std::uint64_t;  // when it completes
  struct clock {
    std::uint64_t time = 0, delay = 0;
    std::uint64_t finished = 0;  // work that completes until then is done
  };

  explicit traced_streams(clock& now) : clock_{&now} {}
  [[nodiscard]] stream_identity identity(stream number) const { return {number, number}; }
  [[nodiscard]] static bool depends_on_thread(stream) noexcept { return false; }
  [[nodiscard]] event record(stream) { return clock_->time + clock_->delay; }
  void wait(stream, event const&) {}
  [[nodiscard]] bool is_done(event const& completion) noexcept {
    return completion <= std::max(clock_->time, clock_->finished);
  }
  void finish(event const& completion) noexcept {
    clock_->finished = std::max(clock_->finished, completion);
  }
  [[nodiscard]] bool finish(stream) noexcept { return finish_all(); }
  [[nodiscard]] bool finish_all() noexcept {
    finish(clock_->time + clock_->delay);
    return true;
  }
  void drop(event&) noexcept {}

 private:
  clock* clock_;
};

template <class Upstream, class Placement>
struct plain_pool {
  using pool_type = pool<counted_resource<Upstream>, Placement>;
  plain_pool(Upstream upstream, upstream_calls& calls, pool_options const& options)
      : memory{counted_resource<Upstream>{std::move(upstream), calls}, options} {}
  void* allocate(event const& request) { return memory.allocate(request.size); }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return memory.counts(); }
  pool_type memory;
};

/// Looks up each size, call site and phase once.
template <class Placement>
struct routed {
  routed(replay_options const& options, upstream_calls& calls, pool_options const& pool)
      : call_sites{options.call_sites},
        memory{counted_resource<simulated_resource>{simulated_resource{}, calls}, *options.routing,
               pool} {}
  void* allocate(event const& request) {
    auto const [found, is_new] = known.try_emplace({request.size, request.call_site, phase}, 0);
    if (is_new)
      found->second =
          memory.table().pool_for(request.size, name_of(request.call_site), name_of(phase));
    return memory.allocate_from(found->second, request.size);
  }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return memory.counts(); }

  void begin_phase(event const& begun) { phase = begun.call_site; }
  [[nodiscard]] std::string name_of(std::uint32_t site) const {
    return call_sites != nullptr && site < call_sites->size() ? call_sites->name(site)
                                                              : std::string{};
  }

  name_table const* call_sites;
  std::uint32_t phase = 0;  // the number of its name
  std::map<std::tuple<bytes, std::uint32_t, std::uint32_t>, std::uint32_t> known;
  routed_pool<counted_resource<simulated_resource>, Placement> memory;
};

/// The counts of a planned pool.
template <class FallbackCounts>
[[nodiscard]] pool_counts counts_of(planned_counts<FallbackCounts> const& found,
                                    pool_counts const& fallback) {
  pool_counts result = with_counts(fallback, found);
  result.granted = found.granted;
  result.peak_granted += found.peak_placed;  // at most: the two peaks may differ in time
  result.allocations = found.allocations;
  result.deallocations = found.deallocations;
  result.blocks_allocated += found.reserved != found.fallback.reserved;
  return result;
}
template <class FallbackCounts>
[[nodiscard]] plan_use use_of(planned_counts<FallbackCounts> const& found) {
  return {found.planned, found.occupied, found.unplanned, found.jumps,
          found.fallback.peak_reserved};
}

template <class Upstream>
struct from_plan {
  from_plan(plan const& served, Upstream upstream, upstream_calls& calls,
            pool_options const& options)
      : memory{counted_resource<Upstream>{std::move(upstream), calls},
               served,
               {.fallback = options}} {}
  void* allocate(event const& request) { return memory.allocate(request.size); }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = memory.counts();
    return counts_of(found, found.fallback);
  }
  [[nodiscard]] plan_use use() const { return use_of(memory.counts()); }
  planned_pool<counted_resource<Upstream>> memory;
};

/// In the place of a pool whose plan has no memory: no allocation succeeds.
struct no_memory {
  no_memory(std::exception_ptr reason, upstream_calls&, pool_options const&)
      : failure{std::move(reason)} {}
  [[nodiscard]] void* allocate(event const&) const { std::rethrow_exception(failure); }
  void deallocate(void*, bytes, event const&) {}
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const { return {}; }
  std::exception_ptr failure;
};

template <page_source Pages>
struct stitched {
  stitched(Pages pages, upstream_calls& calls, pool_options const& options)
      : memory{counted_pages<Pages>{std::move(pages), calls},
               {.alignment = options.alignment,
                .max_bytes = options.max_bytes,
                .is_tracked = false}} {}
  void* allocate(event const& request) {
    void* const result = memory.allocate(request.size);
    peak_granted = std::max(peak_granted, memory.counts().granted);
    return result;
  }
  void deallocate(void* pointer, bytes, event const&) { memory.deallocate(pointer); }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = memory.counts();
    pool_counts result = with_counts({}, found);
    result.granted = found.granted;
    result.peak_granted = peak_granted;
    result.largest_free = found.largest_free;
    result.blocks_allocated = found.growths;
    return result;
  }
  stitched_pool<counted_pages<Pages>> memory;
  bytes peak_granted = 0;
};

[[nodiscard]] inline stream_pool_options stream_options(pool_options const& options) {
  return {.first_block = options.first_block,
          .next_block = options.next_block,
          .growth_percent = options.growth_percent,
          .alignment = std::max<bytes>(checked(options).alignment, 256),
          .max_bytes = options.max_bytes,
          .is_tracked = false};
}
[[nodiscard]] inline pool_counts counts_of(stream_pool_counts const& found) {
  pool_counts result = with_counts({}, found);
  result.granted = found.granted;
  result.allocations = found.allocations;
  result.deallocations = found.deallocations;
  result.blocks_allocated = found.blocks_allocated;
  result.blocks_returned = found.blocks_returned;
  return result;
}

/// A pool in the order of streams, with the trace's clock.
template <class Pool>
struct stream_ordered {
  template <class Upstream, class... Arguments>
  stream_ordered(std::uint64_t delay, Upstream upstream, Arguments&&... arguments)
      : clock{.delay = delay},
        memory{std::move(upstream), traced_streams{clock}, std::forward<Arguments>(arguments)...} {}
  void* allocate(event const& request) {
    clock.time = request.time;
    void* const result = memory.allocate(request.size, request.stream);
    peak_granted = std::max(peak_granted, memory.counts().granted);
    return result;
  }
  void deallocate(void* pointer, bytes, event const& request) {
    clock.time = request.time;
    memory.deallocate(pointer, request.stream);
  }
  void wait(event const& request) {
    clock.time = request.time;
    memory.share(request.stream);
  }
  traced_streams::clock clock;
  Pool memory;
  bytes peak_granted = 0;
};

template <class Upstream>
struct in_stream_order : stream_ordered<stream_pool<counted_resource<Upstream>, traced_streams>> {
  in_stream_order(std::uint64_t delay, Upstream upstream, upstream_calls& calls,
                  pool_options const& options)
      : in_stream_order::stream_ordered{delay,
                                        counted_resource<Upstream>{std::move(upstream), calls},
                                        stream_options(options)} {}
  [[nodiscard]] pool_counts counts() const {
    pool_counts result = counts_of(this->memory.counts());
    result.peak_granted = this->peak_granted;
    return result;
  }
};

template <class Upstream>
struct from_plan_in_stream_order
    : stream_ordered<planned_stream_pool<counted_resource<Upstream>, traced_streams>> {
  from_plan_in_stream_order(plan const& served, std::uint64_t delay, Upstream upstream,
                            upstream_calls& calls, pool_options const& options)
      : from_plan_in_stream_order::stream_ordered{
            delay, counted_resource<Upstream>{std::move(upstream), calls}, served,
            planned_stream_pool_options{.fallback = stream_options(options)}} {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = this->memory.counts();
    pool_counts result = counts_of(found, counts_of(found.fallback));
    result.peak_granted = this->peak_granted;
    return result;
  }
  [[nodiscard]] plan_use use() const { return use_of(this->memory.counts()); }
};

/// Each allocation is one of the upstream, rounded to the alignment.
template <class Upstream>
struct no_pool {
  no_pool(Upstream upstream, upstream_calls& upstream_counts, pool_options const& options)
      : resource{std::move(upstream), upstream_counts},
        calls{upstream_counts},
        alignment{std::max<bytes>(checked(options).alignment, 256)},
        max_bytes{options.max_bytes} {}
  [[nodiscard]] bytes rounded(bytes size) const {
    return std::max<bytes>(alignment, (size + alignment - 1) & ~(alignment - 1));
  }
  void* allocate(event const& request) {
    if (request.size > max_bytes_at_once)
      throw out_of_memory{"replay", request.size, request_too_large};
    bytes const size = rounded(request.size);
    if (size > max_bytes || calls.reserved > max_bytes - size)
      throw out_of_memory{"replay", size, "the capacity is exhausted"};
    void* const result = resource.allocate(size, alignment);
    ++found.allocations;
    found.allocated += request.size;
    found.peak_allocated = std::max(found.peak_allocated, found.allocated);
    found.peak_reserved = std::max(found.peak_reserved, calls.reserved);
    return result;
  }
  void deallocate(void* pointer, bytes size, event const&) {
    resource.deallocate(pointer, rounded(size), alignment);
    ++found.deallocations;
    found.allocated -= size;
  }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    pool_counts result = found;
    result.reserved = result.granted = calls.reserved;
    result.peak_granted = found.peak_reserved;
    result.allocations_in_use = found.allocations - found.deallocations;
    result.blocks_allocated = found.allocations;
    result.blocks_returned = found.deallocations;
    return result;
  }
  counted_resource<Upstream> resource;
  upstream_calls& calls;
  bytes alignment, max_bytes;
  pool_counts found = {};
};

}  // namespace quarry::inline QUARRY_ABI::trace

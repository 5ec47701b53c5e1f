// SPDX-License-Identifier: Apache-2.0
// Replays the allocations of a trace in a pool, without their memory. Shows what the pool would
// have reserved, and whether the trace would have fitted.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/pool_options.hpp"
#include "quarry/host/pools/routing.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/trace/event.hpp"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {
struct plan;
}

namespace quarry::inline QUARRY_ABI::trace {

/// A placement of `pool` (`named_placements`, in that order), or another kind of pool.
enum class strategy : std::uint8_t {
  fast_fit,         ///< the default of `pool`
  segregated_fit,   ///< the first chunk of a list whose chunks all fit
  oldest_best_fit,  ///< best fit, the oldest of equal chunks, as in Umpire's QuickPool
  lowest_best_fit,  ///< best fit, the lowest of equal chunks
  stitched,         ///< `stitched_pool`: pages of 2 MiB that move
  streams,          ///< `stream_pool`: a stream that takes memory of another stream waits
  direct,           ///< no pool: each allocation is a call of the upstream
  planned,          ///< `planned_pool` with `replay_options::plan`
  planned_streams,  ///< `planned_stream_pool` with that plan, stream-ordered
};
inline constexpr std::size_t strategy_count =
    std::size_t{1} + static_cast<std::size_t>(strategy::planned_streams);
[[nodiscard]] QUARRY_API char const* name_of(strategy placement);
/// Returns the strategy with this name, which may have hyphens. Throws `bad_argument`, which lists
/// the names.
[[nodiscard]] QUARRY_API strategy strategy_named(std::string const& name);

struct strategy_text {
  std::string name;
  std::string help;   ///< what the strategy is, in a few words
  bool is_placement;  ///< of `pool`: takes a routing table
  bool has_blocks;    ///< uses the sizes of blocks
  bool coalesces;     ///< uses the heuristic and `shrink_after`
  bool needs_plan;
};
/// All strategies, for the help of a command line.
[[nodiscard]] QUARRY_API std::vector<strategy_text> strategy_texts();

/// The rules by which a replay follows a heuristic: when `blocks_releasable(n)` fires, which peak
/// `to_high_water` uses, what `before_growth` does, and when a coalesce does less. Pools of
/// programs follow `quarry`.
///   poster_2022   Umpire as of the poster (coalescing heuristics): fires above n blocks; uses the
///                 peak of the requested bytes; after a coalesce before growth the pool always
///                 takes another block; a coalesce takes no block if one free chunk is that large
///   umpire_2024   Umpire's release of 2024-10: fires from n blocks; uses the peak of the rounded
///                 bytes, including the block that coalescing takes; does nothing with fewer than
///                 two free chunks; a coalesce takes no block if one free chunk is that large
///   quarry        fires from n blocks; uses the peak of the users' rounded bytes; takes another
///                 block only if the request still does not fit; a coalesce keeps the only empty
///                 block, unless a smaller block suffices or bytes are missing
enum class heuristic_rules : std::uint8_t { poster_2022, umpire_2024, quarry };

/// A heuristic with the rules by which a replay follows it.
struct replay_heuristic {
  constexpr replay_heuristic(heuristic const& decision = {},
                             heuristic_rules followed = heuristic_rules::quarry)
      : value{decision}, rules{followed} {}

  heuristic value;
  heuristic_rules rules;

  friend constexpr bool operator==(replay_heuristic const&, replay_heuristic const&) = default;
};
/// As `quarry::heuristic_named`. The text may also have `+2022` or `+2024`: the rules poster_2022
/// and umpire_2024.
[[nodiscard]] QUARRY_API replay_heuristic heuristic_named(std::string const& text);
[[nodiscard]] QUARRY_API std::string name_of(replay_heuristic const& named);

struct option_text {
  std::string name;
  std::string help;
};
/// The parts of the text of a heuristic, for the help of a command line: `percent:N`, `+hwm`.
[[nodiscard]] QUARRY_API std::vector<option_text> heuristic_texts();

/// The cost of the upstream's calls. The defaults are the times of cudaMalloc and cudaFree on an
/// idle H200 for blocks of 2 to 512 MiB, rounded (docs/design/traces.md).
struct upstream_cost {
  double us_per_allocation = 40;
  double us_per_gib = 700;  ///< to allocate and free a block; counted when it is allocated
  double us_per_free = 30;
};

struct replay_options {
  strategy placement = strategy::fast_fit;
  /// `max_bytes` is the capacity. `name`, `is_tracked`, red zones and backtraces are ignored
  pool_options pool = {};
  /// The rules for `pool.coalesce`. A pool with a plan or a routing table follows `quarry` only
  heuristic_rules rules = heuristic_rules::quarry;
  upstream_cost cost = {};
  /// Replays on the memory of this resource, which must outlive the replayer; null simulates
  /// memory. `stitched` maps its own pages of the same kind of memory, the host's or a GPU's.
  /// Streams always follow the trace's clock, because the replay has no work for real streams
  any_resource* upstream = nullptr;
  /// Serves the allocations from several pools, which this table selects; null means one pool. The
  /// table must outlive the replayer. Allowed with the placements of `pool`, on simulated memory
  routing_table const* routing = nullptr;
  /// The trace's call sites, for the routes of the table
  name_table const* call_sites = nullptr;
  /// The plan of `planned` and `planned_streams`, which the replayer copies. `pool` has the options
  /// of the fallback. If the plan's block exceeds the capacity or the memory, no allocation
  /// succeeds
  quarry::plan const* plan = nullptr;
  /// For strategies with streams: the duration of a stream's work, in nanoseconds of the trace's
  /// time
  std::uint64_t stream_delay = 1'000'000;
  /// The maximum number of samples; at least 2
  std::size_t max_samples = 2048;
  /// Samples are taken from event number `sample_begin` on, and before `sample_end`. The maxima of
  /// the first sample include the state before `sample_begin`
  std::uint64_t sample_begin = 0, sample_end = std::numeric_limits<std::uint64_t>::max();
};

/// The state after some events. `allocated` and `reserved` are the maxima since the preceding
/// sample. So a small number of samples loses no peak. Other values are those at the time of the
/// sample.
struct replay_sample {
  std::uint64_t event = 0;  ///< events replayed until now
  std::uint64_t time = 0;
  bytes allocated = 0, granted = 0, reserved = 0;
  bytes releasable = 0, largest_free = 0;
  std::uint64_t upstream_allocations = 0, coalesces = 0;
};

/// The first failure of a replay, and the pool's state at that moment. A failure is an allocation
/// that did not fit, or a recorded failure that failed again.
struct replay_failure {
  std::uint64_t event = 0;  ///< its index in the trace
  trace::event request = {};
  std::string reason;  ///< the exception's message
  pool_counts pool = {};
};

/// How well a plan served the trace.
struct plan_use {
  std::uint64_t planned = 0;    ///< allocations at the places that the plan gives them
  std::uint64_t occupied = 0;   ///< allocations whose places were in use, not aligned, or missing
  std::uint64_t unplanned = 0;  ///< allocations whose requests were not the next ones of the plan
  std::uint64_t jumps = 0;      ///< to another position of the plan, after a deviation
  bytes fallback_peak = 0;      ///< peak of the bytes that the fallback reserved
};

struct replay_result {
  /// Whether every allocation of the trace succeeded, and every recorded failure that was tried
  /// again. Without a limit of the memory, failures are not tried again, because all would succeed
  [[nodiscard]] bool fits() const { return failures == 0 && repeated_failures == 0; }

  std::uint64_t events = 0;
  pool_counts pool = {};
  double upstream_us = 0;  ///< modelled, by `upstream_cost`
  /// The time of the calls on real memory, after a first call that initialises the device; nullopt
  /// if the memory is simulated
  std::optional<double> measured_us;
  std::uint64_t failures = 0;  ///< allocations that did not fit; they and their frees are skipped
  std::optional<replay_failure> first_failure;
  std::uint64_t unknown_frees = 0;  ///< of addresses that the trace did not allocate
  /// Allocations at addresses in use: the replay frees the older allocation
  std::uint64_t repeated_addresses = 0;
  std::uint64_t recorded_failures = 0;  ///< events `fail`
  /// Recorded failures that were tried again: all of them if `max_bytes` limits the memory, or if
  /// the memory is real. The replay frees their memory at once, because the program's use of it is
  /// unknown
  std::uint64_t retried_failures = 0;
  std::uint64_t repeated_failures = 0;  ///< recorded failures that failed again
  /// The largest sum of a request that failed in the recording and the bytes in use at that moment;
  /// 0 without recorded failures
  bytes peak_with_failures = 0;
  /// From `reserve` and `unreserve`: bytes that the recorded allocator reserved; 0 if not recorded.
  /// Blocks from before the recording count if the trace returns more than it reserves
  bytes recorded_peak_reserved = 0;
  std::uint64_t max_live = 0;    ///< peak number of allocations in use, without those that failed
  std::optional<plan_use> plan;  ///< for strategies with a plan, if its block fits into the memory
  std::vector<replay_sample> samples;
};

class running_replay;

/// Replays batches of events, for example as a reader supplies them. Memory: proportional to the
/// allocations in use, plus the samples. With a routing table also an entry for each combination of
/// size, call site and phase. Not thread-safe.
class QUARRY_API replayer {
 public:
  /// Throws `bad_argument` if an option is outside its range, or if the strategy lacks its plan or
  /// cannot work with the routing table or the upstream. Throws `resource_failed` if `stitched`
  /// finds no GPU for its pages.
  explicit replayer(replay_options const& options);
  replayer(replayer&&) noexcept;
  replayer& operator=(replayer&&) noexcept;
  ~replayer();

  void add(std::span<event const> events);
  /// The result of the events replayed so far.
  [[nodiscard]] replay_result result() const;

 private:
  std::unique_ptr<running_replay> running_;
};

class reader;
/// Replays the remaining events of a trace.
[[nodiscard]] QUARRY_API replay_result replay(reader& trace, replay_options const& options);

}  // namespace quarry::inline QUARRY_ABI::trace

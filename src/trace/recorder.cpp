// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/recorder.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "trace/event_output.hpp"
#include "trace/event_ticks.hpp"
#include "trace/lane_merge.hpp"
#include "trace/thread_lanes.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unistd.h>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Numbers of recorders begin at 1 and are not reused, unlike their addresses. Two copies of this
/// library in a process count apart, so a recorder is known by its number and its address.
constinit std::atomic<std::uint64_t> last_id{0};

[[nodiscard]] std::size_t hash_of(void const* address) {
  return (reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15) >> 40;
}
[[nodiscard]] std::string hex(void const* handle) {
  char text[24];
  std::snprintf(text, sizeof text, "%p", handle);
  return text;
}

}  // namespace

/// Invariant, with `mutex` held: an event that happened before an event in the file or ring is in
/// the file or ring, too. `drain` preserves it. It reads the clock, then the lanes, and takes the
/// events until that time. Such an event was stamped before the clock was read; what happened
/// before it was stored even earlier, so `drain` sees it, and it has an earlier stamp.
struct recorder::state {
  state(std::optional<std::string> const& path, std::size_t ring_events, event_clock clock)
      : ticks{clock == event_clock::fastest && has_constant_counter()},
        scale{ticks},
        output{path, ring_events} {
    batch.reserve(batch_events);
  }
  ~state() {
    detail::lock_unless_lost const lock{mutex};
    if (!lock || output.is_foreign()) {
      output.abandon();
    } else {
      drain(~std::uint64_t{0});
      output.write_held(names);
    }
    for (auto const& lane : lanes) lane->is_abandoned = true;
  }

  /// The lane of the calling thread; null if it ends, or has no memory for a lane.
  [[nodiscard]] record_lane* this_lane() noexcept {
    cached_lane const& cached = cached_lanes[id % cached_lanes.size()];
    if (cached.id == id && cached.owner == this) [[likely]]
      return cached.lane;
    return find_lane();
  }
  [[nodiscard, gnu::noinline]] record_lane* find_lane() noexcept {
    if (thread_has_ended) return nullptr;
    record_lane* found = lanes_of_thread.find(this, id);
    if (found == nullptr) {
      try {
        found = add_lane();
      } catch (...) {  // the event takes the slow path, which counts it
        return nullptr;
      }
    }
    cached_lanes[id % cached_lanes.size()] = {this, id, found, found->thread};
    return found;
  }
  [[nodiscard]] record_lane* add_lane() {
    lanes_of_thread.reserve();
    std::lock_guard const lock{mutex};
    auto const lane = take_lane(names.threads.add("thread " + std::to_string(gettid())));
    lanes_of_thread.add({this, id, lane});
    return lane.get();
  }

  // Requires `mutex` ------------------------------------------------------------------------------

  [[nodiscard]] std::shared_ptr<record_lane> take_lane(std::uint32_t thread) {
    std::shared_ptr<record_lane> lane;
    lanes.reserve(lanes.size() + 1);
    merge.reserve(lanes.size() + 1);
    if (unused.empty()) {
      lane = std::make_shared<record_lane>();
      unused.reserve(lanes.size() + 1);
    } else {
      lane = std::move(unused.back());
      unused.pop_back();
    }
    lane->begin(thread);
    lanes.push_back(lane);
    has_many_lanes.store(lanes.size() > 1, std::memory_order_relaxed);
    return lane;
  }

  /// Takes the events until the present time, or until `cut` if that is later, from all lanes.
  void drain(std::uint64_t cut) noexcept {
    cut = std::max(cut, scale.advance());
    output.check_process();
    merge.clear();
    for (auto const& lane : lanes) merge.add(*lane, cut);
    take_merged();
    reuse_lanes();
  }
  /// Takes the events that `merge` has found, in the order of their times.
  void take_merged() noexcept {
    merge.run([this](event& next) {
      next.time = scale.ns_of(next.time);
      batch.push_back(next);
      if (batch.size() == batch_events) take_batch();
    });
    take_batch();
    if (auto const* const last = merge.last()) take_all(*last);
  }
  /// Takes all events of one lane without a copy.
  void take_all(lane_merge::cursor const& from) noexcept {
    constexpr std::size_t capacity = record_lane::capacity;
    auto const take_range = [&](std::size_t first, std::size_t last) {
      std::span<event> const range{from.lane->slots.data() + first, last - first};
      for (event& each : range) each.time = scale.ns_of(each.time);
      output.add(range, names);
    };
    std::size_t const first = from.next % capacity, last = (from.end - 1) % capacity + 1;
    if (first < last) {
      take_range(first, last);
    } else {
      take_range(first, capacity);
      take_range(0, last);
    }
    from.lane->consumed = from.end;
  }
  void take_batch() noexcept {
    output.add(batch, names);
    batch.clear();
  }
  /// Takes the empty lanes of threads that have ended out of the list.
  void reuse_lanes() noexcept {
    for (std::size_t i = 0; i < lanes.size();) {
      record_lane& lane = *lanes[i];
      if (lane.has_ended.load_acquire() && lane.published.load_acquire() == lane.consumed) {
        unused.push_back(std::move(lanes[i]));  // has room: see take_lane
        lanes[i] = std::move(lanes.back());
        lanes.pop_back();
      } else {
        ++i;
      }
    }
    has_many_lanes.store(lanes.size() > 1, std::memory_order_relaxed);
  }
  void check_process() const {
    if (output.is_foreign())
      throw bad_state{
          "recorder: the file belongs to the parent process; a child of fork needs a "
          "recorder of its own"};
  }

  // Takes `mutex` ---------------------------------------------------------------------------------

  /// Records an event of a thread whose lane is full, or which has no lane because it ends or has
  /// no memory for a lane.
  [[gnu::noinline]] void record_slowly(std::uint64_t address, bytes size, bytes granted,
                                       std::uint64_t stream_and_allocator,
                                       std::uint64_t call_site_and_kind) noexcept {
    record_lane* lane = this_lane();
    detail::lock_unless_lost const lock{mutex};
    if (!lock) return;  // in a child of fork, which cannot write the file either
    if (lane == nullptr) lane = find_late_lane();
    if (lane != nullptr && !has_room(*lane)) {
      // The last event lies behind the present time only if the counters of two cores differ.
      drain(lane->slots[(lane->published - 1) % record_lane::capacity].time);
      if (lane->has_ended) lane = find_late_lane();  // `drain` took the empty lane out of the list
    }
    if (lane == nullptr) {
      ++unbuffered;
      return;
    }
    lane->limit = lane->consumed + record_lane::capacity;
    store(*lane, address, size, granted, stream_and_allocator, call_site_and_kind);
  }
  [[nodiscard]] static bool has_room(record_lane const& lane) {
    return lane.published - lane.consumed < record_lane::capacity;
  }
  /// A lane for events that are stored with `mutex` held. The thread's own lane may be in use by
  /// another thread now. Null if there is no memory.
  [[nodiscard]] record_lane* find_late_lane() noexcept {
    try {
      cached_lane& cached = cached_lanes[id % cached_lanes.size()];
      if (cached.id != id || cached.owner != this)
        cached = {this, id, nullptr, names.threads.add("thread " + std::to_string(gettid()))};
      auto const found = std::find_if(lanes.begin(), lanes.end(), [&](auto const& lane) {
        return lane->thread == cached.thread && lane->has_ended.load_acquire();
      });
      if (found != lanes.end()) return found->get();
      record_lane* const lane = take_lane(cached.thread).get();
      lane->has_ended = true;
      return lane;
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }

  /// Requires room in the lane.
  void store(record_lane& lane, std::uint64_t address, bytes size, bytes granted,
             std::uint64_t stream_and_allocator, std::uint64_t call_site_and_kind) noexcept {
    std::uint64_t const end = lane.published;
    event& slot = lane.slots[end % record_lane::capacity];
    slot.address = address;
    slot.size = size;
    slot.granted = granted;
    slot.thread = lane.thread;
    slot.stream = static_cast<std::uint32_t>(stream_and_allocator);
    slot.allocator = static_cast<std::uint32_t>(stream_and_allocator >> 32);
    auto const call_site = static_cast<std::uint32_t>(call_site_and_kind);
    slot.call_site = call_site != 0 ? call_site : lane.call_site;
    slot.kind = static_cast<event_kind>(call_site_and_kind >> 32);
    // The store of `true` precedes the other lane's first event. So if that event happened before
    // this one, this relaxed load sees `true`, or a later `false`. `false` is stored after all
    // events of the other lanes have been taken; this event is taken later, whatever its time.
    slot.time =
        has_many_lanes.load(std::memory_order_relaxed) ? ticks.ordered() : ticks.unordered();
    lane.published = end + 1;
  }

  static constexpr std::size_t batch_events = 256;
  static_assert(std::max(batch_events, record_lane::capacity) <= event_output::max_added);

  std::uint64_t const id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
  tick_source const ticks;
  std::atomic<bool> has_many_lanes{false};  // written with `mutex` held

  mutable detail::mutex_held_at_fork mutex;
  // Guarded by: mutex
  tick_scale scale;
  name_tables names;
  std::unordered_map<void const*, std::uint32_t> streams;  // by handle
  std::vector<std::shared_ptr<record_lane>> lanes, unused;
  lane_merge merge;
  std::vector<event> batch;  // for the output
  event_output output;
  std::uint64_t unbuffered = 0;  // events of threads that had no memory for a lane
};

recorder::recorder(std::string const& path, event_clock clock)
    : state_{std::make_unique<state>(path, 0, clock)} {}
recorder::recorder(ring_limit limit, event_clock clock) {
  if (limit.events == 0)
    throw bad_argument{"recorder: a ring of 0 events; it needs room for 1 event (" +
                       std::to_string(sizeof(event)) + " bytes) at least"};
  state_ = std::make_unique<state>(std::nullopt, limit.events, clock);
}
recorder::~recorder() = default;

void recorder::record_fields(std::uint64_t address, bytes size, bytes granted,
                             std::uint64_t stream_and_allocator,
                             std::uint64_t call_site_and_kind) noexcept {
  record_lane* const lane = state_->this_lane();
  if (lane == nullptr || lane->published == lane->limit) [[unlikely]]
    return state_->record_slowly(address, size, granted, stream_and_allocator, call_site_and_kind);
  state_->store(*lane, address, size, granted, stream_and_allocator, call_site_and_kind);
}

void recorder::wait(void const* stream_handle, void const* other) noexcept {
  record({.size = stream(other), .stream = stream(stream_handle), .kind = event_kind::wait});
}
void recorder::phase(std::string_view name) noexcept {
  std::uint32_t number = 0;
  try {
    number = call_site(name);
  } catch (...) {  // no memory: a phase without a name
  }
  record({.call_site = number, .kind = event_kind::phase});
}

std::uint32_t recorder::allocator(std::string_view name) {
  std::lock_guard const lock{state_->mutex};
  return state_->names.allocators.number(name);
}

std::uint32_t recorder::thread(std::string_view name) {
  std::lock_guard const lock{state_->mutex};
  return state_->names.threads.number(name);
}

std::uint32_t recorder::stream_number(void const* handle) noexcept {
  record_lane* const lane = state_->this_lane();
  if (lane != nullptr) {
    if (auto const* const found = lane->streams.find(handle, hash_of(handle))) return *found;
  }
  try {
    std::lock_guard const lock{state_->mutex};
    auto [entry, is_new] = state_->streams.try_emplace(handle, 0);
    if (is_new) {
      try {
        entry->second = state_->names.streams.add(hex(handle));
      } catch (...) {
        state_->streams.erase(entry);
        throw;
      }
    }
    if (lane != nullptr) lane->streams.set(handle, hash_of(handle), entry->second);
    return entry->second;
  } catch (...) {
    return 0;
  }
}
bool recorder::name_stream(void const* handle, std::string_view name) {
  if (handle == nullptr) return false;
  std::lock_guard const lock{state_->mutex};
  auto [entry, is_new] = state_->streams.try_emplace(handle, 0);
  if (!is_new) return false;
  try {
    entry->second = state_->names.streams.add(name);
  } catch (...) {
    state_->streams.erase(entry);
    throw;
  }
  return true;
}

std::uint32_t recorder::call_site(std::string_view label) {
  std::lock_guard const lock{state_->mutex};
  return state_->names.call_sites.number(label);
}
std::uint32_t recorder::call_site(std::source_location const& position) {
  record_lane* const lane = state_->this_lane();
  record_lane::place const key{position.file_name(), position.line(), position.column()};
  std::size_t const hash = hash_of(key.file) + key.line + 7 * std::size_t{key.column};
  if (lane != nullptr) {
    if (auto const* const found = lane->places.find(key, hash)) return *found;
  }
  std::uint32_t const number =
      call_site(std::string{position.file_name()} + ':' + std::to_string(position.line()) + ' ' +
                position.function_name());
  if (lane != nullptr) lane->places.set(key, hash, number);
  return number;
}

void recorder::flush() {
  std::lock_guard const lock{state_->mutex};
  state_->check_process();
  state_->drain(0);
  state_->output.flush(state_->names);
  state_->output.throw_failure();
}
void recorder::close() {
  std::lock_guard const lock{state_->mutex};
  if (!state_->output.has_file() || state_->output.is_closed()) return;
  state_->check_process();
  state_->drain(0);
  state_->output.close(state_->names);
  state_->output.throw_failure();
}

void recorder::save(std::string const& path) {
  std::lock_guard const lock{state_->mutex};
  if (state_->output.has_file())
    throw bad_state{"recorder: save needs a ring; this recorder writes to a file already"};
  state_->drain(0);
  state_->output.save(path, state_->names);
}

void recorder::hold_back(std::size_t events) {
  std::lock_guard const lock{state_->mutex};
  state_->output.hold_back(events);
}
std::size_t recorder::insert(std::span<event const> events) {
  if (!std::is_sorted(events.begin(), events.end(),
                      [](event const& a, event const& b) { return a.time < b.time; }))
    throw bad_argument{"recorder: insert needs its events in the order of their times"};
  std::vector<event> inserted{events.begin(), events.end()};
  std::lock_guard const lock{state_->mutex};
  state_->drain(0);
  state_->scale.advance_results();
  for (event& each : inserted) each.time = state_->scale.ns_of_steady(each.time);
  return state_->output.insert(inserted, state_->names);
}

std::uint64_t recorder::lost() const {
  std::lock_guard const lock{state_->mutex};
  return state_->unbuffered + state_->output.lost();
}

call_site_scope::call_site_scope(recorder& target, std::source_location const& position)
    : recorder_{target} {
  begin(target.call_site(position));
}
call_site_scope::call_site_scope(recorder& target, std::uint32_t number) : recorder_{target} {
  begin(number);
}
void call_site_scope::begin(std::uint32_t number) {
  if (auto* const lane = recorder_.state_->this_lane())
    before_ = std::exchange(lane->call_site, number);
}
call_site_scope::~call_site_scope() {
  if (auto* const lane = recorder_.state_->this_lane()) lane->call_site = before_;
}

}  // namespace quarry::inline QUARRY_ABI::trace

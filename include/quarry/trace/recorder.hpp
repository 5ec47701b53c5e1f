// SPDX-License-Identifier: Apache-2.0
// Records the events of a running program.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"
#include "quarry/trace/event.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// The most events that a recorder keeps in memory.
struct ring_limit {
  std::size_t events = 0;

  /// The events that fit in `size` bytes.
  [[nodiscard]] static constexpr ring_limit of_bytes(bytes size) {
    return {static_cast<std::size_t>(size / sizeof(event))};
  }
};

/// The clock that a recorder reads for each event.
enum class event_clock : std::uint8_t {
  fastest,  ///< the processor's time stamp counter if its rate is constant, else `steady`
  steady,   ///< std::chrono::steady_clock
};

/// Records events of all threads: into a file, or into a ring in memory that keeps the last ones.
///
/// Each thread writes to a buffer of its own, without a lock. The thread that fills its buffer
/// takes the recorder's mutex, merges the buffers of all threads by time, and appends the events to
/// the file or ring. So a file is in order when it is written, and readers need not sort it.
///
/// Order. Guaranteed for the events that a reader gets:
///   1. The events of a thread have the order in which the thread recorded them.
///   2. If one thread's `record` happens before (in the sense of C++) another thread's `record`,
///      the events have this order. So no address is live twice if an allocation is recorded after
///      the call that allocates, and a deallocation before the call that frees.
///   3. Times never decrease. If a thread was interrupted between reading the clock and storing its
///      event, the event may have the time at which another thread wrote the buffers.
/// With `steady`, rule 2 requires that the clock advances between the two calls.
///
/// Bound. Memory: `buffer_bytes` for each thread that records at the same time, and `sizeof(event)`
/// for each event of a ring. A crash costs the events in buffers, at most `buffered_events` of each
/// thread, those that are held back, and the file's last chunk.
///
/// Any thread may call any function. Threads may end after the recorder. Threads that record while
/// they end, and destructors of static objects, take the mutex for each event. Counters have 64
/// bits: they do not wrap in a program's life. A trace can have 2^32 threads, streams, allocators
/// and call sites each; the memory for their names is exhausted earlier.
///
/// Forks. In the child, a recorder with a file drops all events and does not change the parent's
/// file. A recorder with a ring continues in both processes.
class QUARRY_API recorder {
 public:
  /// Creates the file, or truncates it. Throws `bad_argument` for an empty path; `resource_failed`,
  /// and leaves the file as it is, if another recorder of any process writes it.
  explicit recorder(std::string const& path, event_clock clock = event_clock::fastest);
  /// Keeps the last events in memory: see `save`. Throws `bad_argument` for a limit of 0 events,
  /// and `out_of_memory` with the size of the ring.
  explicit recorder(ring_limit limit, event_clock clock = event_clock::fastest);
  recorder(recorder const&) = delete;
  recorder& operator=(recorder const&) = delete;
  /// Writes what is left. Errors are lost: call `close` to see them. No other call may run.
  ~recorder();

  /// Records an event at the present time. Sets its time and thread; if it has no call site, then
  /// also the call site of the thread's innermost `call_site_scope`. The event's numbers must come
  /// from this recorder. Events that cannot be recorded count as lost.
  void record(event const& happened) noexcept {
    record_fields(happened.address, happened.size, happened.granted,
                  happened.stream | std::uint64_t{happened.allocator} << 32,
                  happened.call_site | static_cast<std::uint64_t>(happened.kind) << 32);
  }
  /// Records that `stream` waits for the present work of `other`. Handles, as for `stream`.
  void wait(void const* stream, void const* other) noexcept;
  /// Records that a phase of the program begins.
  void phase(std::string_view name) noexcept;

  /// The number of an allocator; the same for the same name. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t allocator(std::string_view name);
  /// The number of a stream, by its handle; 0 for the null handle, the default stream. Each thread
  /// remembers its last streams. Without memory for the name, the number is 0.
  [[nodiscard]] std::uint32_t stream(void const* handle) noexcept {
    return handle == nullptr ? 0 : stream_number(handle);
  }
  /// Sets the name of a stream that is not recorded yet. Returns false, and changes nothing, for a
  /// stream that has a name, and for the default stream. Throws std::bad_alloc.
  bool name_stream(void const* handle, std::string_view name);
  /// The number of a call site: of a label, or of a place in the source. Call it once per site.
  [[nodiscard]] std::uint32_t call_site(std::string_view label);
  [[nodiscard]] std::uint32_t call_site(std::source_location const& place);

  /// The number of a thread that is not one of this program's, such as a multiprocessor; the same
  /// for the same name. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t thread(std::string_view name);
  /// Adds events that happened elsewhere, with their own threads and times. Times are nanoseconds
  /// of std::chrono::steady_clock, in ascending order. The events go between the other events of
  /// the trace by time, as if they had been recorded when they happened. Times in the future become
  /// the present time. What threads record after this call comes after these events.
  ///
  /// Events that are in the file cannot be changed. Events that are earlier than its end keep their
  /// order, and get the time of its end. Returns the number of these events; `hold_back` avoids
  /// them.
  /// A ring always has room for them in order. Throws `bad_argument` and std::bad_alloc, and adds
  /// nothing. O(events, and those held back or in the ring).
  std::size_t insert(std::span<event const> events);
  /// Keeps at least the last `events` events of all threads in memory before they are written to
  /// the file, so that `insert` can put events between them. They take at most
  /// `2 * max(events, buffered_events) * sizeof(event)` bytes. `flush` and `close` write them. Only
  /// raises the number. Does nothing in a ring. Throws std::bad_alloc.
  void hold_back(std::size_t events);

  /// Writes the events recorded until now to the file. Throws `resource_failed`, with the first
  /// error, if any event is lost since the last throw; `bad_state` in the child of a fork.
  void flush();
  /// Flushes and closes the file. Later events are lost. Throws as `flush` does.
  void close();
  /// Writes the events of the ring to a file. Other threads may record meanwhile. Throws
  /// `bad_state` if this recorder has no ring, and `resource_failed`.
  void save(std::string const& path);

  /// Events that are in no file and in no ring because the file could not be written, memory was
  /// exhausted, the file is closed, or belongs to the parent of a fork. A ring does not count the
  /// events that it replaced.
  [[nodiscard]] std::uint64_t lost() const;

  /// Events of a thread's buffer, and the bytes of the buffer.
  static constexpr std::size_t buffered_events = 512;
  static constexpr bytes buffer_bytes = buffered_events * 56 + 2048;

 private:
  friend class call_site_scope;
  struct state;

  /// Takes the event in registers. Through memory, it would be stored by fields and loaded by
  /// larger words, which a processor cannot forward.
  void record_fields(std::uint64_t address, bytes size, bytes granted,
                     std::uint64_t stream_and_allocator, std::uint64_t call_site_and_kind) noexcept;

  [[nodiscard]] std::uint32_t stream_number(void const* handle) noexcept;

  std::unique_ptr<state> state_;
};

/// Sets the call site of all events that the calling thread records until the scope ends. Scopes
/// nest. Must end before its recorder, on the thread that began it.
class QUARRY_API call_site_scope {
 public:
  /// The place of the call. Each thread remembers the numbers of its last places, so a scope in a
  /// loop is cheap.
  explicit call_site_scope(recorder& target,
                           std::source_location const& place = std::source_location::current());
  /// A number that `recorder::call_site` returned.
  call_site_scope(recorder& target, std::uint32_t number);
  call_site_scope(call_site_scope const&) = delete;
  call_site_scope& operator=(call_site_scope const&) = delete;
  ~call_site_scope();

 private:
  void begin(std::uint32_t number);

  recorder& recorder_;
  std::uint32_t before_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace

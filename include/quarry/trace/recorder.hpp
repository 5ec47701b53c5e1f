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

/// The maximum number of events that a recorder keeps in memory.
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

/// Records events of all threads into a file, or into a ring in memory that keeps the last events.
///
/// Each thread writes to a buffer of its own, without a lock. The thread that fills its buffer
/// takes the recorder's mutex, merges the buffers of all threads by time, and appends the events to
/// the file or ring. So a file is in order when it is written, and readers need not sort it.
///
/// Order. The recorder guarantees for the events that a reader gets:
///   1. The events of a thread have the order in which the thread recorded them.
///   2. If one thread's `record` happens before (in the sense of C++) another thread's `record`,
///      the events have this order. So the trace shows no address as allocated twice if an
///      allocation is recorded after the call that allocates, and a deallocation before the call
///      that frees.
///   3. Times never decrease. If a thread was interrupted between reading the clock and storing its
///      event, the event may have the time at which another thread wrote the buffers.
/// With `steady`, rule 2 requires that the clock advances between the two calls.
///
/// Memory: `buffer_bytes` for each thread that records at the same time, and `sizeof(event)` for
/// each event of a ring. A crash loses the events in buffers (at most `buffered_events` for each
/// thread), the events that `hold_back` keeps in memory, and the file's last chunk.
///
/// Any thread may call any function. Threads may outlive the recorder. Threads that record while
/// they end, and destructors of static objects, take the mutex for each event. Counters have 64
/// bits, so they do not wrap in a program's life. A trace can have 2^32 threads, streams,
/// allocators and call sites each; the memory for their names is exhausted earlier.
///
/// Forks. In the child, a recorder with a file drops all events and does not change the parent's
/// file. A recorder with a ring continues in both processes.
class QUARRY_API recorder {
 public:
  /// Creates the file, or truncates it. Throws `bad_argument` for an empty path. Throws
  /// `resource_failed` if the file cannot be created. If another recorder of any process writes it,
  /// throws `resource_failed` and does not change the file.
  explicit recorder(std::string const& path, event_clock clock = event_clock::fastest);
  /// Keeps the last events in memory; `save` writes them. Throws `bad_argument` for a limit of 0
  /// events, and `out_of_memory` with the size of the ring.
  explicit recorder(ring_limit limit, event_clock clock = event_clock::fastest);
  recorder(recorder const&) = delete;
  recorder& operator=(recorder const&) = delete;
  /// Writes the remaining events. Ignores errors; call `close` to see them. No other call may run.
  ~recorder();

  /// Records an event at the present time. Sets the event's time and thread. If the event has no
  /// call site, sets the call site of the thread's innermost `call_site_scope`. The event's numbers
  /// must come from this recorder. Events that cannot be recorded count as lost.
  void record(event const& happened) noexcept {
    record_fields(happened.address, happened.size, happened.granted,
                  happened.stream | std::uint64_t{happened.allocator} << 32,
                  happened.call_site | static_cast<std::uint64_t>(happened.kind) << 32);
  }
  /// Records that `stream` waits for the present work of `other`. Both arguments are handles, as in
  /// `stream`.
  void wait(void const* stream, void const* other) noexcept;
  /// Records that a phase of the program begins.
  void phase(std::string_view name) noexcept;

  /// The number of an allocator. Equal names have equal numbers. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t allocator(std::string_view name);
  /// The number of the stream with this handle; 0 for the null handle, which is the default stream.
  /// Each thread remembers its last streams. Without memory for the name, the number is 0.
  [[nodiscard]] std::uint32_t stream(void const* handle) noexcept {
    return handle == nullptr ? 0 : stream_number(handle);
  }
  /// Sets the name of a stream that is not recorded yet. Returns false and changes nothing for the
  /// default stream, and for a stream that has a name. Throws std::bad_alloc.
  bool name_stream(void const* handle, std::string_view name);
  /// The number of a call site, which is a label or a position in the source. Equal labels have
  /// equal numbers. Takes the mutex, except for a position that the thread used lately, so call it
  /// once for each label. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t call_site(std::string_view label);
  [[nodiscard]] std::uint32_t call_site(std::source_location const& position);

  /// The number of a thread that does not belong to this program, such as a multiprocessor. Equal
  /// names have equal numbers. Throws std::bad_alloc.
  [[nodiscard]] std::uint32_t thread(std::string_view name);
  /// Adds events that happened elsewhere, with their own threads and times. Times are nanoseconds
  /// of std::chrono::steady_clock, in ascending order. The function merges the events into the
  /// trace by time, as if they had been recorded when they happened. Times in the future become the
  /// present time. Events that threads record after this call come after these events.
  ///
  /// Events in the file cannot be changed. Added events that are earlier than the end of the file
  /// keep their order, and get the time of that end. Returns the number of these events;
  /// `hold_back` avoids them. A ring can always merge in order. Throws `bad_argument` and
  /// std::bad_alloc, and then adds nothing. O(events + events held back or in the ring).
  std::size_t insert(std::span<event const> events);
  /// Keeps at least the last `events` events of all threads in memory before they are written to
  /// the file, so that `insert` can merge events into them. They take at most `2 * max(events,
  /// buffered_events) * sizeof(event)` bytes. `flush` and `close` write them. The function only
  /// raises the number. Does nothing in a ring. Throws std::bad_alloc.
  void hold_back(std::size_t events);

  /// Writes all recorded events to the file. Throws `resource_failed` with the first error if an
  /// event was lost since the last throw. Throws `bad_state` in the child of a fork. Without a file
  /// it writes nothing.
  void flush();
  /// Flushes and closes the file. Later events are lost. Throws as `flush` does. Does nothing in a
  /// ring, and after the first call.
  void close();
  /// Writes the events of the ring to a file. Other threads may record meanwhile. Throws
  /// `bad_state` if this recorder has no ring, and `resource_failed`.
  void save(std::string const& path);

  /// The number of events that are neither in a file nor in a ring. Causes: the file could not be
  /// written, is closed, or belongs to the parent of a fork; or memory was exhausted. A ring does
  /// not count the events that it replaced.
  [[nodiscard]] std::uint64_t lost() const;

  /// The number of events in a thread's buffer, and the bytes of the buffer.
  static constexpr std::size_t buffered_events = 512;
  static constexpr bytes buffer_bytes = buffered_events * 56 + 2048;

 private:
  friend class call_site_scope;
  struct state;

  /// Takes the event's fields in registers. A processor could not forward an event through memory:
  /// it would store fields and load larger words.
  void record_fields(std::uint64_t address, bytes size, bytes granted,
                     std::uint64_t stream_and_allocator, std::uint64_t call_site_and_kind) noexcept;

  [[nodiscard]] std::uint32_t stream_number(void const* handle) noexcept;

  std::unique_ptr<state> state_;
};

/// Sets the call site of all events that the calling thread records until the scope ends. Scopes
/// nest. Must end before its recorder, on the thread that began it.
class QUARRY_API call_site_scope {
 public:
  /// The call site is the position of the call in the source. Each thread remembers the numbers of
  /// its last positions, so a scope in a loop is cheap.
  explicit call_site_scope(recorder& target,
                           std::source_location const& position = std::source_location::current());
  /// The call site is a number that `recorder::call_site` returned.
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

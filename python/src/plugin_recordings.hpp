// SPDX-License-Identifier: Apache-2.0
// The recordings of the plug-ins' pools.
#pragma once

#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/trace/event.hpp"

#include "recorder_handle.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace quarry::python {

/// Who allocates: the allocator's name in a recording.
enum class framework : std::uint8_t { pytorch, pytorch_segments, cupy, numba, rmm };
inline constexpr std::array framework_names{"pytorch", "pytorch segments", "cupy", "numba", "rmm"};

/// Up to two recordings at a time: one that the program starts, and one for the command that runs
/// the program (`quarry record`). Each gets all events. Functions are safe to call from any thread
/// unless they say that they need Python's lock.
namespace plugin_recordings {

inline constexpr std::size_t max_recordings = 2;
struct recording;

/// The present call site, by its number in each recording.
class site_numbers {
 public:
  /// The innermost frame of Python code. Nothing if no recording wants call sites, or if this
  /// thread does not hold Python's lock. The caller must not hold the lock of a pool.
  [[nodiscard]] static site_numbers find();
  /// The same, but takes Python's lock if this thread has run Python code: `find_with_lock` of
  /// `call_sites` says what the caller must not hold.
  [[nodiscard]] static site_numbers find_with_lock();

  /// 0 if there is no number in that recording.
  [[nodiscard]] std::uint32_t number_in(recording const* target) const;

 private:
  template <class Find>
  [[nodiscard]] static site_numbers found_by(Find find);

  // The recordings may have changed when the number is used.
  std::array<recording const*, max_recordings> targets_{};
  std::array<std::uint32_t, max_recordings> numbers_{};
};

/// Whether any recording is under way. May be outdated when it returns.
[[nodiscard]] bool are_under_way() noexcept;
/// Sets the event's stream, allocator and call site for each recording, and records the event.
void record(framework user, trace::event const& happened, cuda_stream stream,
            site_numbers const& sites) noexcept;
/// Records that a pool took a block from its upstream (`reserve`) or returned it (`unreserve`).
void record_block(trace::event_kind kind, void const* block, bytes size) noexcept;

/// Starts the program's recording, into a new file. Needs Python's lock. Throws `bad_state` during
/// such a recording, and `resource_failed`.
void start(std::string const& path, bool has_call_sites);
/// Starts, or replaces, the recording of the command. The caller closes it. Needs Python's lock.
void join(recorder_handle const& command);
/// Completes the program's file. Returns false if the program records nothing. Throws
/// `resource_failed` if events were lost.
bool stop();
/// Ends both recordings in the child of a fork, and leaves the parent's files as they are. Needs
/// Python's lock.
void forget() noexcept;

}  // namespace plugin_recordings

}  // namespace quarry::python

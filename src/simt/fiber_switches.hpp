// SPDX-License-Identifier: Apache-2.0
// Tells sanitizers which fiber runs.
#pragma once

#include "quarry/core/config.hpp"

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(QUARRY_FIBERS_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
}
#endif

namespace quarry::inline QUARRY_ABI::simt {

/// A lane's fiber, as sanitizers know it.
struct sanitized_fiber {
  void const* stack_bottom = nullptr;
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* thread = nullptr;      // ThreadSanitizer's
};

/// The switches between a scheduler and its lanes, announced to the sanitizers.
///
/// ThreadSanitizer takes each lane for a thread. A switch orders nothing, apart from a lane's last
/// one: lanes that share a thread of the system must synchronise as lanes of a GPU must, and so a
/// missing order is found although the lanes take turns. The scheduler's own data is ordered by the
/// turns. So its source is compiled without ThreadSanitizer, and its allocations are hidden.
class fiber_switches {
 public:
  void create([[maybe_unused]] sanitized_fiber& lane) {
#if defined(QUARRY_FIBERS_UNDER_TSAN)
    lane.thread = __tsan_create_fiber(0);
#endif
  }
  /// The lane has ended.
  void destroy([[maybe_unused]] sanitized_fiber& lane) {
#if defined(QUARRY_FIBERS_UNDER_TSAN)
    if (lane.thread != nullptr) __tsan_destroy_fiber(lane.thread);
#endif
  }

  /// On the scheduler's stack, directly before and after the lane runs.
  void begin_lane([[maybe_unused]] sanitized_fiber& lane) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&own_fake_stack_, lane.stack_bottom, lane.stack_bytes);
#endif
#if defined(QUARRY_FIBERS_UNDER_TSAN)
    own_thread_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(lane.thread, __tsan_switch_to_fiber_no_sync);
#endif
  }
  void end_lane() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(own_fake_stack_, nullptr, nullptr);
#endif
  }

  /// On the lane's stack, directly before and after the scheduler runs.
  void begin_scheduler([[maybe_unused]] sanitized_fiber& lane, [[maybe_unused]] bool is_last) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(is_last ? nullptr : &lane.fake_stack, own_stack_,
                                   own_stack_bytes_);
#endif
#if defined(QUARRY_FIBERS_UNDER_TSAN)
    __tsan_switch_to_fiber(own_thread_, is_last ? 0 : __tsan_switch_to_fiber_no_sync);
#endif
  }
  void end_scheduler([[maybe_unused]] sanitized_fiber& lane, [[maybe_unused]] bool is_first) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(is_first ? nullptr : lane.fake_stack, &own_stack_,
                                    &own_stack_bytes_);
#endif
  }

 private:
#if defined(__SANITIZE_ADDRESS__)
  void* own_fake_stack_ = nullptr;
  void const* own_stack_ = nullptr;
  std::size_t own_stack_bytes_ = 0;
#endif
#if defined(QUARRY_FIBERS_UNDER_TSAN)
  void* own_thread_ = nullptr;
#endif
};

/// Hides from ThreadSanitizer what a lane does in the scheduler.
class hidden_from_sanitizer {
 public:
#if defined(QUARRY_FIBERS_UNDER_TSAN)
  hidden_from_sanitizer() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~hidden_from_sanitizer() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  hidden_from_sanitizer() {}
#endif
  hidden_from_sanitizer(hidden_from_sanitizer const&) = delete;
};

/// Says that what lanes do before they reach a common point comes before what they do after it. A
/// null point orders nothing.
class common_point {
 public:
#if defined(QUARRY_FIBERS_UNDER_TSAN)
  static constexpr bool has_effect = true;

  common_point(common_point const&) = delete;
  explicit common_point(void* point) : point_{point} {
    if (point_ != nullptr) __tsan_release(point_);
  }
  ~common_point() {
    if (point_ != nullptr) __tsan_acquire(point_);
  }

 private:
  void* point_;
#else
  static constexpr bool has_effect = false;

  common_point(common_point const&) = delete;
  explicit common_point(void*) {}
#endif
};

}  // namespace quarry::inline QUARRY_ABI::simt

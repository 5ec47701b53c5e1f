// SPDX-License-Identifier: Apache-2.0
// One trace of both sides of the launch: what kernels allocate from heaps, among the host's events.
// Programs link quarry::trace.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/clock_alignment.hpp"
#include "quarry/device/recorded_heap.hpp"
#include "quarry/trace/recorder.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

struct heap_trace_options {
  heap_recorder_options buffers = {};  ///< the buffers of the kernels' events, on the device
  /// The number of host events that the recorder holds back, so that events of kernels are merged
  /// in order. At most this many should happen from the start of a kernel to the `drain` after it
  /// (trace::recorder::hold_back)
  std::size_t held_events = 65'536;
};

/// Records what kernels allocate from a heap in the trace of a recorder. Any number of heaps, and
/// the resources of the host, can share a recorder.
///
/// Kernels get `ref()`. After a kernel has ended, `drain` adds its events to the trace by time. An
/// event has the heap's name as allocator. Its thread is the multiprocessor, such as `SM 17`. On
/// the CPU the thread is the buffer of the lane's warp.
///
/// Time. On the CPU kernels and host have one clock. On CUDA, `drain` reads both clocks by five
/// small kernels, and `clock_error_ns` bounds the error. An event of the host and an event of a
/// kernel may be in the wrong order if they are closer than this error. Their addresses differ, so
/// every replay of the trace is correct.
///
/// `launch(grid, kernel)` must run a kernel on the heap's device and wait for it: with CUDA,
/// simt::launch_cuda and a synchronisation; on the CPU, simt::launch_threads. Not thread-safe; no
/// kernel may use the refs during a call of another member function.
template <class Launch>
class heap_trace {
 public:
  /// The heap must outlive this object. Throws `bad_argument` for wrong options or a null recorder,
  /// `out_of_memory`, `resource_failed`, and what `launch` throws.
  heap_trace(Launch launch, heap& recorded, std::shared_ptr<trace::recorder> target,
             std::string_view name, heap_trace_options const& options = {})
      : launch_{std::move(launch)},
        kind_{recorded.backend_kind()},
        target_{checked(std::move(target))},
        allocator_{target_->allocator(name)},
        buffers_{options.buffers.buffers},
        events_{recorded, options.buffers},
        clocks_{kind_ == backend::cuda ? read_clocks(launch_, kind_) : clock_reading{}} {
    target_->hold_back(options.held_events);
  }
  heap_trace(heap_trace const&) = delete;
  heap_trace& operator=(heap_trace const&) = delete;
  /// Drains the remaining events. Ignores errors; call `drain` to see them.
  ~heap_trace() {
    try {
      drain();
    } catch (...) {  // a destructor cannot report errors
    }
  }

  /// Valid while this object exists.
  [[nodiscard]] recorded_heap_ref ref() const { return events_.ref(); }

  /// Adds the events since the last `drain` to the trace. `kernel` names their call site. Call it
  /// after each kernel, or before the buffers are full. Throws `out_of_memory`, `resource_failed`,
  /// std::bad_alloc, and what `launch` throws; events may be lost then. During the call it needs
  /// 168 to 232 bytes of the host's memory for each drained event. It needs 56 bytes more for each
  /// held event that happened after the first drained event.
  void drain(std::string_view kernel = {}) {
    if (kind_ == backend::cuda) clocks_.add(read_clocks(launch_, kind_));
    std::uint32_t const call_site = kernel.empty() ? 0 : target_->call_site(kernel);
    std::vector<trace::event> drained;
    events_.drain([&](heap_event const& each) {
      drained.push_back({.time = kind_ == backend::cuda ? clocks_.host_ns(each.time) : each.time,
                         .address = each.address,
                         .size = each.size,
                         .thread = thread_of(each.processor),
                         .allocator = allocator_,
                         .call_site = call_site,
                         .kind = kind_of(each.kind)});
    });
    if (!drained.empty()) late_ += target_->insert(drained);
  }

  /// The number of events until now that were lost because their buffer was full.
  [[nodiscard]] std::uint64_t lost() const { return events_.lost(); }
  /// The number of events whose times in the trace are too late. When they were drained, the file
  /// had later events already: more than `held_events` events of the host followed, or a `flush`.
  [[nodiscard]] std::uint64_t late() const { return late_; }
  /// The maximum error of the last drain's times against the host's clock, in nanoseconds, if the
  /// rates of both clocks were constant since the preceding drain. 0 on the CPU.
  [[nodiscard]] std::uint64_t clock_error_ns() const { return clocks_.error(); }

 private:
  [[nodiscard]] static std::shared_ptr<trace::recorder> checked(
      std::shared_ptr<trace::recorder> target) {
    if (target == nullptr) throw bad_argument{"heap_trace: the recorder is null"};
    return target;
  }
  [[nodiscard]] static trace::event_kind kind_of(heap_event_kind kind) {
    switch (kind) {
      case heap_event_kind::allocate:
        return trace::event_kind::allocate;
      case heap_event_kind::deallocate:
        return trace::event_kind::deallocate;
      case heap_event_kind::fail:
        break;
    }
    return trace::event_kind::fail;
  }
  [[nodiscard]] std::uint32_t thread_of(std::uint32_t processor) {
    // On the CPU these numbers are arbitrary, and the recorder keeps each name: this limits them.
    if (kind_ != backend::cuda) processor %= buffers_;
    auto const [entry, is_new] = threads_.try_emplace(processor, 0);
    if (is_new)
      entry->second =
          target_->thread((kind_ == backend::cuda ? "SM " : "warps ") + std::to_string(processor));
    return entry->second;
  }

  Launch launch_;
  backend kind_;
  std::shared_ptr<trace::recorder> target_;
  std::uint32_t allocator_;
  std::uint32_t buffers_;
  heap_recorder events_;
  clock_alignment clocks_;
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;  // by processor
  std::uint64_t late_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI

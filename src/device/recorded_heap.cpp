// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/recorded_heap.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/device/detail/kernel_memory.hpp"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace quarry::inline QUARRY_ABI {
namespace {

using count = detail::heap_call_count;

heap_recorder_options checked(heap_recorder_options const& options) {
  for (auto const& [name, value] : {std::pair{"buffers", options.buffers},
                                    std::pair{"events_per_buffer", options.events_per_buffer}}) {
    if (value == 0 || value > (1u << 24))
      throw bad_argument{std::string{"heap_recorder_options: "} + name + " is " +
                         std::to_string(value) + "; it must be from 1 to 16777216"};
  }
  return options;
}

}  // namespace

class heap_recorder::implementation {
 public:
  implementation(heap& recorded, heap_recorder_options const& options)
      : heap_{&recorded},
        options_{checked(options)},
        memory_{recorded.backend_kind(),
                bytes{options.buffers} *
                    (sizeof(count) + bytes{options.events_per_buffer} * sizeof(heap_event))} {}

  [[nodiscard]] recorded_heap_ref ref() const {
    return {heap_->ref(), static_cast<count*>(memory_.data()), options_.buffers,
            options_.events_per_buffer};
  }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

  [[nodiscard]] std::vector<heap_event> take() {
    auto events = read();
    std::stable_sort(events.begin(), events.end(),
                     [](heap_event const& a, heap_event const& b) { return a.time < b.time; });
    for (auto first = events.begin(); first != events.end();) {
      auto const last = std::find_if(
          first, events.end(), [&](heap_event const& other) { return other.time != first->time; });
      for (; first != last; ++first) {
        auto next = std::find_if(first, last, [&](heap_event const& other) {
          return other.kind == heap_event_kind::fail ||
                 (other.kind == heap_event_kind::deallocate) == live_.contains(other.address);
        });
        if (next == last) next = first;  // a free of what was allocated before the recording
        std::rotate(first, next, next + 1);
        if (first->kind == heap_event_kind::allocate) live_.insert(first->address);
        if (first->kind == heap_event_kind::deallocate) live_.erase(first->address);
      }
    }
    return events;
  }

 private:
  /// The events of all buffers, which are empty afterwards.
  [[nodiscard]] std::vector<heap_event> read() {
    std::vector<count> counts(options_.buffers);
    memory_.read(counts.data(), 0, counts.size() * sizeof(count));
    std::vector<heap_event> events;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::uint64_t const kept =
          std::min<std::uint64_t>(counts[i].calls, options_.events_per_buffer);
      lost_ += counts[i].calls - kept;
      if (kept == 0) continue;
      std::size_t const before = events.size();
      events.resize(before + kept);
      memory_.read(events.data() + before,
                   counts.size() * sizeof(count) +
                       i * bytes{options_.events_per_buffer} * sizeof(heap_event),
                   kept * sizeof(heap_event));
    }
    memory_.zero(0, counts.size() * sizeof(count));
    return events;
  }

  heap* heap_;
  heap_recorder_options options_;
  detail::kernel_memory memory_;
  std::unordered_set<std::uint64_t> live_;  // what the drained events have allocated
  std::uint64_t lost_ = 0;
};

heap_recorder::heap_recorder(heap& recorded, heap_recorder_options const& options)
    : implementation_{new implementation{recorded, options}} {}
heap_recorder::~heap_recorder() { delete implementation_; }
heap_recorder::heap_recorder(heap_recorder&& other) noexcept
    : implementation_{std::exchange(other.implementation_, nullptr)} {}
heap_recorder& heap_recorder::operator=(heap_recorder&& other) noexcept {
  if (this != &other)
    delete std::exchange(implementation_, std::exchange(other.implementation_, nullptr));
  return *this;
}

recorded_heap_ref heap_recorder::ref() const { return implementation_->ref(); }
std::uint64_t heap_recorder::lost() const { return implementation_->lost(); }
std::vector<heap_event> heap_recorder::take() { return implementation_->take(); }

}  // namespace quarry::inline QUARRY_ABI

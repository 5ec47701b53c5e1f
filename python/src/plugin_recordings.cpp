// SPDX-License-Identifier: Apache-2.0
#include "plugin_recordings.hpp"

#include "quarry/core/errors.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace quarry::python::plugin_recordings {

/// A recorder, and the numbers of the frameworks in it.
struct recording {
  explicit recording(recorder_handle const& target)
      : events{target.shared()}, sites{target.sites()} {
    for (std::size_t user = 0; user < framework_names.size(); ++user)
      allocators[user] = events->allocator(framework_names[user]);
    blocks = events->allocator("blocks of the pool");
  }
  std::shared_ptr<trace::recorder> events;
  std::shared_ptr<call_sites> sites;  // may be null
  std::array<std::uint32_t, framework_names.size()> allocators{};
  std::uint32_t blocks = 0;
};

namespace {

/// The recordings under way, or nullptr. Recordings are never destroyed, because other threads may
/// still hold the pointer: a closed recorder ignores events. Set with
/// Python's lock held, or to nullptr by any thread.
std::array<std::atomic<recording*>, max_recordings> current{};
std::atomic<recording*>& of_program = current[0];
std::atomic<recording*>& of_command = current[1];

}  // namespace

template <class Find>
site_numbers site_numbers::found_by(Find find) {
  site_numbers result;
  for (std::size_t slot = 0; slot < max_recordings; ++slot) {
    recording const* const target = current[slot].load(std::memory_order_acquire);
    if (target == nullptr || target->sites == nullptr) continue;
    result.targets_[slot] = target;
    result.numbers_[slot] = find(*target->sites);
  }
  return result;
}
site_numbers site_numbers::find() {
  return found_by([](call_sites& sites) { return sites.find(); });
}
site_numbers site_numbers::find_with_lock() {
  return found_by([](call_sites& sites) { return sites.find_with_lock(); });
}
std::uint32_t site_numbers::number_in(recording const* target) const {
  for (std::size_t slot = 0; slot < max_recordings; ++slot)
    if (targets_[slot] == target) return numbers_[slot];
  return 0;
}

bool are_under_way() noexcept {
  for (auto const& slot : current)
    if (slot.load(std::memory_order_relaxed) != nullptr) return true;
  return false;
}

void record(framework user, trace::event const& happened, cuda_stream stream,
            site_numbers const& sites) noexcept {
  for (auto const& slot : current) {
    recording* const target = slot.load(std::memory_order_acquire);
    if (target == nullptr) continue;
    trace::event recorded = happened;
    recorded.stream = target->events->stream(stream);
    recorded.allocator = target->allocators[static_cast<std::size_t>(user)];
    recorded.call_site = sites.number_in(target);
    target->events->record(recorded);
  }
}

void record_block(trace::event_kind kind, void const* block, bytes size) noexcept {
  for (auto const& slot : current) {
    recording* const target = slot.load(std::memory_order_acquire);
    if (target == nullptr) continue;
    target->events->record({.address = reinterpret_cast<std::uint64_t>(block),
                            .size = size,
                            .granted = size,
                            .allocator = target->blocks,
                            .kind = kind});
  }
}

void start(std::string const& path, bool has_call_sites) {
  if (of_program.load() != nullptr)
    throw bad_state{"plugins: a recording is under way; stop it before you start another one"};
  recorder_handle const target{path, std::nullopt, has_call_sites};
  of_program.store(new recording{target}, std::memory_order_release);
}

void join(recorder_handle const& command) {
  of_command.store(new recording{command}, std::memory_order_release);
}

bool stop() {
  recording* const stopped = of_program.exchange(nullptr);
  if (stopped != nullptr) stopped->events->close();
  return stopped != nullptr;
}

void forget() noexcept {
  for (auto& slot : current) slot.store(nullptr);
}

}  // namespace quarry::python::plugin_recordings

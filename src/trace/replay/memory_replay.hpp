// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/replay/running_replay.hpp"

#include <memory>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {

/// Replays in a `Memory`: a pool, or what stands in its place. It is made of the options, the
/// counts of the calls, and `arguments`. It has `allocate(event)`,
/// `deallocate(pointer, size, event)`, `wait(event)` and `counts()`. A memory that follows a plan
/// also has `use()`; one that serves phases apart has `begin_phase(event)`.
template <class Memory>
class memory_replay final : public running_replay {
 public:
  template <class... Arguments>
  explicit memory_replay(replay_options const& options, Arguments&&... arguments)
      : running_replay{options},
        memory_{std::make_unique<Memory>(for_replay(options), calls(),
                                         std::forward<Arguments>(arguments)...)} {}
  ~memory_replay() override { free_all(*memory_); }
  void add(std::span<event const> events) override { replay(*memory_, events); }
  [[nodiscard]] replay_result result() const override { return result_of(*memory_); }

 private:
  [[nodiscard]] static replay_options for_replay(replay_options options) {
    options.pool.is_tracked = false;
    options.pool.red_zone = 0;
    options.pool.keeps_backtraces = false;
    return options;
  }

  std::unique_ptr<Memory> memory_;
};

template <class Memory, class... Arguments>
[[nodiscard]] std::unique_ptr<running_replay> replay_in(replay_options const& options,
                                                        Arguments&&... arguments) {
  return std::make_unique<memory_replay<Memory>>(options, std::forward<Arguments>(arguments)...);
}

}  // namespace quarry::inline QUARRY_ABI::trace

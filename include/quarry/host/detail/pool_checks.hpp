// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/detail/red_zone.hpp"
#include "quarry/host/pools/placement.hpp"
#include "quarry/host/registry/registry.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// What a pool does to find faults of its users, if its options say so: red zones, and backtraces
/// for leak reports. Pools with such options keep no chunk in quick lists, so only slow paths call
/// this class.
///
/// `Growth` is the pool's pool_growth.
template <class Growth>
class QUARRY_POISONS pool_checks {
 public:
  /// `memory` outlives this object. Throws `bad_argument` if the host cannot touch a red zone.
  explicit pool_checks(Growth& memory) : memory_{memory} {
    bytes const red_zone = memory.options().red_zone;
    if (red_zone != 0 && !host_can_touch(memory.source().resource()))
      throw bad_argument{"pool_options: red_zone is " + std::to_string(red_zone) +
                         " bytes, in memory that the host cannot touch"};
    if (memory.options().keeps_backtraces) registration::prepare_backtraces();
  }

  /// Fills the red zone of a new allocation and keeps its backtrace.
  void mark(std::uint64_t base, chunk_sizes needed) {
    if (has_pattern())
      red_zone::fill(reinterpret_cast<void*>(base + needed.requested),
                     needed.granted - needed.requested);
    if (!memory_.options().keeps_backtraces) return;
    auto* const tracking = memory_.source().memory().tracking();
    if (tracking != nullptr && tracking->label_backtrace(base))
      (void)memory_.arena().set_labelled(base);
  }
  /// Counts and reports an overrun of the allocation at `base`. Does nothing if there is none.
  void look_for_overrun(std::uint64_t base) noexcept {
    if (!has_pattern()) return;
    auto const changed = changed_byte(base);
    if (!changed) return;
    ++overruns_;
    try {
      red_zone::report(overrun_at(base, *changed), memory_.options().on_overrun);
    } catch (...) {  // the overrun is counted
    }
  }
  [[nodiscard]] std::uint64_t overruns() const { return overruns_; }
  /// Describes each changed red zone.
  void audit(std::vector<std::string>& problems) const {
    if (!has_pattern()) return;
    memory_.arena().for_each([&](std::uint64_t base, bytes, bool is_free) {
      if (auto const changed = is_free ? std::nullopt : changed_byte(base))
        problems.push_back(overrun_at(base, *changed));
    });
  }

 private:
  /// Poisoned red zones have no pattern.
  [[nodiscard]] bool has_pattern() const {
    return memory_.options().red_zone != 0 && !memory_.is_poisoned();
  }
  /// The offset, from the allocation's address, of the first changed byte in its red zone.
  [[nodiscard]] std::optional<bytes> changed_byte(std::uint64_t base) const {
    auto const size = memory_.arena().size_of(base);
    if (!size) return std::nullopt;
    bytes const requested = size->requested;
    auto const changed = red_zone::changed_byte(reinterpret_cast<void*>(base + requested),
                                                memory_.sizes_for(requested).granted - requested);
    return changed ? std::optional{requested + *changed} : std::nullopt;
  }
  [[nodiscard]] std::string overrun_at(std::uint64_t base, bytes changed) const {
    auto const* const tracking = memory_.source().memory().tracking();
    auto const label = tracking != nullptr ? tracking->label_of(base) : std::nullopt;
    return red_zone::overrun(tracking != nullptr ? tracking->name() : memory_.options().name, base,
                             memory_.arena().size_of(base)->requested, label ? label->name : "",
                             changed);
  }

  Growth& memory_;
  std::uint64_t overruns_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/reader.hpp"

#include <memory>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {

/// Selects all allocators of a trace, even if the trace has several devices.
inline constexpr char const* all_allocators = "all";

/// Reads the events of one allocator: the devices of a PyTorch snapshot, and the allocators of an
/// Umpire log, have memory of their own. Phases and waits of streams pass, whichever allocator they
/// name. The names and problems are those of `source`.
///
/// `allocator` is a name; `all_allocators` lets all events pass. If it is empty, all events pass,
/// but the trace may have only one device: `read` throws `bad_argument` at the first event of a
/// second allocator that is named as a device (`device N`). At the end of a trace without an event
/// of `allocator`, it throws `bad_argument`, which lists the trace's allocators. `trace` names the
/// trace in these messages: for example its file.
[[nodiscard]] QUARRY_API std::unique_ptr<reader> select_allocator(std::unique_ptr<reader> source,
                                                                  std::string allocator,
                                                                  std::string trace = "the trace");

}  // namespace quarry::inline QUARRY_ABI::trace

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/trace/reader.hpp"

#include <memory>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {

/// Selects all allocators of a trace, even if the trace has several devices.
inline constexpr char const* all_allocators = "all";

/// Reads the events of one allocator. The devices of a PyTorch snapshot and the allocators of an
/// Umpire log have separate memory. Phases and waits of streams always pass, whatever allocator
/// they name. The names and problems are those of `source`.
///
/// `allocator` is a name; `all_allocators` lets all events pass, for one pool that serves all. Then
/// an allocation of a device at an address that another device uses gets an unused address, so that
/// a replay tells the two apart. A device's name, `device N`, also selects its private pools,
/// `device N, pool (A, B)`. With an empty name all events pass, but the trace may have only one
/// device. Devices are the allocators with names such as `device N`: at the first event of a second
/// device `read` throws `bad_argument`. If a trace ends without an event of `allocator`, `read`
/// throws `bad_argument`, which lists the trace's allocators. `trace` is the name of the trace in
/// these messages, for example its file.
[[nodiscard]] QUARRY_API std::unique_ptr<reader> select_allocator(std::unique_ptr<reader> source,
                                                                  std::string allocator,
                                                                  std::string trace = "the trace");

}  // namespace quarry::inline QUARRY_ABI::trace

// SPDX-License-Identifier: Apache-2.0
// How the host asks a GPU for its time, many times in one kernel.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// In memory of the host that the GPU accesses. The host asks for time `asked`, and waits until
/// `answered` is the same number.
///
/// Memory order. All accesses of the numbers are releases or acquires of system scope, so the host
/// sees the `time` that belongs to `answered`, and a GPU reads its clock after the request.
struct clock_mailbox {
  std::uint32_t asked = 0;     // atomic; the host writes it, 1 to `clock_exchanges`
  std::uint32_t answered = 0;  // atomic; the GPU writes it
  std::uint64_t time = 0;      // of the GPU, in nanoseconds; Guarded by: `answered`
};

/// How often the host asks. The first exchanges take longer.
inline constexpr std::uint32_t clock_exchanges = 200;
/// A GPU that is not asked for so many nanoseconds ends its kernel. A host that gets no answer for
/// so long gives up.
inline constexpr std::uint64_t longest_clock_wait = 1'000'000'000;

}  // namespace quarry::inline QUARRY_ABI::mpi

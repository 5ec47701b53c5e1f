// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/export.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Returns true once each thread of the process has executed a full memory barrier since the call
/// began. So only a thread that rarely looks at another thread pays for the order of both. The
/// other thread needs only compiler barriers (std::atomic_signal_fence). Returns false, and
/// guarantees nothing, where the system cannot do this: only Linux can. The first call of a process
/// takes longer, because it registers. Source: membarrier(2).
[[nodiscard]] QUARRY_API bool fence_all_threads() noexcept;

}  // namespace quarry::inline QUARRY_ABI::detail

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/export.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Returns once each thread of the process has executed a full memory barrier since the call began.
/// So a thread that rarely looks at another one pays for the order of both, and the other one needs
/// only compiler barriers (std::atomic_signal_fence). Returns false, and guarantees nothing, where
/// the system cannot do this: only Linux can. Source: membarrier(2).
[[nodiscard]] QUARRY_API bool fence_all_threads() noexcept;

}  // namespace quarry::inline QUARRY_ABI::detail

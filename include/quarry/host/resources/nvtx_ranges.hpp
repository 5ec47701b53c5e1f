// SPDX-License-Identifier: Apache-2.0
// Needs NVTX's headers, which the CUDA toolkit has, and links nothing but the dynamic linker.
#pragma once

#include "quarry/host/resources/ranged_resource.hpp"

#include <nvtx3/nvToolsExt.h>

namespace quarry::inline QUARRY_ABI {

/// Ranges of NVTX, which Nsight Systems and others show. Cost nothing but a test each while no tool
/// looks.
struct nvtx_ranges {
  void push(char const* name) noexcept { nvtxRangePushA(name); }
  void pop() noexcept { nvtxRangePop(); }
};

static_assert(profiler_ranges<nvtx_ranges>);

}  // namespace quarry::inline QUARRY_ABI

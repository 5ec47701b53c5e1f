// SPDX-License-Identifier: Apache-2.0
// Needs the headers of NVTX, which the CUDA toolkit contains. Links only the dynamic linker.
#pragma once

#include "quarry/host/resources/ranged_resource.hpp"

#include <nvtx3/nvToolsExt.h>

namespace quarry::inline QUARRY_ABI {

/// NVTX ranges, which Nsight Systems and other tools show. While no tool is attached, each call
/// costs one test.
struct nvtx_ranges {
  void push(char const* name) noexcept { nvtxRangePushA(name); }
  void pop() noexcept { nvtxRangePop(); }
};

static_assert(profiler_ranges<nvtx_ranges>);

}  // namespace quarry::inline QUARRY_ABI

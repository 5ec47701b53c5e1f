// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

struct CUstream_st;

namespace quarry::inline QUARRY_ABI {

/// A CUDA stream: the same type as the runtime's `cudaStream_t`.
using cuda_stream = CUstream_st*;

}  // namespace quarry::inline QUARRY_ABI

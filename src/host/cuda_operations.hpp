// SPDX-License-Identifier: Apache-2.0
// The parts of the operations that call CUDA. Each throws `resource_failed`. In a build without
// CUDA they always throw it.
#pragma once

#include "quarry/host/registry/operations.hpp"

namespace quarry::inline QUARRY_ABI::cuda {

/// Runs after the earlier work of the default stream of `location`'s GPU.
void copy(void* target, void const* source, bytes size, memory_location location);
void copy(void* target, void const* source, bytes size, cuda_stream stream);
void fill(void* memory, unsigned char value, bytes size, memory_location location);
void fill(void* memory, unsigned char value, bytes size, cuda_stream stream);
void prefetch(void const* memory, bytes size, memory_location target, cuda_stream stream);
void advise(void* memory, bytes size, memory_advice advice, memory_location place);

}  // namespace quarry::inline QUARRY_ABI::cuda

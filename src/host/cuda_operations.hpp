// SPDX-License-Identifier: Apache-2.0
// What operations need of CUDA; each throws `resource_failed`. In a build without CUDA they do so
// always.
#pragma once

#include "quarry/host/operations.hpp"

namespace quarry::inline QUARRY_ABI::cuda {

/// `of`: whose default stream it comes after.
void copy(void* to, void const* from, bytes size, memory_location of);
void copy(void* to, void const* from, bytes size, cuda_stream on);
void fill(void* memory, unsigned char value, bytes size, memory_location of);
void fill(void* memory, unsigned char value, bytes size, cuda_stream on);
void prefetch(void const* memory, bytes size, memory_location where, cuda_stream on);
void advise(void* memory, bytes size, memory_advice what, memory_location where);

}  // namespace quarry::inline QUARRY_ABI::cuda

// SPDX-License-Identifier: Apache-2.0
// A second file of the same program. It includes replace_malloc.cuh itself.
#pragma once

#include <cstddef>

namespace other_file {

enum class nothrow { object, array, aligned_object };

/// Each of `lanes` lanes frees its pointer.
void release(void** pointers, unsigned lanes);

void allocate(std::size_t size, void** pointers, unsigned lanes);
void allocate_nothrow(nothrow way, void** pointers, unsigned lanes);

}  // namespace other_file

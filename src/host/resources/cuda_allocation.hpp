// SPDX-License-Identifier: Apache-2.0
// What all resources of CUDA say about sizes and alignments.
#pragma once

#include "quarry/host/resources/resource.hpp"

namespace quarry::inline QUARRY_ABI::cuda {

/// CUDA aligns to 256 bytes. Throws `bad_argument` unless `alignment` is a power of two, and
/// `out_of_memory` if it is larger: another resource may have such memory.
inline void check_alignment(bytes alignment, char const* resource, bytes size) {
  check_power_of_two(resource, alignment);
  if (alignment > 256)
    throw out_of_memory{resource, size,
                        "alignment is " + std::to_string(alignment) + ", and CUDA aligns to 256"};
}

/// CUDA has no address for 0 bytes.
inline bytes at_least_one(bytes size) { return size == 0 ? 1 : size; }

}  // namespace quarry::inline QUARRY_ABI::cuda

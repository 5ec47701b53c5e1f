// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::opencl {

/// The bytes and allocations of an OpenCL heap.
struct heap_usage {
  bytes usable = 0;     ///< bytes of all pages
  bytes reserved = 0;   ///< bytes of spans and large allocations
  bytes allocated = 0;  ///< bytes of allocations, rounded up to their slots and pages
  std::uint64_t allocations_in_use = 0;
};

}  // namespace quarry::inline QUARRY_ABI::opencl

// SPDX-License-Identifier: Apache-2.0
// Where the parts of an OpenCL heap lie in its buffer.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::opencl {

#include "../../opencl/heap_layout.cl"

/// The state of an empty heap in a buffer of `size` bytes. `places`: current spans of each size
/// class, a power of two; more places make work-items meet less, and cost a span each. 0 chooses.
/// Throws `bad_argument` if the buffer is too small for a span or larger than 64 GiB.
[[nodiscard]] quarry_heap_state plan_heap(bytes size, std::uint32_t places = 0);

}  // namespace quarry::inline QUARRY_ABI::opencl

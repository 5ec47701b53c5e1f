// SPDX-License-Identifier: Apache-2.0
// Where the parts of an OpenCL heap lie in its buffer.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/opencl/on_host.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

using namespace opencl_c;

/// The state of an empty heap in a buffer of `size` bytes. `hints`: of each size class, a
/// power of two; with more hints, work-items meet less at one word. 0: four for each span,
/// but at most 64, or 16,384 if `claims_unread`, which is for GPUs: malloc then claims a bit before
/// it reads the word. The metadata are those of a heap of `max_size` bytes, if that is more. Throws
/// `bad_argument` if the buffer is too small for a span, or not smaller than 64 GiB.
[[nodiscard]] quarry_heap_state plan_heap(bytes size, std::uint32_t hints = 0,
                                          bool claims_unread = false, bytes max_size = 0);
/// Sets how much of the planned memory the buffer has. Returns false if that is not even a span.
[[nodiscard]] bool resize(quarry_heap_state& state, bytes size);

struct live_allocation;
struct heap_usage;

/// A copy of a heap's first `plan.words` words, and the host's plan of the heap. The plan says
/// where the metadata lie and how many there are, so a kernel that overwrites the heap state
/// misleads nobody here.
struct heap_copy {
  quarry_heap_state const& plan;
  std::uint32_t const* words;
};

/// What a copy of a heap's metadata says; see heap::usage and heap::audit.
[[nodiscard]] heap_usage usage_of(heap_copy const& heap);
[[nodiscard]] std::string audit_of(heap_copy const& heap);
/// What is wrong with the part of the heap state that no kernel writes; empty if nothing is. Reads
/// only the heap state.
[[nodiscard]] std::string audit_state_of(heap_copy const& heap);
/// Copies `size` bytes from `offset` in the heap's buffer to `target`.
using read_bytes = std::function<void(bytes offset, bytes size, void* target)>;
/// See heap::live_allocations. Calls `read` only for debug heaps, to read trailers and gaps.
[[nodiscard]] std::vector<live_allocation> live_allocations_of(heap_copy const& heap,
                                                               std::size_t max_count,
                                                               read_bytes const& read);

}  // namespace quarry::inline QUARRY_ABI::opencl

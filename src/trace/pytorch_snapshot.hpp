// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"
#include "trace/byte_source.hpp"

namespace quarry::inline QUARRY_ABI::trace {

[[nodiscard]] bool looks_like_pickle(std::span<unsigned char const> first_bytes);
/// A reader of the snapshots of PyTorch's allocator: what torch.cuda.memory._dump_snapshot writes
/// while the history is recorded. Of the history, `alloc` becomes `allocate`, `free_requested`
/// becomes `deallocate`, `oom` becomes `fail`; segments become `reserve` and `unreserve`, entries
/// of the user become `phase`. `free_completed` says when the memory was reused, which is the
/// replaying pool's decision. Each device is an allocator; the events of one device follow those of
/// the other. Allocations and segments that the history uses but does not allocate come first.
[[nodiscard]] std::unique_ptr<reader> open_pytorch(std::unique_ptr<byte_source> source);

}  // namespace quarry::inline QUARRY_ABI::trace

// SPDX-License-Identifier: Apache-2.0
// The segments of a snapshot of PyTorch, and the blocks that lie in them.
#pragma once

#include "quarry/core/bytes.hpp"
#include "trace/unpickler.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// The value of a key, at least 0; 0 if the dict has no such key.
[[nodiscard]] inline std::uint64_t natural_of(pickled const& entry, std::string_view key) {
  pickled const* const found = entry.find(key);
  return found == nullptr ? 0 : found->natural();
}
/// The address under a key. Versions of PyTorch that keep addresses in signed integers write those
/// from 2^63 on as negative numbers.
[[nodiscard]] inline std::uint64_t address_of(pickled const& entry, std::string_view key) {
  pickled const* const found = entry.find(key);
  if (found == nullptr) return 0;
  return found->integer() < 0 ? static_cast<std::uint64_t>(found->integer()) : found->natural();
}

/// The segments of a snapshot; null if it has none. The root of `torch.cuda.memory_snapshot()` is
/// the list of segments itself.
[[nodiscard]] inline pickled const* segments_of(pickled const& root) {
  if (root.type() != pickled::kind::list) return root.find("segments");
  bool const has_segments =
      !root.items().empty() && root.items().front().find("total_size") != nullptr;
  return has_segments ? &root : nullptr;
}

/// A block of a segment that cannot be reused: it is allocated, or its free is not complete.
struct snapshot_block {
  std::uint64_t address = 0;
  bytes requested = 0;
  bool is_freed = false;  // but the free is not complete
};

/// Calls `visit(snapshot_block, block)` for each block of a segment that cannot be reused. Returns
/// a reason if these are not all of them, and else an empty text.
///
/// PyTorch before 2.1 writes no addresses of blocks, and the requested size only in their
/// histories. But the blocks of a segment are in the order of their addresses and leave no gap.
template <class Visit>
[[nodiscard]] std::string for_each_block_in_use(pickled const& segment, Visit const& visit) {
  bytes const total = natural_of(segment, "total_size");
  std::uint64_t const base = address_of(segment, "address");
  std::uint64_t next = base;
  bytes allocated = 0;
  bool has_all_addresses = true;
  pickled const* const blocks = segment.find("blocks");
  for (pickled const& block : blocks == nullptr ? pickled{}.items() : blocks->items()) {
    bytes const size = natural_of(block, "size");
    bool const has_address = block.find("address") != nullptr;
    has_all_addresses &= has_address;
    std::uint64_t const address = has_address ? address_of(block, "address") : next;
    next = address + size;
    pickled const* const state = block.find("state");
    std::string_view const name = state == nullptr ? std::string_view{} : state->text();
    bool const is_allocated = name == "active_allocated";
    if (is_allocated) allocated += size;
    if (!is_allocated && name != "active_awaiting_free" && name != "active_pending_free") continue;
    pickled const* requested = block.find("requested_size");
    if (requested == nullptr) {
      if (pickled const* const history = block.find("history");
          history != nullptr && !history->items().empty())
        requested = history->items().front().find("real_size");  // of the latest allocation
    }
    visit(
        snapshot_block{address, requested == nullptr ? size : requested->natural(), !is_allocated},
        block);
  }
  if (!has_all_addresses && next - base != total)
    return "its blocks have no addresses, and their sizes add up to " +
           std::to_string(next - base) + " of its " + std::to_string(total) + " bytes";
  if (pickled const* const stated = segment.find("allocated_size");
      stated != nullptr && stated->natural() != allocated)
    return "its allocated_size is " + std::to_string(stated->natural()) +
           ", but its allocated blocks have " + std::to_string(allocated) + " bytes";
  return {};
}

}  // namespace quarry::inline QUARRY_ABI::trace

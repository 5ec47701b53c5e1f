// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/type_stable_memory.hpp"
#include "quarry/host/detail/make_room.hpp"

#include "host/registry/process_lists.hpp"
#include "platform/host_address_space.hpp"

#include "quarry/core/bits.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>

namespace quarry::inline QUARRY_ABI::detail {
namespace {

constexpr host_address_space type_stable_space{"type_stable_memory", overcommit::allow};

}  // namespace

bytes type_stable_size(bytes size) {
  bytes const pages = std::max<bytes>(1, (size + page_size() - 1) / page_size());
  bytes const step = std::max<bytes>(1, (bytes{1} << highest_one(pages)) / 8);
  return (pages + step - 1) / step * step * page_size();
}

void* type_stable_allocate(type_stable_use use, bytes size) {
  size = type_stable_size(size);
  auto& unused = lists_of_process().unused_memory;
  {
    std::lock_guard const lock{unused.mutex};
    auto& list = unused.by_size[static_cast<std::size_t>(use)][size];
    if (!list.free.empty()) {
      void* const result = list.free.back();
      list.free.pop_back();
      return result;
    }
    // The list gets its capacity now, so that deallocation needs no memory.
    make_room(list.free, list.made + 1);
    ++list.made;
  }
  void* const fresh = type_stable_space.allocate(size);
  // A lookup misses the TLB in memory of these two uses; huge pages reduce the misses.
  if (use == type_stable_use::chunks || use == type_stable_use::slots)
    madvise(fresh, size, MADV_HUGEPAGE);
  return fresh;
}

bytes type_stable_resident(void const* memory, bytes size) {
  if (memory == nullptr) return 0;
  bytes const page = page_size();
  std::array<unsigned char, 4096> states;  // one per page
  bytes resident = 0;
  auto* const first = static_cast<char const*>(memory);
  size = type_stable_size(size);
  for (bytes offset = 0; offset < size; offset += states.size() * page) {
    bytes const part = std::min(size - offset, states.size() * page);
    // mincore fails only for unmapped memory.
    if (mincore(const_cast<char*>(first + offset), part, states.data()) != 0) return size;
    for (bytes i = 0; i < part / page; ++i) resident += states[i] % 2 * page;
  }
  return resident;
}

void type_stable_deallocate(type_stable_use use, void* memory, bytes size) noexcept {
  size = type_stable_size(size);
  if (!discard_pages(memory, size)) return;  // it may not read as zeros, so it is never reused
  auto& unused = lists_of_process().unused_memory;
  std::lock_guard const lock{unused.mutex};
  unused.by_size[static_cast<std::size_t>(use)].find(size)->second.free.push_back(memory);
}

}  // namespace quarry::inline QUARRY_ABI::detail

// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/lasting_memory.hpp"

#include "process_lists.hpp"
#include "whole_pages.hpp"

#include "quarry/core/bits.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace quarry {

bytes lasting_size(bytes size) {
  bytes const pages = std::max<bytes>(1, (size + page_size() - 1) / page_size());
  bytes const step = std::max<bytes>(1, (bytes{1} << highest_one(pages)) / 8);
  return (pages + step - 1) / step * step * page_size();
}

void* lasting_allocate(lasting_use use, bytes size) {
  size = lasting_size(size);
  auto& them = lists_of_process().waiting;
  {
    std::lock_guard const held{them.mutex};
    auto& list = them.by_size[static_cast<std::size_t>(use)][size];
    if (!list.empty()) {
      void* const result = list.back();
      list.pop_back();
      return result;
    }
    // so that giving back needs no memory: a place for each that there is
    list.reserve(list.capacity() + 1);
  }
  void* const fresh = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED) throw std::bad_alloc{};
  // a look-up is a miss in each
  if (use == lasting_use::pieces || use == lasting_use::slots) madvise(fresh, size, MADV_HUGEPAGE);
  return fresh;
}

void lasting_deallocate(lasting_use use, void* memory, bytes size) noexcept {
  size = lasting_size(size);
  if (madvise(memory, size, MADV_DONTNEED) != 0) {  // mlockall has locked it
    // it would not read as zero: nobody gets it again
    if (munlock(memory, size) != 0 || madvise(memory, size, MADV_DONTNEED) != 0) return;
  }
  auto& them = lists_of_process().waiting;
  std::lock_guard const held{them.mutex};
  them.by_size[static_cast<std::size_t>(use)].find(size)->second.push_back(memory);
}

}  // namespace quarry

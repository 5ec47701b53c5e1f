// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/progress.hpp"

#include <cstdint>

namespace quarry::test {

/// All memory of the heap, until the end of the scope.
class full_heap {
 public:
  full_heap() {
    for (std::uint64_t size = std::uint64_t{1} << 20; size >= 16;
         size = size > 512 ? size / 2 : size - 16)  // each class of small sizes
      while (void* const memory = mpi::allocate(size)) {
        *static_cast<void**>(memory) = last_;
        last_ = memory;
      }
  }
  ~full_heap() {
    while (last_ != nullptr) {
      void* const memory = last_;
      last_ = *static_cast<void**>(memory);
      mpi::release(memory);
    }
  }
  full_heap(full_heap const&) = delete;

 private:
  void* last_ = nullptr;
};

}  // namespace quarry::test

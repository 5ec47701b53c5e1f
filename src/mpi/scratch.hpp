// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Memory of the heap for the time of one call. Waits if the heap has no memory. A rank that ends
/// early leaves it to the world.
class scratch {
 public:
  QUARRY_HD scratch(rank_state& rank, bytes size) {
    if (size == 0) return;
    memory_ = wait_for_memory(rank, reason_of(call::memory),
                              [&] { return static_cast<char*>(allocate(size)); });
  }
  QUARRY_HD ~scratch() {
    if (memory_ != nullptr) release(memory_);
  }
  scratch(scratch const&) = delete;
  [[nodiscard]] QUARRY_HD char* data() const { return memory_; }

 private:
  char* memory_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

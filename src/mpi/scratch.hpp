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

/// The same, but short memory lies on the stack: on a GPU other ranks cannot read it.
class own_scratch {
 public:
  QUARRY_HD own_scratch(rank_state& rank, bytes size)
      : long_{rank, size <= sizeof(short_) ? 0 : size} {}
  [[nodiscard]] QUARRY_HD char* data() { return long_.data() != nullptr ? long_.data() : short_; }

 private:
  scratch long_;
  alignas(16) char short_[128];
};

}  // namespace quarry::inline QUARRY_ABI::mpi

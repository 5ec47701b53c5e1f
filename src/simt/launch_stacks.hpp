// SPDX-License-Identifier: Apache-2.0
// Memory for the stacks of a launch's fibers.
#pragma once

#include "quarry/core/config.hpp"

#include <boost/context/stack_context.hpp>

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace quarry::inline QUARRY_ABI::simt {

/// Mapped memory, which the destructor unmaps.
class mapped_memory {
 public:
  mapped_memory() = default;
  explicit mapped_memory(std::size_t size)
      : base_{::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)},
        size_{size} {
    if (base_ == MAP_FAILED) throw std::bad_alloc{};
  }
  mapped_memory(mapped_memory&& other) noexcept
      : base_{std::exchange(other.base_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  mapped_memory& operator=(mapped_memory&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~mapped_memory() {
    if (size_ != 0) ::munmap(base_, size_);
  }

  [[nodiscard]] char* base() const { return static_cast<char*>(base_); }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  void* base_ = nullptr;
  std::size_t size_ = 0;
};

/// The stacks of one launch. A thread keeps the memory of its largest launch for the next launch:
/// each page that a lane touches first costs a page fault, which takes longer than a short lane.
class launch_stacks {
 public:
  static constexpr std::size_t stack_bytes = 128 * 1024;

  explicit launch_stacks(std::size_t lanes) : used_{lanes * distance} {
    if (kept.size() >= used_) memory_ = std::move(kept);
    if (memory_.size() == 0 && used_ != 0) memory_ = mapped_memory{used_};
    mark_gaps(true);
  }
  launch_stacks(launch_stacks const&) = delete;
  launch_stacks& operator=(launch_stacks const&) = delete;
  /// No fiber may be alive. Then its frames have left nothing marked for AddressSanitizer.
  ~launch_stacks() {
    mark_gaps(false);
    if (memory_.size() > kept.size() && memory_.size() <= max_kept) kept = std::move(memory_);
  }

  [[nodiscard]] boost::context::stack_context of(std::size_t lane) const {
    boost::context::stack_context stack;
    stack.size = stack_bytes;
    stack.sp = memory_.base() + (lane + 1) * distance;
    return stack;
  }

 private:
  /// Stacks at multiples of a power of two would compete for few lines of the caches.
  static constexpr std::size_t distance = stack_bytes + 5 * 64;
  static constexpr std::size_t max_kept = 1024 * distance;

  inline static thread_local mapped_memory kept;

  /// AddressSanitizer reports a stack that grows into the gap below it.
  void mark_gaps([[maybe_unused]] bool is_red) {
#if defined(__SANITIZE_ADDRESS__)
    auto* const mark = is_red ? __asan_poison_memory_region : __asan_unpoison_memory_region;
    for (std::size_t begin = 0; begin < used_; begin += distance)
      mark(memory_.base() + begin, distance - stack_bytes);
#endif
  }

  std::size_t used_;
  mapped_memory memory_;
};

}  // namespace quarry::inline QUARRY_ABI::simt

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap.hpp"

#include "memory.hpp"

#include <memory>
#include <vector>

namespace quarry::inline QUARRY_ABI {

using namespace detail;

/// A copy of a heap's shared state in host memory. Its pointers point into the copy.
struct heap_snapshot {
  std::shared_ptr<heap_state> state;
  std::vector<std::byte> metadata;
};

class heap::implementation {
 public:
  explicit implementation(heap_options const& options);
  implementation(implementation const&) = delete;
  implementation& operator=(implementation const&) = delete;
  ~implementation();

  void reset();
  [[nodiscard]] heap_snapshot snapshot() const;
  [[nodiscard]] fault_log faults() const;
  void clear_faults();
  void grow(quarry::bytes bytes);
  quarry::bytes shrink(quarry::bytes bytes);

  [[nodiscard]] heap_ref ref() const {
    return {shared_, initial_->base, initial_->segment_shift, initial_->max_segments, heap_build};
  }
  [[nodiscard]] backend backend_kind() const { return backend_kind_; }
  [[nodiscard]] void* region() const { return memory_->region(); }
  [[nodiscard]] bytes region_bytes() const {
    return bytes{initial_->max_segments} << initial_->segment_shift;
  }

 private:
  void lay_out(std::byte* metadata);
  void set_mapped(std::uint32_t segments);
  void learn();
  void open_learned_runs(heap_state& state, bit_tree const& tree) const;

  backend backend_kind_;
  std::shared_ptr<heap_state> initial_;  // the shared state after a reset
  std::shared_ptr<heap_memory> memory_;
  std::shared_ptr<void> metadata_memory_, state_memory_;
  heap_state* shared_ = nullptr;   // in state_memory_; host code only uses its address
  std::byte* metadata_ = nullptr;  // in metadata_memory_
  bytes metadata_bytes_ = 0;
  bool used_ = false;  // whether the heap was reset before
  // the segments that each class needed before the last reset
  std::uint32_t learned_[max_size_classes] = {};
};

/// The layout of class `id` for a heap with `segments` segments of `segment_bytes`.
[[nodiscard]] class_layout make_class_layout(size_class id, bytes segment_bytes,
                                             std::uint32_t segments);

}  // namespace quarry::inline QUARRY_ABI

// SPDX-License-Identifier: Apache-2.0
// Memory of the ranks of a launch, each on its GPU.
#pragma once

#include "gpu_part.hpp"

#include "quarry/core/bytes.hpp"

#include <cstddef>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// A range of addresses of which each GPU has a part in its own memory. All GPUs and the host's
/// copies use all of it. Zero at first.
class spread_memory {
 public:
  /// `element` bytes for each rank. A GPU has the elements of its ranks. With three GPUs and more,
  /// those at the limits of pages may lie on a neighbour. Throws out_of_memory or resource_failed.
  spread_memory(std::vector<gpu_part> const& parts, bytes element);
  ~spread_memory();
  spread_memory(spread_memory const&) = delete;
  spread_memory& operator=(spread_memory const&) = delete;
  [[nodiscard]] void* data() const { return reinterpret_cast<void*>(address_ + shift_); }

 private:
  void map(std::vector<gpu_part> const& parts, bytes element, bytes page);
  void release() noexcept;

  std::uint64_t address_ = 0;  // of the first page
  bytes shift_ = 0;            // from it to the first element
  bytes reserved_ = 0;         // of addresses; 0: the memory of one GPU by cudaMalloc
  bytes mapped_ = 0;
};

/// An array with `of_rank` elements for each rank, which lie in the memory of its GPU.
template <class T>
class per_rank {
 public:
  explicit per_rank(std::vector<gpu_part> const& parts, std::size_t of_rank = 1)
      : memory_{parts, of_rank * sizeof(T)} {}
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }

 private:
  spread_memory memory_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

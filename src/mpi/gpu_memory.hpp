// SPDX-License-Identifier: Apache-2.0
// How a launch divides the memory of its GPUs: the ranks' state, their stacks, their heaps.
#pragma once

#include "gpu_peers.hpp"
#include "gpu_program.hpp"
#include "heap_share.hpp"

#include "quarry/device/heap.hpp"

#include <memory>

namespace quarry::inline QUARRY_ABI::mpi {

/// Throws bad_argument, which names the size of each part, if the ranks do not fit on their GPU.
void check_memory(launch_options const& asked, gpu_part const& part, std::size_t gpus,
                  bytes record_bytes, std::uint32_t extension_units, stack_choice const& stack);

/// Reserves the stacks on the part's GPU. Throws bad_argument if it has no memory for them.
void set_stack(gpu_part const& part, stack_choice const& stack);

/// The ranks' heaps, one on each GPU.
class gpu_heaps {
 public:
  /// Of the size that the user asks for, divided among the GPUs, or of a share of what the rest of
  /// the launch leaves. Throws out_of_memory.
  gpu_heaps(launch_options const& asked, std::vector<gpu_part> const& parts);
  [[nodiscard]] heap_ref ref(std::size_t part) const { return heaps_[part]->ref(); }
  /// For launch_layout::heaps: all of them in memory of the first GPU; null if there is one.
  [[nodiscard]] heap_ref const* table() const { return table_ ? table_->data() : nullptr; }
  /// The size of all heaps, and the most attempts that one of them took.
  [[nodiscard]] heap_taken const& taken() const { return taken_; }
  [[nodiscard]] std::vector<heap const*> all() const;
  /// Prints what went wrong in the heaps: allocations that failed, wrong frees.
  void describe_faults() const;

 private:
  std::vector<std::unique_ptr<heap>> heaps_;
  std::unique_ptr<device_array<heap_ref>> table_;
  heap_taken taken_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

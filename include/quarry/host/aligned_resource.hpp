// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/resource.hpp"

#include <unordered_map>
#include <utility>

namespace quarry {

/// Aligns to more than its upstream can: asks for `alignment` bytes more and gives an address
/// inside. `most_upstream` is what the upstream can do by itself. Where an allocation really began
/// is noted apart, since the memory may not be the host's.
template <class Upstream>
class aligned_resource {
 public:
  aligned_resource(Upstream upstream, bytes most_upstream)
      : upstream_{std::move(upstream)}, most_upstream_{most_upstream} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("aligned_resource", alignment);
    if (alignment <= most_upstream_) return upstream_.allocate(size, alignment);
    if (size > most_bytes_at_once || alignment > most_bytes_at_once)
      throw out_of_memory{"aligned_resource", size, "nothing has so much"};
    auto const [note, _] = begins_.try_emplace(nullptr, nullptr);  // what may throw comes first
    void* whole = nullptr;
    try {
      whole = upstream_.allocate(size + alignment, most_upstream_);
    } catch (...) {
      begins_.erase(note);
      throw;
    }
    auto* const result = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(whole) + alignment - 1) & ~(alignment - 1));
    auto node = begins_.extract(note);
    node.key() = result;
    node.mapped() = whole;
    begins_.insert(std::move(node));
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    if (alignment <= most_upstream_) return upstream_.deallocate(pointer, size, alignment);
    auto const found = begins_.find(pointer);
    if (found == begins_.end()) return;
    upstream_.deallocate(found->second, size + alignment, most_upstream_);
    begins_.erase(found);
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  Upstream upstream_;
  bytes most_upstream_;
  std::unordered_map<void*, void*> begins_;
};

}  // namespace quarry

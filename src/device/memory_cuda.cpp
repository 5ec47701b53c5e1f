// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "platform/cuda_address_space.hpp"
#include "platform/cuda_calls.hpp"

#include <algorithm>

namespace quarry::inline QUARRY_ABI::detail {
namespace {

using cuda::check;
using cuda::device_guard;

/// Memory of one device. Every call works with any current device, and does not change it.
class cuda_memory final : public heap_memory {
 public:
  cuda_memory(int device, std::vector<int> const& peers, bytes reserved, bytes alignment)
      : device_{device},
        space_{"heap", device, peers},
        reserved_{rounded(reserved)},
        region_{space_.reserve(reserved_, alignment)} {}
  cuda_memory(cuda_memory const&) = delete;
  cuda_memory& operator=(cuda_memory const&) = delete;
  ~cuda_memory() override {
    space_.unmap(region_, mapped_);
    space_.release(region_, reserved_);
  }

  void* region() const override { return reinterpret_cast<void*>(region_); }

  void map(bytes begin, bytes end) override {
    begin = std::max(begin, mapped_);  // rounding may have mapped more than requested
    end = rounded(end);
    if (begin >= end) return;
    space_.map(region_ + begin, end - begin, part_bytes);
    mapped_ = end;
  }
  void unmap(bytes begin, bytes end) override {
    mapped_ = std::min(mapped_, unmappable_from(begin, end));
    space_.unmap(region_ + begin, end - begin);
  }
  bytes unmappable_from(bytes begin, bytes end) const override {
    return space_.next_part(region_ + begin, region_ + end) - region_;
  }

  std::shared_ptr<void> allocate(bytes size) override {
    device_guard const guard{device_};
    void* address = nullptr;
    check(cudaMalloc(&address, size), "heap", "cudaMalloc of metadata", size);
    return {address, [device = device_](void* memory) {
              device_guard const memory_guard{device};
              cudaFree(memory);
            }};
  }

  void zero(void* memory, bytes size) override {
    device_guard const guard{device_};
    check(cudaMemsetAsync(memory, 0, size, nullptr), "heap: cudaMemsetAsync");
  }
  void upload(void* target, void const* source, bytes size) override {
    device_guard const guard{device_};
    check(cudaMemcpy(target, source, size, cudaMemcpyHostToDevice), "heap: cudaMemcpy to metadata");
  }
  void download(void* target, void const* source, bytes size) override {
    device_guard const guard{device_};
    check(cudaMemcpy(target, source, size, cudaMemcpyDeviceToHost),
          "heap: cudaMemcpy from metadata");
  }
  void synchronize() override {
    device_guard const guard{device_};
    check(cudaDeviceSynchronize(), "heap: cudaDeviceSynchronize");
  }

 private:
  static constexpr bytes part_bytes = 1_GiB;  // the unit in which `unmap` returns memory

  [[nodiscard]] bytes rounded(bytes size) const {
    return (size + space_.granularity() - 1) / space_.granularity() * space_.granularity();
  }

  int device_;
  cuda_address_space space_;
  bytes reserved_;
  std::uint64_t region_;
  bytes mapped_ = 0;  // the mapped bytes at the start of the range
};

}  // namespace

std::shared_ptr<heap_memory> make_cuda_memory(int device, std::vector<int> const& peers,
                                              bytes reserved, bytes alignment) {
  if (!has_cuda_device())
    throw resource_failed{"heap", "no CUDA device was found; use backend::cpu"};
  if (device == current_device) check(cudaGetDevice(&device), "heap: cudaGetDevice");
  return std::make_shared<cuda_memory>(device, peers, reserved, alignment);
}

bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace quarry::inline QUARRY_ABI::detail

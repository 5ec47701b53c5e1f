// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/kernel_memory.hpp"

#include "memory.hpp"
#include "quarry/core/errors.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI::detail {

kernel_memory::kernel_memory(backend kind, bytes size) : size_{size} {
  if (kind == backend::automatic) kind = has_cuda_device() ? backend::cuda : backend::cpu;
  memory_ = kind == backend::cuda ? make_cuda_memory(current_device, 2_MiB, 2_MiB)
                                  : make_cpu_memory(64_KiB, 64_KiB);
  data_ = memory_->allocate(size);
  memory_->zero(data(), size);
  memory_->synchronize();
}

kernel_memory::~kernel_memory() = default;
kernel_memory::kernel_memory(kernel_memory&&) noexcept = default;
kernel_memory& kernel_memory::operator=(kernel_memory&&) noexcept = default;

void kernel_memory::check(bytes offset, bytes count) const {
  if (offset > size_ || count > size_ - offset) {
    throw bad_range{"kernel_memory: " + std::to_string(count) + " bytes at offset " +
                    std::to_string(offset) + " exceed the size of " + std::to_string(size_)};
  }
}

void kernel_memory::write(bytes offset, void const* source, bytes count) {
  check(offset, count);
  memory_->synchronize();
  memory_->upload(static_cast<char*>(data()) + offset, source, count);
  memory_->synchronize();
}

void kernel_memory::read(void* destination, bytes offset, bytes count) const {
  check(offset, count);
  memory_->synchronize();
  memory_->download(destination, static_cast<char const*>(data()) + offset, count);
}

void kernel_memory::zero(bytes offset, bytes count) {
  check(offset, count);
  memory_->synchronize();
  memory_->zero(static_cast<char*>(data()) + offset, count);
  memory_->synchronize();
}

}  // namespace quarry::inline QUARRY_ABI::detail

// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/kernel_memory.hpp"

#include "memory.hpp"
#include "quarry/core/errors.hpp"

#include <memory>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

struct kernel_memory::owner {
  std::shared_ptr<heap_memory> memory;
  std::shared_ptr<void> data;
};

kernel_memory::kernel_memory(backend kind, bytes size) : size_{size} {
  if (kind == backend::automatic) kind = has_cuda_device() ? backend::cuda : backend::cpu;
  auto memory = kind == backend::cuda ? make_cuda_memory(current_device, {}, 2_MiB, 2_MiB)
                                      : make_cpu_memory(64_KiB, 64_KiB);
  auto data = memory->allocate(size);
  memory->zero(data.get(), size);
  memory->synchronize();
  data_ = data.get();
  owner_ = new owner{std::move(memory), std::move(data)};
}

kernel_memory::~kernel_memory() { delete owner_; }
kernel_memory::kernel_memory(kernel_memory&& other) noexcept
    : owner_{std::exchange(other.owner_, nullptr)},
      data_{std::exchange(other.data_, nullptr)},
      size_{std::exchange(other.size_, 0)} {}
kernel_memory& kernel_memory::operator=(kernel_memory&& other) noexcept {
  if (this != &other) {
    delete std::exchange(owner_, std::exchange(other.owner_, nullptr));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void kernel_memory::check(bytes offset, bytes count) const {
  if (offset > size_ || count > size_ - offset) {
    throw bad_range{"kernel_memory: " + std::to_string(count) + " bytes at offset " +
                    std::to_string(offset) + " exceed the size of " + std::to_string(size_)};
  }
}

void kernel_memory::write(bytes offset, void const* source, bytes count) {
  check(offset, count);
  owner_->memory->synchronize();
  owner_->memory->upload(static_cast<char*>(data()) + offset, source, count);
  owner_->memory->synchronize();
}

void kernel_memory::read(void* destination, bytes offset, bytes count) const {
  check(offset, count);
  owner_->memory->synchronize();
  owner_->memory->download(destination, static_cast<char const*>(data()) + offset, count);
}

void kernel_memory::zero(bytes offset, bytes count) {
  check(offset, count);
  owner_->memory->synchronize();
  owner_->memory->zero(static_cast<char*>(data()) + offset, count);
  owner_->memory->synchronize();
}

}  // namespace quarry::inline QUARRY_ABI::detail

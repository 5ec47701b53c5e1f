// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "platform/host_address_space.hpp"

#include <cstring>

namespace quarry::inline QUARRY_ABI::detail {
namespace {

constexpr host_address_space heap_space{"heap", overcommit::allow};

/// Memory in anonymous pages of the host.
class cpu_memory final : public heap_memory {
 public:
  cpu_memory(bytes reserved, bytes alignment)
      : reserved_{reserved}, region_{heap_space.reserve(reserved, alignment)} {}
  cpu_memory(cpu_memory const&) = delete;
  cpu_memory& operator=(cpu_memory const&) = delete;
  ~cpu_memory() override { heap_space.release(region_, reserved_); }

  void* region() const override { return reinterpret_cast<void*>(region_); }
  void map(bytes begin, bytes end) override { heap_space.map(region_ + begin, end - begin); }
  void unmap(bytes begin, bytes end) override { heap_space.unmap(region_ + begin, end - begin); }
  bytes unmappable_from(bytes begin, bytes) const override { return begin; }

  std::shared_ptr<void> allocate(bytes size) override {
    size = whole_pages(size);
    return {heap_space.allocate(size), [size](void* memory) {
              heap_space.release(reinterpret_cast<std::uint64_t>(memory), size);
            }};
  }

  void zero(void* memory, bytes size) override {
    // fresh pages are zero, and the system creates them on the first access
    bool const is_aligned = reinterpret_cast<std::uint64_t>(memory) % page_size() == 0;
    bytes const pages = is_aligned ? size / page_size() * page_size() : 0;
    bytes const discarded = pages != 0 && discard_pages(memory, pages) ? pages : 0;
    std::memset(static_cast<char*>(memory) + discarded, 0, size - discarded);
  }
  void upload(void* target, void const* source, bytes size) override {
    std::memcpy(target, source, size);
  }
  void download(void* target, void const* source, bytes size) override {
    std::memcpy(target, source, size);
  }
  void synchronize() override {}

 private:
  bytes reserved_;
  std::uint64_t region_;
};

}  // namespace

std::shared_ptr<heap_memory> make_cpu_memory(bytes reserved, bytes alignment) {
  return std::make_shared<cpu_memory>(reserved, alignment);
}

}  // namespace quarry::inline QUARRY_ABI::detail

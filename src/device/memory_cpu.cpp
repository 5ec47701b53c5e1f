// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"
#include "quarry/core/errors.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>

namespace quarry::inline QUARRY_ABI {
namespace {

/// Says why a call for `size` bytes failed.
[[noreturn]] void throw_errno(char const* call, bytes size) {
  if (errno == ENOMEM) throw out_of_memory{call, size, std::strerror(errno)};
  throw resource_failed{std::string{call} + " of " + std::to_string(size) + " bytes",
                        std::strerror(errno)};
}

/// Anonymous pages: reserved without access, made usable and returned by mprotect and madvise.
class cpu_memory final : public heap_memory {
 public:
  cpu_memory(bytes reserved, bytes alignment) : mapped_bytes_{reserved + alignment} {
    mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping_ == MAP_FAILED) throw_errno("mmap of a heap's region", mapped_bytes_);
    auto const address = reinterpret_cast<std::uintptr_t>(mapping_);
    region_ = reinterpret_cast<char*>((address + alignment - 1) / alignment * alignment);
  }
  cpu_memory(cpu_memory const&) = delete;
  cpu_memory& operator=(cpu_memory const&) = delete;
  ~cpu_memory() override {
    ::munmap(mapping_, mapped_bytes_);
    for (auto const& [address, size] : metadata_) ::munmap(address, size);
  }

  void* region() const override { return region_; }

  void map(bytes begin, bytes end) override {
    if (::mprotect(region_ + begin, end - begin, PROT_READ | PROT_WRITE) != 0)
      throw_errno("mprotect of a heap's region", end - begin);
  }

  void unmap(bytes begin, bytes end) override {
    if (::madvise(region_ + begin, end - begin, MADV_DONTNEED) != 0)
      throw_errno("madvise of a heap's region", end - begin);
    if (::mprotect(region_ + begin, end - begin, PROT_NONE) != 0)
      throw_errno("mprotect of a heap's region", end - begin);
  }

  bytes unmappable_from(bytes begin, bytes) const override { return begin; }

  void* metadata(bytes size) override {
    void* const address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw_errno("mmap of a heap's metadata", size);
    metadata_.emplace(address, size);
    return address;
  }

  void release(void* address) override {
    auto const found = metadata_.find(address);
    ::munmap(found->first, found->second);
    metadata_.erase(found);
  }

  std::shared_ptr<void> detached(bytes size) override {
    void* const address = std::aligned_alloc(256, (size + 255) / 256 * 256);
    if (address == nullptr)
      throw out_of_memory{"heap", size, "the host has none for the heap's state"};
    return {address, &std::free};
  }

  void zero(void* to, bytes size) override {
    auto const found = metadata_.find(to);
    if (found != metadata_.end() && found->second == size) {
      ::madvise(to, size, MADV_DONTNEED);  // fresh pages are zero, and are made when touched
    } else {
      std::memset(to, 0, size);
    }
  }
  void upload(void* to, void const* from, bytes size) override { std::memcpy(to, from, size); }
  void download(void* to, void const* from, bytes size) override { std::memcpy(to, from, size); }
  void synchronize() override {}

 private:
  void* mapping_;
  bytes mapped_bytes_;
  char* region_;
  std::map<void*, bytes> metadata_;
};

}  // namespace

std::shared_ptr<heap_memory> make_cpu_memory(bytes reserved, bytes alignment) {
  return std::make_shared<cpu_memory>(reserved, alignment);
}

}  // namespace quarry::inline QUARRY_ABI

// SPDX-License-Identifier: Apache-2.0
#include "platform/host_address_space.hpp"

#include "quarry/core/errors.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace quarry::inline QUARRY_ABI::detail {
namespace {

void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

[[noreturn]] void refuse(char const* user, bytes size, char const* call) {
  int const code = errno;
  throw out_of_memory{user, size, std::string{call} + ": " + std::strerror(code)};
}

}  // namespace

void* host_address_space::map_new(void* address, bytes size, int protection,
                                  int flags) const noexcept {
  flags |= MAP_PRIVATE | MAP_ANONYMOUS | (policy_ == overcommit::allow ? MAP_NORESERVE : 0);
  return mmap(address, size, protection, flags, -1, 0);
}

std::uint64_t host_address_space::reserve(bytes size, bytes alignment) const {
  bytes const slack = alignment - page_size();
  void* const whole = map_new(nullptr, size + slack, PROT_NONE, 0);
  if (whole == MAP_FAILED) refuse(user_, size, "mmap of addresses");
  auto const base = reinterpret_cast<std::uint64_t>(whole);
  std::uint64_t const aligned = (base + alignment - 1) & ~(alignment - 1);
  if (aligned != base) release(base, aligned - base);
  if (aligned != base + slack) release(aligned + size, base + slack - aligned);
  return aligned;
}

void host_address_space::release(std::uint64_t address, bytes size) const noexcept {
  munmap(pointer_to(address), size);
}

void host_address_space::map(std::uint64_t address, bytes size) const {
  if (mprotect(pointer_to(address), size, PROT_READ | PROT_WRITE) != 0)
    refuse(user_, size, "mprotect");
}

void host_address_space::unmap(std::uint64_t address, bytes size) const noexcept {
  // with too many mappings mmap fails; then return the memory and keep the range accessible
  if (map_new(pointer_to(address), size, PROT_NONE, MAP_FIXED) == MAP_FAILED)
    (void)discard_pages(pointer_to(address), size);
}

void* host_address_space::allocate(bytes size) const {
  void* const result = map_new(nullptr, size, PROT_READ | PROT_WRITE, 0);
  if (result == MAP_FAILED) refuse(user_, size, "mmap");
  return result;
}

bool discard_pages(void* memory, bytes size) noexcept {
  if (madvise(memory, size, MADV_DONTNEED) == 0) return true;
  // the pages may be locked by mlockall
  return munlock(memory, size) == 0 && madvise(memory, size, MADV_DONTNEED) == 0;
}

}  // namespace quarry::inline QUARRY_ABI::detail

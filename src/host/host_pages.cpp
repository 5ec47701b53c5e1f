// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/host_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace quarry::inline QUARRY_ABI {
namespace {

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

host_pages::host_pages(bytes page) : page_{page} {
  auto const minimum = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  if (!std::has_single_bit(page) || page < minimum) {
    throw bad_argument{"host_pages: a page of " + std::to_string(page) +
                       " bytes is no power of two from " + std::to_string(minimum) + " on"};
  }
}

std::uint64_t host_pages::reserve(bytes size) {
  void* const whole = mmap(nullptr, size + page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED)
    throw out_of_memory{"host_pages", size, std::string{"no addresses: "} + std::strerror(errno)};
  auto const base = reinterpret_cast<std::uint64_t>(whole);
  std::uint64_t const aligned = (base + page_ - 1) & ~(page_ - 1);
  if (aligned != base) munmap(whole, aligned - base);
  if (aligned + size != base + size + page_) munmap(at(aligned + size), base + page_ - aligned);
  return aligned;
}

void host_pages::give_up(std::uint64_t address, bytes size) noexcept { munmap(at(address), size); }

void host_pages::map(std::uint64_t address, bytes size) {
  if (mprotect(at(address), size, PROT_READ | PROT_WRITE) != 0)
    throw out_of_memory{"host_pages", size, std::strerror(errno)};
}

void host_pages::move(std::uint64_t from, std::uint64_t to, bytes size) {
  map(to, size);
  unmap(from, size);
}

void host_pages::unmap(std::uint64_t address, bytes size) noexcept {
  void* const fresh =
      mmap(at(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  // too many mappings: at least the memory goes
  if (fresh == MAP_FAILED) madvise(at(address), size, MADV_DONTNEED);
}

}  // namespace quarry::inline QUARRY_ABI

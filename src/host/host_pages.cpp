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
  auto const least = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  if (!std::has_single_bit(page) || page < least) {
    throw bad_argument{"host_pages: a page of " + std::to_string(page) +
                       " bytes is no power of two from " + std::to_string(least) + " on"};
  }
}

std::uint64_t host_pages::reserve(bytes size) {
  void* const whole = mmap(nullptr, size + page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED)
    throw out_of_memory{"host_pages", size, std::string{"no addresses: "} + std::strerror(errno)};
  auto const begin = reinterpret_cast<std::uint64_t>(whole);
  std::uint64_t const aligned = (begin + page_ - 1) & ~(page_ - 1);
  if (aligned != begin) munmap(whole, aligned - begin);
  if (aligned + size != begin + size + page_) munmap(at(aligned + size), begin + page_ - aligned);
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

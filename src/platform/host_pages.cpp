// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/host_pages.hpp"

#include "platform/host_address_space.hpp"

#include <bit>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

constexpr host_address_space page_space{"host_pages", overcommit::refuse};

}  // namespace

host_pages::host_pages(bytes page) : page_{page} {
  if (!std::has_single_bit(page) || page < page_size()) {
    throw bad_argument{"host_pages: the page size is " + std::to_string(page) +
                       " bytes; it must be a power of two and at least " +
                       std::to_string(page_size()) + " bytes"};
  }
}

std::uint64_t host_pages::reserve(bytes size) { return page_space.reserve(size, page_); }
void host_pages::release(std::uint64_t address, bytes size) noexcept {
  page_space.release(address, size);
}
void host_pages::map(std::uint64_t address, bytes size) { page_space.map(address, size); }
void host_pages::move(std::uint64_t source, std::uint64_t target, bytes size) {
  map(target, size);
  unmap(source, size);
}
void host_pages::unmap(std::uint64_t address, bytes size) noexcept {
  page_space.unmap(address, size);
}

}  // namespace quarry::inline QUARRY_ABI

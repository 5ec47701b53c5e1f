// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <concepts>

namespace quarry::inline QUARRY_ABI {

/// A source of pages. A page can be mapped at any address of a reserved range, and moved to another
/// address without a copy.
///
/// `reserve(size)` reserves a range of addresses without memory and returns its base address.
/// `release` releases a range in which nothing is mapped. `map` maps fresh pages at an address.
/// `move` moves pages to another address; their content is then unspecified. `unmap` returns pages
/// to the system. All addresses and sizes are multiples of `page_bytes()`. If `reserve`, `map` or
/// `move` fails, it throws `out_of_memory` or `resource_failed` and changes nothing. The other
/// functions do not throw.
template <class Source>
concept page_source =
    std::movable<Source> && requires(Source& pages, std::uint64_t address, bytes size) {
      { pages.page_bytes() } -> std::same_as<bytes>;
      { pages.reserve(size) } -> std::same_as<std::uint64_t>;
      { pages.release(address, size) } noexcept;
      { pages.map(address, size) };
      { pages.move(address, address, size) };
      { pages.unmap(address, size) } noexcept;
    };

}  // namespace quarry::inline QUARRY_ABI

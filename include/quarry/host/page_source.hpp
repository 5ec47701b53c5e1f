// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <concepts>

namespace quarry::inline QUARRY_ABI {

/// Where pages come from that can be put at any address of a reserved range, and taken to another
/// without a copy.
///
/// `reserve(size)` gives a range of addresses with nothing behind it, a multiple of a page;
/// `give_up` ends one. `map` puts fresh pages at an address; `move` takes the pages at `from` to
/// `to`, where what is in them is anything; `unmap` gives pages back. All addresses and sizes are
/// multiples of `page_bytes()`. `reserve`, `map` and `move` throw `out_of_memory` or
/// `resource_failed`, and have changed nothing then; the others do not throw.
template <class Source>
concept page_source =
    std::movable<Source> && requires(Source& pages, std::uint64_t address, bytes size) {
      { pages.page_bytes() } -> std::same_as<bytes>;
      { pages.reserve(size) } -> std::same_as<std::uint64_t>;
      { pages.give_up(address, size) } noexcept;
      { pages.map(address, size) };
      { pages.move(address, address, size) };
      { pages.unmap(address, size) } noexcept;
    };

}  // namespace quarry::inline QUARRY_ABI

// SPDX-License-Identifier: Apache-2.0
// Adapters of resources for the conformance suite: a resource alone, and a resource under a pool.
#pragma once

#include "conformance/resource_conformance.hpp"
#include "quarry/host/pools/pool.hpp"

#include <memory>

namespace quarry::test {

using namespace quarry::literals;

/// A resource by itself.
template <auto Make, bool Touchable>
struct alone {
  static constexpr bytes alignment = 64;
  static constexpr bool is_touchable = Touchable;
  decltype(Make()) source = Make();

  static std::unique_ptr<alone> make() {
    try {
      return std::make_unique<alone>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return source.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) { source.deallocate(pointer, size, alignment); }
};

/// A resource under a pool.
template <auto Make, bool Touchable, class Strategy>
struct pooled {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = Touchable;
  pool<decltype(Make()), Strategy> source{
      Make(), {.first_block = 64_KiB, .next_block = 16_KiB, .alignment = alignment}};

  ~pooled() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<pooled> make() {
    try {
      return std::make_unique<pooled>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(source.size_of(pointer), size);
    EXPECT_TRUE(source.deallocate(pointer));
  }
};

}  // namespace quarry::test

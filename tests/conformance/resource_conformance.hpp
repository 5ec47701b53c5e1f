// SPDX-License-Identifier: Apache-2.0
// The requirements for every resource and every pool. A test instantiates the suite for a type
// with
//   static constexpr bytes alignment;
//   static constexpr bool is_touchable;      // whether the host can access the memory
//   static std::unique_ptr<Source> make();   // null if there is no such memory
//   void* allocate(bytes);
//   void deallocate(void*, bytes);
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>

namespace quarry::test {

template <class Source>
struct ResourceConformance : testing::Test {
  void SetUp() override {
    made = Source::make();
    if (!made) GTEST_SKIP() << "there is no such memory here";
  }
  std::unique_ptr<Source> made;
};
TYPED_TEST_SUITE_P(ResourceConformance);

TYPED_TEST_P(ResourceConformance, AllocatesAlignedMemoryThatCanBeWritten) {
  auto& source = *this->made;
  for (bytes const size :
       {bytes{1}, bytes{7}, bytes{16}, bytes{100}, bytes{4096}, bytes{100'000}}) {
    void* const memory = source.allocate(size);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % TypeParam::alignment, 0u) << size;
    if (TypeParam::is_touchable) std::memset(memory, 0xa5, size);
    source.deallocate(memory, size);
  }
}

TYPED_TEST_P(ResourceConformance, AllocationsOfSizeZeroHaveDistinctAddresses) {
  auto& source = *this->made;
  void* const first = source.allocate(0);
  void* const second = source.allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  source.deallocate(first, 0);
  source.deallocate(second, 0);
}

TYPED_TEST_P(ResourceConformance, ThrowsIfItHasNoMemoryAndStillWorks) {
  auto& source = *this->made;
  for (bytes const size : {bytes{1} << 47, bytes{1} << 62, ~bytes{0}}) {
    try {
      (void)source.allocate(size);
      ADD_FAILURE() << "allocated " << size;
    } catch (std::bad_alloc const& failure) {
      ASSERT_NE(dynamic_cast<error const*>(&failure), nullptr);
      EXPECT_NE(std::string{failure.what()}.find(std::to_string(size)), std::string::npos)
          << failure.what();
    }
  }
  source.deallocate(source.allocate(64), 64);
}

/// Checks that allocations do not overlap and keep their contents.
TYPED_TEST_P(ResourceConformance, AgreesWithAMapOfItsAllocations) {
  auto& source = *this->made;
  std::mt19937 random{7};
  std::map<std::uintptr_t, std::pair<bytes, unsigned char>> allocated;
  for (int step = 0; step < 300; ++step) {
    if (random() % 2 == 0 && !allocated.empty()) {
      auto const victim =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
      auto const [size, fill] = victim->second;
      auto* const memory = reinterpret_cast<unsigned char*>(victim->first);
      for (bytes i = 0; TypeParam::is_touchable && i < size; ++i) ASSERT_EQ(memory[i], fill);
      source.deallocate(memory, size);
      allocated.erase(victim);
      continue;
    }
    bytes const size = random() % 3000;
    auto const fill = static_cast<unsigned char>(random());
    void* const memory = source.allocate(size);
    if (TypeParam::is_touchable) std::memset(memory, fill, size);
    auto const base = reinterpret_cast<std::uintptr_t>(memory);
    auto const next = allocated.lower_bound(base);
    ASSERT_TRUE(next == allocated.end() || base + size <= next->first);
    if (next != allocated.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first, base);
    }
    allocated[base] = {size, fill};
  }
  for (auto const& [base, contents] : allocated)
    source.deallocate(reinterpret_cast<void*>(base), contents.first);
}

REGISTER_TYPED_TEST_SUITE_P(ResourceConformance, AllocatesAlignedMemoryThatCanBeWritten,
                            AllocationsOfSizeZeroHaveDistinctAddresses,
                            ThrowsIfItHasNoMemoryAndStillWorks, AgreesWithAMapOfItsAllocations);

}  // namespace quarry::test

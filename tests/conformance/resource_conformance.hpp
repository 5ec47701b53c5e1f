// SPDX-License-Identifier: Apache-2.0
// What every resource and every pool must do. A test instantiates it with a type that has
//   static std::optional<From> make();       // nothing where there is no such memory
//   void* allocate(bytes), void deallocate(void*, bytes), static constexpr bytes alignment, static
//   bool is_touchable()
#pragma once

#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace quarry::test {

template <class From>
struct ResourceConformance : testing::Test {
  void SetUp() override {
    made = From::make();
    if (!made) GTEST_SKIP() << "there is no such memory here";
  }
  std::unique_ptr<From> made;
};
TYPED_TEST_SUITE_P(ResourceConformance);

TYPED_TEST_P(ResourceConformance, GivesMemoryThatCanBeWrittenAndIsAligned) {
  auto& source = *this->made;
  for (bytes const size :
       {bytes{1}, bytes{7}, bytes{16}, bytes{100}, bytes{4096}, bytes{100'000}}) {
    void* const one = source.allocate(size);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one) % TypeParam::alignment, 0u) << size;
    if (TypeParam::is_touchable) std::memset(one, 0xa5, size);
    source.deallocate(one, size);
  }
}

TYPED_TEST_P(ResourceConformance, GivesForNothingAnAddressOfItsOwn) {
  auto& source = *this->made;
  void* const one = source.allocate(0);
  void* const other = source.allocate(0);
  EXPECT_NE(one, nullptr);
  EXPECT_NE(one, other);
  source.deallocate(one, 0);
  source.deallocate(other, 0);
}

TYPED_TEST_P(ResourceConformance, SaysThatThereIsNoMemoryAndGoesOn) {
  auto& source = *this->made;
  for (bytes const size : {bytes{1} << 47, bytes{1} << 62, ~bytes{0}}) {
    try {
      (void)source.allocate(size);
      ADD_FAILURE() << "gave " << size;
    } catch (std::bad_alloc const& failure) {
      ASSERT_NE(dynamic_cast<error const*>(&failure), nullptr);
      EXPECT_NE(std::string{failure.what()}.find(std::to_string(size)), std::string::npos)
          << failure.what();
    }
  }
  source.deallocate(source.allocate(64), 64);
}

/// Live allocations never overlap, and what was written stays.
TYPED_TEST_P(ResourceConformance, AgreesWithAMapOfWhatIsLive) {
  auto& source = *this->made;
  std::mt19937 random{7};
  std::map<std::uintptr_t, std::pair<bytes, unsigned char>> allocated;
  for (int step = 0; step < 300; ++step) {
    if (random() % 2 == 0 && !allocated.empty()) {
      auto const one =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
      auto const [size, fill] = one->second;
      auto* const memory = reinterpret_cast<unsigned char*>(one->first);
      for (bytes i = 0; TypeParam::is_touchable && i < size; ++i) ASSERT_EQ(memory[i], fill);
      source.deallocate(memory, size);
      allocated.erase(one);
      continue;
    }
    bytes const size = random() % 3000;
    auto const fill = static_cast<unsigned char>(random());
    void* const memory = source.allocate(size);
    if (TypeParam::is_touchable) std::memset(memory, fill, size);
    auto const at = reinterpret_cast<std::uintptr_t>(memory);
    auto const next = allocated.lower_bound(at);
    ASSERT_TRUE(next == allocated.end() || at + size <= next->first);
    if (next != allocated.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first, at);
    }
    allocated[at] = {size, fill};
  }
  for (auto const& [at, what] : allocated)
    source.deallocate(reinterpret_cast<void*>(at), what.first);
}

REGISTER_TYPED_TEST_SUITE_P(ResourceConformance, GivesMemoryThatCanBeWrittenAndIsAligned,
                            GivesForNothingAnAddressOfItsOwn, SaysThatThereIsNoMemoryAndGoesOn,
                            AgreesWithAMapOfWhatIsLive);

}  // namespace quarry::test

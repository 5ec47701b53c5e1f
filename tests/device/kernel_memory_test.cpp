// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/kernel_memory.hpp"

#include "support/coalescing.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace kernel_memory_test {

struct double_words {
  std::uint32_t* words;

  QUARRY_HD void operator()() const {
    auto const rank = simt::this_place().rank();
    words[rank] = words[rank] * 2 + 1;
  }
};

template <class Backend>
struct KernelMemory : testing::Test {};
TYPED_TEST_SUITE(KernelMemory, backends, backend_names);

std::vector<std::uint32_t> contents(kernel_memory const& memory, std::uint32_t count) {
  std::vector<std::uint32_t> result(count);
  memory.read(result.data(), 0, count * 4);
  return result;
}

TYPED_TEST(KernelMemory, IsZeroAtFirstAndAligned) {
  for (bytes const size : {bytes{1}, bytes{256}, bytes{100000}}) {
    kernel_memory const memory{backend_of<TypeParam>(), size};
    EXPECT_EQ(memory.size(), size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
    std::vector<char> bytes_of(size, 1);
    memory.read(bytes_of.data(), 0, size);
    EXPECT_EQ(bytes_of, std::vector<char>(size, 0));
  }
}

TYPED_TEST(KernelMemory, HostAndKernelsSeeEachOthersWrites) {
  TypeParam const backend;
  kernel_memory memory{backend_of<TypeParam>(), 256};
  std::vector<std::uint32_t> expected(64);
  for (std::uint32_t i = 0; i < 64; ++i) expected[i] = i * 10;
  memory.write(0, expected.data(), 256);
  backend.run({2, 32}, double_words{static_cast<std::uint32_t*>(memory.data())});
  for (auto& word : expected) word = word * 2 + 1;
  EXPECT_EQ(contents(memory, 64), expected);
  std::uint32_t const seven = 7;
  memory.write(8, &seven, 4);
  memory.zero(4, 4);
  memory.zero(252, 4);
  expected[1] = 0, expected[2] = 7, expected[63] = 0;
  EXPECT_EQ(contents(memory, 64), expected);
}

TYPED_TEST(KernelMemory, RefusesRangesBeyondItsEnd) {
  kernel_memory memory{backend_of<TypeParam>(), 100};
  char buffer[128] = {};
  EXPECT_THROW(memory.write(96, buffer, 5), std::out_of_range);
  EXPECT_THROW(memory.read(buffer, 101, 0), std::out_of_range);
  EXPECT_THROW(memory.zero(1, ~bytes{0}), std::out_of_range);
  EXPECT_THROW(memory.zero(~bytes{0}, 2), std::out_of_range);
  EXPECT_NO_THROW(memory.write(95, buffer, 5));
  EXPECT_NO_THROW(memory.zero(100, 0));
  EXPECT_NO_THROW(memory.zero(0, 100));
}

TYPED_TEST(KernelMemory, MovesWithItsContents) {
  kernel_memory first{backend_of<TypeParam>(), 16};
  std::uint32_t const seven = 7;
  first.write(0, &seven, 4);
  void* const address = first.data();
  kernel_memory second{std::move(first)};
  EXPECT_EQ(second.data(), address);
  EXPECT_EQ(contents(second, 1)[0], 7u);
  kernel_memory third{backend_of<TypeParam>(), 32};
  third = std::move(second);
  EXPECT_EQ(third.size(), 16u);
  EXPECT_EQ(contents(third, 1)[0], 7u);
}

}  // namespace kernel_memory_test
}  // namespace quarry::test

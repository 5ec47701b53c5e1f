// SPDX-License-Identifier: Apache-2.0
// The data of long messages survives the way through numbered units.
#include "mpi/extension.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::test {
namespace extension_test {

constexpr std::uint32_t guard = 32;

/// Bytes at an address that is `offset` more than a multiple of 16, between guards.
class guarded_bytes {
 public:
  guarded_bytes(std::uint32_t size, std::uint32_t offset)
      : memory_(size + 2 * guard + 16, 0x55), size_{size} {
    auto const past = reinterpret_cast<std::uintptr_t>(memory_.data()) % 16;
    first_ = guard + (16 - past) % 16 + offset;
  }
  [[nodiscard]] char* data() { return memory_.data() + first_; }
  void fill(std::uint32_t seed) {
    for (std::uint32_t i = 0; i < size_; ++i) data()[i] = static_cast<char>(seed + 37 * i);
  }
  [[nodiscard]] bool has(std::uint32_t seed) const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      bool const is_data = i >= first_ && i < first_ + size_;
      auto const expected = static_cast<char>(is_data ? seed + 37 * (i - first_) : 0x55);
      if (memory_[i] != expected) return false;
    }
    return true;
  }

 private:
  std::vector<char> memory_;
  std::size_t first_;
  std::uint32_t size_;
};

/// Writes by `writers` lanes and reads by `readers`.
void expect_copy(std::uint32_t size, std::uint32_t from, std::uint32_t to, std::uint32_t writers,
                 std::uint32_t readers) {
  SCOPED_TRACE(std::to_string(size) + " bytes from " + std::to_string(from) + " to " +
               std::to_string(to) + ", " + std::to_string(writers) + " writers, " +
               std::to_string(readers) + " readers");
  std::uint32_t const units = (size + 15) / 16 * 4;
  std::vector<simt::word_pair> memory(units / 2 + 1, {77, 77});
  auto* const first = &memory[0].first;
  guarded_bytes sent{size, from};
  guarded_bytes got{size, to};
  sent.fill(size);
  mpi::numbered_units const extension{first, 0xfffffff0u};
  for (std::uint32_t i = 0; i < writers; ++i)
    mpi::store_numbered(extension, sent.data(), size, {i, writers});
  for (std::uint32_t i = 0; i < readers; ++i)
    mpi::load_numbered(extension, got.data(), size, {i, readers});
  EXPECT_TRUE(sent.has(size));
  EXPECT_TRUE(got.has(size));
  EXPECT_EQ(memory.back().first, 77u);  // nothing behind the units changes
  EXPECT_EQ(memory.back().second, 77u);
}

TEST(Extension, DataOfEverySizeAndAlignmentArrives) {
  for (std::uint32_t const size : {1u, 15u, 16u, 17u, 52u, 53u, 64u, 127u, 128u, 200u, 513u, 4096u})
    for (std::uint32_t const from : {0u, 1u, 4u, 8u, 15u})
      for (std::uint32_t const to : {0u, 2u, 4u, 12u, 13u}) expect_copy(size, from, to, 1, 1);
}

TEST(Extension, LanesShareACopy) {
  for (std::uint32_t const size : {16u, 53u, 500u, 511u, 512u, 1000u, 2048u, 4095u, 4096u})
    for (std::uint32_t const offset : {0u, 1u, 4u}) {
      expect_copy(size, offset, 0, 32, 32);
      expect_copy(size, 0, offset, 32, 1);
      expect_copy(size, offset, offset, 1, 32);
    }
}

TEST(Extension, EachLaneWritesTheNumberOfItsShareOnly) {
  std::vector<simt::word_pair> memory(4, {0, 0});
  char const data[32] = "words of two lanes of a message";
  mpi::numbered_units const extension{&memory[0].first, 9};
  mpi::store_numbered(extension, data, 32, {0, 2});
  EXPECT_EQ(memory[0].first >> 32, 9u);
  EXPECT_EQ(memory[2].first >> 32, 0u);
  mpi::store_numbered(extension, data, 32, {1, 2});
  char got[32] = {};
  mpi::load_numbered(extension, got, 32, mpi::whole_share);
  EXPECT_STREQ(got, data);
}

}  // namespace extension_test
}  // namespace quarry::test

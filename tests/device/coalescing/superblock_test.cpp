// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/superblock.hpp"

#include "quarry/device/detail/segment_header.hpp"
#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/coalescing.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quarry::test {

using namespace detail;
namespace superblock_test {

struct with_room {
  superblock all;
  alignas(16) unsigned char bytes_of_parts[8192];
};

TEST(Superblock, PartsWithoutHeadersTouchAndAreAlignedTo16) {
  EXPECT_EQ(superblock::stride(0, false), 16u);
  EXPECT_EQ(superblock::stride(1, false), 16u);
  EXPECT_EQ(superblock::stride(16, false), 16u);
  EXPECT_EQ(superblock::stride(17, false), 32u);
  EXPECT_EQ(superblock::stride(100, false), 112u);
}

TEST(Superblock, PartsWithHeadersAre16BytesFurtherApart) {
  for (bytes size = 0; size < 500; ++size)
    EXPECT_EQ(superblock::stride(size, true), superblock::stride(size, false) + 16);
}

TEST(Superblock, GivesEachIndexItsOwnBytes) {
  for (bool const with_header : {false, true}) {
    for (bytes const size : {bytes{0}, bytes{1}, bytes{15}, bytes{16}, bytes{100}}) {
      with_room room;
      room.all.open(32, size, with_header);
      EXPECT_EQ(room.all.part_bytes(), size);
      char* end = reinterpret_cast<char*>(&room.all + 1);
      for (std::uint32_t i = 0; i < 32; ++i) {
        char* const part = room.all.part(i, with_header);
        EXPECT_EQ(part, end + (with_header ? 16 : 0)) << "part " << i;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(part) % 16, 0u);
        EXPECT_TRUE(room.all.may_have_part_at(part, with_header));
        EXPECT_FALSE(room.all.may_have_part_at(part, !with_header));
        EXPECT_FALSE(room.all.may_have_part_at(part + 8, with_header));
        EXPECT_GE(superblock::stride(size, with_header), size + (with_header ? 16 : 0));
        end += superblock::stride(size, with_header);
      }
    }
  }
}

TEST(Superblock, OnlyTheHeadersOfItsPartsIdentifyTheSuperblock) {
  with_room room;
  room.all.open(32, 48, true);
  for (std::uint32_t i = 0; i < 32; ++i) {
    char* const part = room.all.part_with_header(i);
    EXPECT_EQ(part, room.all.part(i, true));
    std::uint64_t header;
    std::memcpy(&header, part - 8, 8);
    EXPECT_EQ(superblock::named_by(header, part), &room.all);
    EXPECT_EQ(superblock::named_by(header, part + 48), nullptr) << "the header of another part";
    EXPECT_EQ(superblock::named_by(header + 8, part), nullptr);
    EXPECT_EQ(superblock::named_by(reinterpret_cast<std::uint64_t>(&room.all), part), nullptr)
        << "an address is no header";
    for (std::uint64_t const other :
         {0x0ull, 0x4ull, 768ull, ~0ull, 0xdbdbdbdbdbdbdbdbull, 0x0000'0003'0200'0000ull}) {
      EXPECT_EQ(superblock::named_by(other, part), nullptr) << other;
    }
  }
}

TEST(Superblock, BelongsToTheCallerThatReturnsTheLastPart) {
  with_room room;
  room.all.open(5, 16, true);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(room.all.free_parts());
  EXPECT_TRUE(room.all.is_sound(true));
  EXPECT_TRUE(room.all.free_parts());
  EXPECT_FALSE(room.all.is_sound(true)) << "all parts are returned";
  room.all.open(5, 16, true);
  EXPECT_FALSE(room.all.free_parts(2));
  EXPECT_TRUE(room.all.free_parts(3));
}

TEST(Superblock, IsNotRecognisedAtAnotherAddressOrAsAnotherKind) {
  with_room room;
  room.all.open(5, 16, true);
  EXPECT_TRUE(room.all.is_sound(true));
  EXPECT_FALSE(room.all.is_sound(false));
  with_room copy = room;
  EXPECT_FALSE(copy.all.is_sound(true));
  EXPECT_FALSE(copy.all.may_have_part_at(copy.all.part(0, true), true));
}

/// A free reads the word before the first part, which has no header, and the word at the base. Both
/// words must show that no segment begins there.
TEST(Superblock, IsNeverMistakenForADynamicSuperblock) {
  with_room room;
  for (std::uint32_t parts = 1; parts < 70; ++parts) {
    for (bytes size = 0; size < 600; ++size) {
      room.all.open(parts, size, size % 2 == 0);
      ASSERT_FALSE(segment_header::begins_at(&room.all));
      auto const before_first = reinterpret_cast<std::uint64_t*>(&room.all + 1)[-1];
      ASSERT_EQ(before_first & 15, 0u) << "could be a segment's header";
    }
  }
}

/// Each thread returns one part. One thread frees the superblock, after all threads have written.
TEST(Superblock, TheThreadThatReturnsTheLastPartSeesTheWritesOfTheOthers) {
  for (int round = 0; round < 200; ++round) {
    arena_owner<threads_backend> upstream{1, 128};
    auto const source = upstream.ref();
    auto* const all = static_cast<superblock*>(source.malloc(128));
    all->open(4, 16, false);
    simt::launch_threads({4, 1}, 4, [&] {
      auto const index = simt::this_place().block;
      for (int i = 0; i < 16; ++i) all->part(index, false)[i] = static_cast<char>(index);
      if (all->free_parts()) source.free(all);
    });
    ASSERT_EQ(upstream.counts[0].frees, 1u);
  }
}

/// The same for a packed superblock, whose parts have a bit each.
TEST(Superblock, TheLastThreadToLeaveAPackedSuperblockSeesTheWritesOfTheOthers) {
  for (int round = 0; round < 200; ++round) {
    arena_owner<threads_backend> upstream{1, 128};
    auto const source = upstream.ref();
    auto* const all = static_cast<superblock*>(source.malloc(128));
    all->open_packed(4, 16);
    simt::launch_threads({4, 1}, 4, [&] {
      auto const index = simt::this_place().block;
      for (int i = 0; i < 16; ++i) all->part(index, false)[i] = static_cast<char>(index);
      std::uint32_t const own = 1u << index;
      if (all->leave(own) == own) {
        all->close();
        source.free(all);
      }
    });
    ASSERT_EQ(upstream.counts[0].frees, 1u);
  }
}

}  // namespace superblock_test
}  // namespace quarry::test

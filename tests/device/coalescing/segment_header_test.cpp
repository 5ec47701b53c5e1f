// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/coalescing/segment_header.hpp"

#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <array>

namespace quarry::test {

using namespace detail;
namespace segment_header_test {

using header = segment_header;

TEST(SegmentHeader, IsAsWideAsThePayloadsAlignmentSays) {
  EXPECT_EQ(header::width_at(64), 8u);
  EXPECT_EQ(header::width_at(72), 8u);
  EXPECT_EQ(header::width_at(68), 4u);
  EXPECT_EQ(header::width_at(76), 4u);
  EXPECT_EQ(header::width_at(66), 2u);
  EXPECT_EQ(header::width_at(70), 2u);
  EXPECT_EQ(header::width_at(65), 0u);
  EXPECT_EQ(header::width_at(71), 0u);
}

TEST(SegmentHeader, IsAsNarrowAsSizeAndDistanceAllow) {
  EXPECT_EQ(header::width_for(0, 40), 8u);
  EXPECT_EQ(header::width_for(16, 40), 8u);
  EXPECT_EQ(header::width_for(24, 40), 8u);
  EXPECT_EQ(header::width_for(4, 40), 4u) << "is to be aligned to 4";
  EXPECT_EQ(header::width_for(100, 40), 4u);
  EXPECT_EQ(header::width_for(1, 40), 2u);
  EXPECT_EQ(header::width_for(63, 254), 2u);
  EXPECT_EQ(header::width_for(65, 40), 4u);
  EXPECT_EQ(header::width_for(63, 256), 4u);
  EXPECT_EQ(header::width_for(131068, 40), 4u);
  EXPECT_EQ(header::width_for(131069, 40), 8u);
  EXPECT_EQ(header::width_for(1, 32766), 4u);
  EXPECT_EQ(header::width_for(1, 32768), 8u);
}

/// Memory with a payload at `offset`, whose header is as wide as that offset is aligned.
struct payload_at {
  explicit payload_at(std::size_t offset) : at{memory.data() + offset} {}
  alignas(16) std::array<char, 64> memory{};
  char* at;
};

TEST(SegmentHeader, HoldsFlagsDistanceAndSize) {
  struct limits {
    std::size_t offset;
    bytes unit, max_size, max_distance;
  };
  for (auto const& [offset, unit, max_size, max_distance] :
       {limits{24, 8, header::max_bytes, header::max_distance},
        limits{32, 8, header::max_bytes, header::max_distance}, limits{20, 4, 32767 * 4, 16383 * 2},
        limits{18, 1, 63, 254}}) {
    payload_at const payload{offset};
    header const one{payload.at};
    for (std::uint64_t flags = 0; flags < 8; ++flags) {
      for (bytes const size : {bytes{0}, bytes{1}, bytes{7}, bytes{12}, bytes{60}, max_size}) {
        for (bytes const distance : {bytes{0}, bytes{2}, bytes{18}, bytes{200}, max_distance}) {
          one.write(flags, distance, size);
          std::uint64_t const seen = one.load();
          EXPECT_EQ(seen & 7, flags);
          EXPECT_EQ(one.distance(seen), distance);
          EXPECT_EQ(one.size(seen), (size + unit - 1) / unit * unit);
        }
      }
    }
    for (std::size_t i = 0; i < payload.memory.size(); ++i) {
      bool const in_header = i < offset && i + one.width() >= offset;
      if (!in_header) {
        EXPECT_EQ(payload.memory[i], 0) << "byte " << i << " is not the header's";
      }
    }
  }
}

TEST(SegmentHeader, SetsAFlagOnceAndOnlyUnlessAnotherIsSet) {
  for (std::size_t const offset : {24u, 32u, 20u, 18u}) {
    payload_at const payload{offset};
    header const one{payload.at};
    one.write(0, 18, 12);
    std::uint64_t seen = one.load();
    EXPECT_TRUE(one.set(seen, header::is_last, header::is_free));
    EXPECT_EQ(seen & 7, 0u) << "as it was just before";
    seen = 0;  // a stale view
    EXPECT_TRUE(one.set(seen, header::is_free, header::is_free));
    EXPECT_EQ(seen & 7, header::is_last);
    seen = one.load();
    EXPECT_FALSE(one.set(seen, header::is_free, header::is_free)) << "a double free";
    EXPECT_FALSE(one.set(seen, header::is_last, header::is_free));
    EXPECT_EQ(one.load() & 7, header::is_last | header::is_free);
    EXPECT_EQ(one.distance(one.load()), 18u);
  }
}

TEST(SegmentHeader, TellsWhereTheSuperblockBeginsWhoseFirstItIs) {
  for (std::size_t const offset : {8u, 16u, 4u, 2u}) {
    payload_at const payload{offset};
    EXPECT_EQ(header{payload.at}.base(), payload.memory.data());
    header::mark_base(payload.at - offset);
    header{payload.at}.write(header::is_superblock, 0, 12);
    EXPECT_TRUE(header::begins_at(payload.at - offset)) << "offset " << offset;
  }
}

TEST(SegmentHeader, IsToldFromTheAddressOfAStaticSuperblock) {
  payload_at const payload{32};
  header{payload.at}.write(0, 0, 0);
  EXPECT_NE(reinterpret_cast<std::uint64_t*>(payload.at)[-1] % 16, 0u);
}

/// Lanes set both flags of one header at once: each change is one lane's, and none is lost.
struct set_flags {
  char* payload;
  std::uint32_t* freed;
  std::uint32_t* handed;

  QUARRY_HD void operator()() const {
    segment_header const one{payload};
    std::uint64_t seen = one.load();
    if (simt::this_place().thread % 2 == 0) {
      if (one.set(seen, segment_header::is_free, segment_header::is_free))
        simt::atomic_ref<std::uint32_t>{*freed}.fetch_add(1, simt::relaxed);
    } else if (one.set(seen, segment_header::is_last,
                       segment_header::is_last | segment_header::is_free)) {
      simt::atomic_ref<std::uint32_t>{*handed}.fetch_add(1, simt::relaxed);
    }
  }
};

template <class Backend>
struct SegmentHeaderOn : testing::Test {};
TYPED_TEST_SUITE(SegmentHeaderOn, backends, backend_names);

TYPED_TEST(SegmentHeaderOn, OfLanesThatSetAFlagAtOnceOneSucceeds) {
  for (auto const seed : TypeParam::seeds()) {
    for (std::size_t const offset : {24u, 20u, 18u}) {
      TypeParam const backend{seed};
      typename TypeParam::template array<std::uint64_t> memory(8);
      typename TypeParam::template array<std::uint32_t> counts(2);
      char* const payload = reinterpret_cast<char*>(memory.data()) + offset;
      segment_header{payload}.write(0, 4, 9);
      backend.run({1, 8}, set_flags{payload, counts.data(), counts.data() + 1});
      EXPECT_EQ(counts[0], 1u);
      EXPECT_LE(counts[1], 1u);
      bool const is_last = (segment_header{payload}.load() & segment_header::is_last) != 0;
      EXPECT_EQ(counts[1], is_last ? 1u : 0u);
      ASSERT_FALSE(this->HasFailure()) << "seed " << seed;
    }
  }
}

}  // namespace segment_header_test
}  // namespace quarry::test

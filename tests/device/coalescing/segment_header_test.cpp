// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/segment_header.hpp"

#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <gtest/gtest.h>

#include <array>

namespace quarry::test {

using namespace detail;
namespace segment_header_test {

using header = segment_header;

TEST(SegmentHeader, ItsWidthFollowsFromThePayloadsAlignment) {
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
  EXPECT_EQ(header::width_for(4, 40), 4u) << "the payload must be aligned to 4";
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

/// Memory with a payload at `offset`. The alignment of the offset decides the header's width.
struct payload_at {
  explicit payload_at(std::size_t offset) : address{memory.data() + offset} {}
  alignas(16) std::array<char, 64> memory{};
  char* address;
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
    header const tested{payload.address};
    for (std::uint64_t flags = 0; flags < 8; ++flags) {
      for (bytes const size : {bytes{0}, bytes{1}, bytes{7}, bytes{12}, bytes{60}, max_size}) {
        for (bytes const distance : {bytes{0}, bytes{2}, bytes{18}, bytes{200}, max_distance}) {
          tested.write(flags, distance, size);
          std::uint64_t const seen = tested.load();
          EXPECT_EQ(seen & 7, flags);
          EXPECT_EQ(tested.distance(seen), distance);
          EXPECT_EQ(tested.size(seen), (size + unit - 1) / unit * unit);
        }
      }
    }
    for (std::size_t i = 0; i < payload.memory.size(); ++i) {
      bool const in_header = i < offset && i + tested.width() >= offset;
      if (!in_header) {
        EXPECT_EQ(payload.memory[i], 0) << "byte " << i << " is outside the header";
      }
    }
  }
}

TEST(SegmentHeader, SetsAFlagOnceUnlessABlockingFlagIsSet) {
  for (std::size_t const offset : {24u, 32u, 20u, 18u}) {
    payload_at const payload{offset};
    header const tested{payload.address};
    tested.write(0, 18, 12);
    std::uint64_t seen = tested.load();
    EXPECT_TRUE(tested.set(seen, header::is_last, header::is_free));
    EXPECT_EQ(seen & 7, 0u) << "`seen` is the value before the change";
    seen = 0;  // a stale view
    EXPECT_TRUE(tested.set(seen, header::is_free, header::is_free));
    EXPECT_EQ(seen & 7, header::is_last);
    seen = tested.load();
    EXPECT_FALSE(tested.set(seen, header::is_free, header::is_free)) << "a double free";
    EXPECT_FALSE(tested.set(seen, header::is_last, header::is_free));
    EXPECT_EQ(tested.load() & 7, header::is_last | header::is_free);
    EXPECT_EQ(tested.distance(tested.load()), 18u);
  }
}

TEST(SegmentHeader, TheFirstHeaderGivesTheBaseOfItsSuperblock) {
  for (std::size_t const offset : {8u, 16u, 4u, 2u}) {
    payload_at const payload{offset};
    EXPECT_EQ(header{payload.address}.base(), payload.memory.data());
    header::mark_base(payload.address - offset);
    header{payload.address}.write(header::is_superblock, 0, 12);
    EXPECT_TRUE(header::begins_at(payload.address - offset)) << "offset " << offset;
  }
}

TEST(SegmentHeader, DiffersFromTheAddressOfAStaticSuperblock) {
  payload_at const payload{32};
  header{payload.address}.write(0, 0, 0);
  EXPECT_NE(reinterpret_cast<std::uint64_t*>(payload.address)[-1] % 16, 0u);
}

/// Lanes set both flags of one header at once. One lane makes each change, and no change is lost.
struct set_flags {
  char* payload;
  std::uint32_t* freed;
  std::uint32_t* moved;

  QUARRY_HD void operator()() const {
    segment_header const tested{payload};
    std::uint64_t seen = tested.load();
    if (simt::this_place().thread % 2 == 0) {
      if (tested.set(seen, segment_header::is_free, segment_header::is_free))
        simt::atomic_ref<std::uint32_t>{*freed}.fetch_add(1, simt::relaxed);
    } else if (tested.set(seen, segment_header::is_last,
                          segment_header::is_last | segment_header::is_free)) {
      simt::atomic_ref<std::uint32_t>{*moved}.fetch_add(1, simt::relaxed);
    }
  }
};

template <class Backend>
struct SegmentHeaderOn : testing::Test {};
TYPED_TEST_SUITE(SegmentHeaderOn, backends, backend_names);

TYPED_TEST(SegmentHeaderOn, OneOfTheLanesThatSetAFlagAtOnceSucceeds) {
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

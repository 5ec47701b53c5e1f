// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/slice_claim.hpp"

#include "support/state_of.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quarry {
namespace {

constexpr std::uint32_t size = 640;
constexpr std::uint32_t some_tries = 8;

/// A heap of which every slice of `size` bytes is handed out.
struct full_heap {
  explicit full_heap(std::uint32_t segments) : owner{test::small_heap(segments)} {
    bytes const wanted = size - hardening::padded(0);
    for (void* one = owner.ref().malloc(wanted); one != nullptr; one = owner.ref().malloc(wanted)) {
      memory.push_back(one);
    }
  }

  slice_grant claim(std::uint32_t count) {
    return slice_claim::claim_returned(state, id, count, some_tries);
  }
  void release(word slices, std::uint32_t segment, std::uint32_t index) {
    EXPECT_EQ(slice_return::release(state, id, state.shapes[id].slices, segment, index, slices),
              0u);
  }
  ~full_heap() {
    for (auto const& problem : owner.audit()) ADD_FAILURE() << problem;
  }
  full_heap(full_heap const&) = delete;
  full_heap& operator=(full_heap const&) = delete;

  heap owner;
  heap_state& state = test::state_of(owner);
  size_class id = size_class_of(size);
  std::vector<void*> memory;
};

TEST(SliceClaim, FindsNothingIfNothingCameBack) {
  full_heap a{2};
  EXPECT_EQ(a.claim(1).from, slice_grant::source::nothing);
  EXPECT_TRUE(a.state.class_tree(a.id).empty());
}

TEST(SliceClaim, TakesNoMoreOfAWordThanItIsAskedFor) {
  full_heap a{1};
  a.release(0b10110, 0, 1);
  auto const grant = a.claim(2);
  EXPECT_EQ(grant.from, slice_grant::source::bits);
  EXPECT_EQ(grant.segment, 0u);
  EXPECT_EQ(grant.index, 1u);
  EXPECT_EQ(grant.value, 0b00110u);
  EXPECT_EQ(a.claim(2).value, 0b10000u) << "what is left";
  EXPECT_EQ(a.claim(2).from, slice_grant::source::nothing);
}

TEST(SliceClaim, FindsASliceInAnySegment) {
  full_heap a{4};
  for (std::uint32_t segment = 0; segment < 4; ++segment) {
    a.release(1, segment, 0);
    auto const grant = a.claim(32);
    EXPECT_EQ(grant.segment, segment);
    EXPECT_EQ(grant.value, 1u);
  }
}

TEST(SliceClaim, TakesFromAWordThatCameBackWhole) {
  full_heap a{1};
  a.release(~word{0}, 0, 0);
  EXPECT_EQ(a.claim(32).value, low_bits(32));
  EXPECT_EQ(a.claim(32).value, ~low_bits(32));
  EXPECT_EQ(a.claim(32).from, slice_grant::source::nothing);
}

TEST(SliceClaim, WithdrawsWhatItFoundEmpty) {
  full_heap a{1};
  a.release(1, 0, 0);
  (void)a.claim(1);
  EXPECT_TRUE(a.state.class_tree(a.id).contains(0)) << "it does not look twice";
  (void)a.claim(1);
  EXPECT_FALSE(a.state.class_tree(a.id).contains(0));
  EXPECT_EQ(a.state.advertised_at(0, 0).load(simt::relaxed), 0u);
  EXPECT_FALSE(a.state.segments[0].has_visitors());
}

}  // namespace
}  // namespace quarry

// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/owned_fitting.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace owned_fitting_test {

using sizes = fitting<segregated_fit>::sizes;
constexpr std::uint64_t region = 1 << 20;

TEST(OwnedFitting, KeepsWhatAnOwnerGaveBackForIt) {
  owned_fitting all;
  auto const one = *all.add_owner();
  auto const other = *all.add_owner();
  all.reserve();
  auto const base = all.allocate_in(one, {region, 1024}, {1024, 1024});
  EXPECT_EQ(all.deallocate(one, base).requested, 1024u);
  EXPECT_EQ(all.allocate(other, {1024, 1024}), 0u);
  EXPECT_EQ(all.allocate(0, {1024, 1024}), 0u);
  EXPECT_EQ(all.allocate(one, {1024, 1024}), base);
  EXPECT_TRUE(all.audit().empty());
}

TEST(OwnedFitting, MergesNeighboursOfOneOwnerOnly) {
  owned_fitting all;
  auto const one = *all.add_owner();
  auto const other = *all.add_owner();
  all.reserve();
  auto const first = all.allocate_in(0, {region, 1024}, {512, 512});
  auto const second = all.allocate(0, {512, 512});
  ASSERT_EQ(second, first + 512);
  all.deallocate(one, first);
  all.deallocate(other, second);
  for (auto const each : {one, other}) {
    all.cover(each);
    all.merge_cached(each);
  }
  EXPECT_TRUE(all.audit().empty());
  EXPECT_EQ(all.allocate(one, {1024, 1024}), 0u);
  all.share(one);
  all.share(other);
  EXPECT_TRUE(all.audit().empty());
  EXPECT_FALSE(all.has_any(one));
  EXPECT_EQ(all.allocate(0, {1024, 1024}), first);
}

TEST(OwnedFitting, SharesOnlyWhatWasCovered) {
  owned_fitting all;
  auto const one = *all.add_owner();
  all.reserve();
  auto const first = all.allocate_in(one, {region, 1024}, {512, 512});
  auto const second = all.allocate(one, {512, 512});
  all.deallocate(one, first);
  all.cover(one);
  all.deallocate(one, second);
  all.share(one);
  EXPECT_EQ(all.allocate(0, {512, 512}), first);
  EXPECT_EQ(all.allocate(0, {512, 512}), 0u);
  EXPECT_TRUE(all.has_recent(one));
  EXPECT_EQ(all.allocate(one, {512, 512}), second);
  EXPECT_FALSE(all.has_any(one));
  EXPECT_TRUE(all.audit().empty());
}

TEST(OwnedFitting, RefusesWhatIsNotInUse) {
  owned_fitting all;
  auto const one = *all.add_owner();
  all.reserve();
  auto const base = all.allocate_in(one, {region, 1024}, {100, 112});
  EXPECT_FALSE(all.deallocate(one, base + 16));
  EXPECT_TRUE(all.deallocate(one, base));
  EXPECT_FALSE(all.deallocate(one, base));
  EXPECT_TRUE(all.audit().empty());
}

/// Chunks in use never overlap; what an owner gets was its own or common.
TEST(OwnedFitting, AgreesWithAMapOfBytesAndOwners) {
  for (std::uint32_t seed = 1; seed <= 8; ++seed) {
    std::mt19937 random{seed};
    owned_fitting all;
    for (int i = 0; i < 3; ++i) (void)all.add_owner();
    constexpr bytes units = 1 << 12;  // of 16 bytes
    std::vector<std::uint32_t> owner_of(units, 0);
    std::vector<bool> used(units, false);
    std::map<std::uint64_t, bytes> allocated;
    all.reserve();
    allocated[all.allocate_in(0, {region, units * 16}, {16, 16})] = 16;
    used[0] = true;
    for (int step = 0; step < 4000; ++step) {
      auto const whose = static_cast<std::uint32_t>(1 + random() % 3);
      if (random() % 50 == 0) {
        all.cover(whose);
        all.share(whose);
        for (auto& owner : owner_of) owner = owner == whose ? 0 : owner;
      } else if (random() % 2 == 0 && !allocated.empty()) {
        auto const freed =
            std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
        auto const was = all.deallocate(whose, freed->first);
        ASSERT_TRUE(was);
        for (bytes i = 0; i < was.granted / 16; ++i) {
          used[(freed->first - region) / 16 + i] = false;
          owner_of[(freed->first - region) / 16 + i] = whose;
        }
        allocated.erase(freed);
      } else {
        bytes const size = 16 * (1 + random() % 60);
        std::uint32_t const source = random() % 2 == 0 ? whose : 0;
        if (random() % 8 == 0) all.cover(source);
        if (random() % 4 == 0) all.merge_cached(source);
        std::uint64_t const base = all.allocate(source, {size, size});
        if (base == 0) continue;
        bytes const room = all.size_of(base)->granted;
        for (bytes i = 0; i < room / 16; ++i) {
          ASSERT_FALSE(used[(base - region) / 16 + i]) << "seed " << seed << " step " << step;
          ASSERT_EQ(owner_of[(base - region) / 16 + i], source)
              << "seed " << seed << " step " << step;
          used[(base - region) / 16 + i] = true;
        }
        allocated[base] = room;
      }
      if (step % 20 == 0) {
        ASSERT_TRUE(all.audit().empty()) << all.audit()[0];
      }
    }
  }
}

}  // namespace owned_fitting_test
}  // namespace quarry::test

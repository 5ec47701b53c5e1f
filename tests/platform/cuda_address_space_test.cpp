// SPDX-License-Identifier: Apache-2.0
// Runs over a fake driver that only records calls. The driver can fail at each call, and needs no
// GPU.
#include "platform/cuda_address_space.hpp"

#include "quarry/core/errors.hpp"

#include "support/fake_cuda.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>

namespace quarry::test {

using namespace detail;
namespace cuda_address_space_test {

constexpr bytes page = fake_cuda::granularity;

class CudaAddressSpace : public testing::Test {
 protected:
  CudaAddressSpace() { gpu = fake_cuda{}; }
  ~CudaAddressSpace() override {
    EXPECT_EQ(gpu.mistakes, 0);
    EXPECT_EQ(gpu.device, 0) << "the current device has changed";
  }

  fake_cuda& gpu = fake_cuda::instance();
  cuda_address_space space{"test", 1};
};

TEST_F(CudaAddressSpace, MapsMemoryInPartsAndUnmapsWholeParts) {
  auto const base = space.reserve(16 * page, 8 * page);
  EXPECT_EQ(base % (8 * page), 0u);
  space.map(base, 5 * page, 2 * page);
  EXPECT_EQ(gpu.mappings.size(), 3u);
  EXPECT_EQ(gpu.mappings.at(base + 4 * page).size, page);
  for (auto const& entry : gpu.mappings) EXPECT_EQ(entry.second.devices, std::set{1});

  EXPECT_EQ(space.next_part(base + page, base + 5 * page), base + 2 * page);
  EXPECT_EQ(space.next_part(base + page, base + page + 1), base + page + 1);
  EXPECT_EQ(space.next_part(base + 5 * page, base + 9 * page), base + 9 * page);
  space.unmap(base + page, 16 * page);
  EXPECT_EQ(gpu.mappings.size(), 1u) << "a part that begins before the address stays mapped";
  space.unmap(base, page);
  EXPECT_TRUE(gpu.mappings.empty());
  EXPECT_TRUE(gpu.handles.empty());
  space.release(base, 16 * page);
  EXPECT_TRUE(gpu.ranges.empty());
}

TEST_F(CudaAddressSpace, LetsPeersUseMappedAndMovedMemory) {
  gpu.devices = 4;  // the fourth one gets nothing
  cuda_address_space shared{"test", 1, {2, 1, 0, 2}};
  auto const base = shared.reserve(16 * page, page);
  shared.map(base, 2 * page, page);
  EXPECT_EQ(gpu.mappings.size(), 2u);
  for (auto const& entry : gpu.mappings) EXPECT_EQ(entry.second.devices, (std::set{0, 1, 2}));
  shared.move(base, base + 8 * page, 2 * page);
  for (auto const& entry : gpu.mappings) EXPECT_EQ(entry.second.devices, (std::set{0, 1, 2}));
  shared.unmap(base + 8 * page, 2 * page);
  shared.release(base, 16 * page);
}

TEST_F(CudaAddressSpace, RefusesPeersThatCannotUseTheMemoryAndNamesThem) {
  gpu.devices = 3;
  gpu.apart = {{2, 1}};
  auto const refusal = [](std::vector<int> const& peers) -> std::string {
    try {
      cuda_address_space const shared{"test", 1, peers};
    } catch (bad_argument const& refused) {
      return refused.message();
    }
    return "";
  };
  EXPECT_EQ(refusal({0, 2}),
            "test: device 2 cannot use the memory of device 1; CUDA does not make them peers");
  EXPECT_EQ(refusal({0, 3}), "test: there is no device 3; the machine has 3, numbered from 0");
  EXPECT_EQ(refusal({-1}), "test: there is no device -1; the machine has 3, numbered from 0");
  EXPECT_EQ(refusal({0}), "");
}

TEST_F(CudaAddressSpace, MovesPartsWithTheirMemory) {
  auto const base = space.reserve(16 * page, page);
  space.map(base, 3 * page, page);
  auto const old_mappings = gpu.mappings;
  space.move(base, base + 8 * page, 3 * page);
  for (bytes i = 0; i < 3; ++i)
    EXPECT_EQ(gpu.mappings.at(base + (8 + i) * page), old_mappings.at(base + i * page));
  space.map(base, page, page);
  space.unmap(base, page);
  space.unmap(base + 8 * page, 3 * page);
  EXPECT_TRUE(gpu.handles.empty());
}

TEST_F(CudaAddressSpace, RefusesAMissingDeviceAndNamesIt) {
  try {
    cuda_address_space const space_of_missing_device{"test", 2};
    FAIL() << "the constructor did not throw";
  } catch (bad_argument const& refused) {
    EXPECT_EQ(refused.message(), "test: there is no device 2; the machine has 2, numbered from 0");
  }
}

TEST_F(CudaAddressSpace, NamesTheFailedCallAndSuggestsAFix) {
  gpu.calls_that_work = 0;
  try {
    (void)space.reserve(page, page);
    FAIL() << "reserve did not throw";
  } catch (out_of_memory const& refused) {
    EXPECT_EQ(refused.resource(), "test");
    EXPECT_EQ(refused.requested(), page);
    EXPECT_NE(refused.message().find("cuMemAddressReserve: out of memory"), std::string::npos);
    EXPECT_NE(refused.message().find("; free memory"), std::string::npos) << refused.message();
  }
  gpu.failure = CUDA_ERROR_UNKNOWN;
  EXPECT_THROW((void)space.reserve(page, page), resource_failed);
}

TEST_F(CudaAddressSpace, ChangesNothingWhenADriverCallFails) {
  auto const base = space.reserve(32 * page, page);
  space.map(base, 4 * page, page);
  auto const mappings = gpu.mappings;
  auto const handles = gpu.handles;
  for (CUresult const failure : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
    gpu.failure = failure;
    for (int calls = 0; calls < 9; ++calls) {  // 4 × cuMemCreate and cuMemMap, cuMemSetAccess
      gpu.calls_that_work = calls;
      EXPECT_THROW(space.map(base + 8 * page, 8 * page, 2 * page), error) << calls;
      EXPECT_EQ(gpu.mappings, mappings) << calls;
      EXPECT_EQ(gpu.handles, handles) << calls;
    }
    for (int calls = 0; calls < 5; ++calls) {  // 4 × cuMemMap, cuMemSetAccess
      gpu.calls_that_work = calls;
      EXPECT_THROW(space.move(base, base + 8 * page, 4 * page), error) << calls;
      EXPECT_EQ(gpu.mappings, mappings) << calls;
    }
  }
  gpu.calls_that_work = -1;
  space.move(base, base + 8 * page, 4 * page);
  space.unmap(base, 32 * page);
  EXPECT_TRUE(gpu.handles.empty());
}

TEST_F(CudaAddressSpace, AgreesWithASetOfPages) {
  char const* const first_seed = std::getenv("QUARRY_TEST_FIRST_SEED");
  unsigned const seed = first_seed == nullptr ? 1 : static_cast<unsigned>(std::atoi(first_seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  constexpr bytes count = 64;
  auto const base = space.reserve(count * page, page);
  std::set<bytes> model;
  for (int step = 0; step < 3000; ++step) {
    bytes const first = random() % count, pages = 1 + random() % (count - first);
    bytes const target = random() % (count - pages + 1);
    auto const all_pages_are = [&](bytes start, bool wanted) {
      for (bytes i = 0; i < pages; ++i)
        if (model.contains(start + i) != wanted) return false;
      return true;
    };
    gpu.calls_that_work = random() % 2 == 0 ? -1 : static_cast<int>(random() % 20);
    try {
      if (all_pages_are(first, false)) {
        space.map(base + first * page, pages * page, page);
        for (bytes i = 0; i < pages; ++i) model.insert(first + i);
      } else if (all_pages_are(first, true) && all_pages_are(target, false)) {
        space.move(base + first * page, base + target * page, pages * page);
        for (bytes i = 0; i < pages; ++i) {
          model.erase(first + i);
          model.insert(target + i);
        }
      } else if (all_pages_are(first, true)) {
        space.unmap(base + first * page, pages * page);
        for (bytes i = 0; i < pages; ++i) model.erase(first + i);
      }
    } catch (out_of_memory const&) {
    }
    ASSERT_EQ(gpu.mappings.size(), model.size());
    ASSERT_EQ(gpu.handles.size(), model.size());
    for (bytes const index : model)
      ASSERT_EQ(gpu.mappings.at(base + index * page).devices, std::set{1});
  }
}

}  // namespace cuda_address_space_test
}  // namespace quarry::test

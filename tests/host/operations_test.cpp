// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/operations.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/file_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/numa_resource.hpp"

#include <gtest/gtest.h>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

namespace quarry::test {
namespace operations_test {

using namespace quarry::literals;

template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (error const& failure) {
    return failure.message();
  }
  return {};
}

struct Operations : testing::Test {
  pool<host_resource> host{host_resource{}, {.first_block = 1_MiB, .name = "host pool"}};
  pool<file_resource> file{file_resource{testing::TempDir()},
                           {.first_block = 1_MiB, .name = "file pool"}};
};

TEST_F(Operations, CopyAndFillAnyPartOfAnyAllocation) {
  auto* const one = static_cast<unsigned char*>(host.allocate(1000));
  auto* const other = static_cast<unsigned char*>(file.allocate(1000));
  operations::fill(one, 7, 1000);
  operations::fill(one + 100, 9, 10);
  operations::copy(other + 5, one + 95, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(other[5 + i], i >= 5 && i < 15 ? 9 : 7);
  operations::copy(nullptr, nullptr, 0);
}

TEST_F(Operations, CopyWhatOverlaps) {
  auto* const one = static_cast<unsigned char*>(host.allocate(100));
  std::iota(one, one + 100, static_cast<unsigned char>(0));
  operations::copy(one + 10, one, 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(one[10 + i], i);
}

TEST_F(Operations, RefuseWhatGoesBeyondAnAllocationAndSayWhich) {
  void* const one = host.allocate(100, "density");
  void* const other = host.allocate(200);
  std::string const why =
      refusal_of([&] { operations::copy(static_cast<char*>(one) + 50, other, 60); });
  EXPECT_NE(why.find("60 bytes to"), std::string::npos) << why;
  EXPECT_NE(why.find("10 more than are left of the allocation of 100 bytes"), std::string::npos)
      << why;
  EXPECT_NE(why.find("host pool named density"), std::string::npos) << why;
  EXPECT_THROW(operations::copy(other, one, 101), bad_argument);
  EXPECT_THROW(operations::fill(one, 0, 101), bad_argument);
  EXPECT_THROW(operations::advise(one, 101, memory_advice::is_random), bad_argument);
  EXPECT_THROW(operations::prefetch(one, 101, {}), bad_argument);
}

TEST_F(Operations, RefuseMemoryThatNobodyKnowsUntilItIsAdopted) {
  alignas(16) unsigned char own[64] = {};
  void* const one = host.allocate(64);
  operations::fill(one, 3, 64);
  EXPECT_NE(refusal_of([&] { operations::copy(own, one, 64); }).find("adopted_memory"),
            std::string::npos);
  {
    adopted_memory const known{own, 60, {}, "mine"};
    operations::copy(own, one, 60);
    EXPECT_EQ(own[59], 3);
    EXPECT_THROW(operations::copy(own, one, 61), bad_argument);
    EXPECT_THROW((adopted_memory{own, 60}), bad_argument);
  }
  EXPECT_FALSE(registry::find(own));
  EXPECT_THROW((adopted_memory{own + 1, 10}), bad_argument);
  EXPECT_THROW((adopted_memory{one, 10}), bad_argument);
}

TEST_F(Operations, ReallocateKeepsWhatWasThere) {
  auto* one = static_cast<unsigned char*>(operations::reallocate(host, nullptr, 10));
  std::memset(one, 5, 10);
  one = static_cast<unsigned char*>(operations::reallocate(host, one, 5000));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(one[i], 5);
  one = static_cast<unsigned char*>(operations::reallocate(host, one, 3));
  EXPECT_EQ(host.size_of(one), 3u);
  EXPECT_EQ(one[2], 5);
  EXPECT_THROW((void)operations::reallocate(host, one + 16, 3), bad_argument);
  EXPECT_EQ(host.counts().chunks_allocated, 1u);
}

TEST_F(Operations, ThatFindNoMemoryLeaveAllAsItWas) {
  pool<limited_resource<host_resource>> small{
      limited_resource<host_resource>{host_resource{}, 1_MiB}, {.first_block = 1_MiB}};
  auto* const one = static_cast<unsigned char*>(small.allocate(700_KiB));
  std::memset(one, 5, 700_KiB);
  EXPECT_THROW((void)operations::reallocate(small, one, 800_KiB), out_of_memory);
  EXPECT_EQ(small.size_of(one), 700_KiB);
  void* const other = host.allocate(1_MiB);
  EXPECT_THROW((void)operations::move(host, other, small), out_of_memory);
  EXPECT_EQ(host.size_of(other), 1_MiB);
  EXPECT_EQ(one[700_KiB - 1], 5);
}

TEST_F(Operations, MoveFromOnePoolToAnother) {
  auto* const one = static_cast<unsigned char*>(host.allocate(100));
  std::memset(one, 5, 100);
  auto* const moved = static_cast<unsigned char*>(operations::move(host, one, file));
  EXPECT_EQ(registry::find(moved)->location.kind, memory_kind::file);
  EXPECT_EQ(moved[99], 5);
  EXPECT_FALSE(host.size_of(one));
  EXPECT_THROW((void)operations::move(host, one, file), bad_argument);
}

TEST_F(Operations, AdviseWhatTheSystemTakesAdviceFor) {
  void* const one = file.allocate(100'000);
  for (auto const what :
       {memory_advice::will_be_used, memory_advice::is_sequential, memory_advice::is_random})
    EXPECT_NO_THROW(operations::advise(one, 100'000, what));
  EXPECT_NO_THROW(operations::prefetch(one, 100'000, {}));
  EXPECT_THROW(operations::advise(one, 100, memory_advice::read_mostly), bad_argument);
}

/// The kernel's flags of the mapping that has an address: "rr" read at random, "sr" sequentially.
std::string flags_of(void const* address) {
  std::ifstream maps{"/proc/self/smaps"};
  auto const wanted = reinterpret_cast<std::uint64_t>(address);
  bool is_it = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long base = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &base, &end) == 2)
      is_it = wanted >= base && wanted < end;
    if (is_it && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST_F(Operations, TakeAdviceBack) {
  auto* const one = static_cast<char*>(file.allocate(100'000));
  auto* const inside = one + 50'000;
  if (flags_of(inside).empty()) GTEST_SKIP() << "/proc/self/smaps has no flags";
  for (auto const& [advice, flag] :
       {std::pair{memory_advice::is_random, " rr"}, {memory_advice::is_sequential, " sr"}}) {
    operations::advise(one, 100'000, advice);
    EXPECT_NE(flags_of(inside).find(flag), std::string::npos) << flags_of(inside);
    operations::advise(one, 100'000, memory_advice::is_normal);
    EXPECT_EQ(flags_of(inside).find(flag), std::string::npos) << flags_of(inside);
  }
  for (auto const what : {memory_advice::not_read_mostly, memory_advice::no_preferred_place,
                          memory_advice::not_accessed_by})
    EXPECT_THROW(operations::advise(one, 100, what), bad_argument) << "the driver's";
}

/// The kernel's policy for new pages at an address; -1 if it does not say.
int policy_at(void const* memory) {
  int policy = -1;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0ul, memory, MPOL_F_ADDR) != 0) return -1;
  return policy;
}

TEST_F(Operations, MoveToANodeInPlace) {
  auto* const one = static_cast<unsigned char*>(host.allocate(100'000));
  auto* const other = static_cast<unsigned char*>(host.allocate(10));
  auto* const untouched = static_cast<unsigned char*>(host.allocate(10'000'000));
  std::iota(one, one + 100'000, static_cast<unsigned char>(0));
  int const before = policy_at(one);
  EXPECT_NE(before, MPOL_BIND);
  try {
    operations::move_to_node(one, 100'000, 0);
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.message();
  }
  operations::move_to_node(untouched, 10'000'000, 0);
  for (void const* each : {one, one + 99'999, untouched, untouched + 9'999'999})
    EXPECT_EQ(policy_at(each), before) << "pages were moved, and nothing else is changed";
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(one[i], static_cast<unsigned char>(i));
  EXPECT_EQ(numa_node_of(one), 0u);
  EXPECT_EQ(numa_node_of(one + 99'999), 0u);
  EXPECT_EQ(host.size_of(one), 100'000u);
  operations::move_to_node(other, 10, 0);
  operations::move_to_node(one + 7, 1, 0);
  operations::move_to_node(nullptr, 0, 0);
}

TEST_F(Operations, RefuseToMoveToANodeWhatHasNone) {
  void* const one = host.allocate(100);
  void* const other = file.allocate(100);
  EXPECT_NE(refusal_of([&] { operations::move_to_node(one, 100, 1023); }).find("no NUMA node 1023"),
            std::string::npos);
  EXPECT_NE(
      refusal_of([&] { operations::move_to_node(nullptr, 0, 5000); }).find("no NUMA node 5000"),
      std::string::npos);
  EXPECT_NE(refusal_of([&] { operations::move_to_node(other, 100, 0); }).find("kind file"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] { operations::move_to_node(one, 101, 0); }).find("1 more than are left"),
            std::string::npos);
  int own = 0;
  EXPECT_THROW(operations::move_to_node(&own, 4, 0), bad_argument);
  EXPECT_THROW((void)numa_node_of(nullptr), resource_failed);
}

/// Copies and fills at random, against arrays.
TEST_F(Operations, AgreeWithArrays) {
  std::mt19937 random{5};
  struct one {
    unsigned char* memory;
    std::vector<unsigned char> model;
  };
  std::vector<one> all;
  for (bytes size = 1; size < 5000; size = size * 3 + 1) {
    all.push_back(
        {static_cast<unsigned char*>(size % 2 == 0 ? host.allocate(size) : file.allocate(size)),
         std::vector<unsigned char>(size)});
    operations::fill(all.back().memory, 0, size);
  }
  for (int step = 0; step < 3000; ++step) {
    auto& to = all[random() % all.size()];
    auto const& source = all[random() % all.size()];
    bytes const at = random() % to.model.size();
    bytes const start = random() % source.model.size();
    bytes const size = random() % (std::min(to.model.size() - at, source.model.size() - start) + 1);
    if (random() % 2 == 0) {
      operations::copy(to.memory + at, source.memory + start, size);
      std::memmove(to.model.data() + at, source.model.data() + start, size);
    } else {
      operations::fill(to.memory + at, static_cast<unsigned char>(step), size);
      std::memset(to.model.data() + at, static_cast<unsigned char>(step), size);
    }
  }
  for (auto const& each : all)
    EXPECT_EQ(std::memcmp(each.memory, each.model.data(), each.model.size()), 0);
}

}  // namespace operations_test
}  // namespace quarry::test

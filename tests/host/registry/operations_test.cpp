// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/operations.hpp"

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
  auto* const first = static_cast<unsigned char*>(host.allocate(1000));
  auto* const second = static_cast<unsigned char*>(file.allocate(1000));
  operations::fill(first, 7, 1000);
  operations::fill(first + 100, 9, 10);
  operations::copy(second + 5, first + 95, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(second[5 + i], i >= 5 && i < 15 ? 9 : 7);
  operations::copy(nullptr, nullptr, 0);
}

TEST_F(Operations, CopyOverlappingRanges) {
  auto* const memory = static_cast<unsigned char*>(host.allocate(100));
  std::iota(memory, memory + 100, static_cast<unsigned char>(0));
  operations::copy(memory + 10, memory, 50);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(memory[10 + i], i);
}

TEST_F(Operations, RefuseRangesBeyondAnAllocationAndNameTheAllocation) {
  void* const first = host.allocate(100, "density");
  void* const second = host.allocate(200);
  std::string const message =
      refusal_of([&] { operations::copy(static_cast<char*>(first) + 50, second, 60); });
  EXPECT_NE(message.find("60 bytes to"), std::string::npos) << message;
  EXPECT_NE(message.find("10 more than are left of the allocation of 100 bytes"), std::string::npos)
      << message;
  EXPECT_NE(message.find("host pool named density"), std::string::npos) << message;
  EXPECT_THROW(operations::copy(second, first, 101), bad_argument);
  EXPECT_THROW(operations::fill(first, 0, 101), bad_argument);
  EXPECT_THROW(operations::advise(first, 101, memory_advice::is_random), bad_argument);
  EXPECT_THROW(operations::prefetch(first, 101, {}), bad_argument);
}

TEST_F(Operations, RefuseUnknownMemoryUntilItIsAdopted) {
  alignas(16) unsigned char local[64] = {};
  void* const memory = host.allocate(64);
  operations::fill(memory, 3, 64);
  EXPECT_NE(refusal_of([&] { operations::copy(local, memory, 64); }).find("adopted_memory"),
            std::string::npos);
  {
    adopted_memory const known{local, 60, {}, "mine"};
    operations::copy(local, memory, 60);
    EXPECT_EQ(local[59], 3);
    EXPECT_THROW(operations::copy(local, memory, 61), bad_argument);
    EXPECT_THROW((adopted_memory{local, 60}), bad_argument);
  }
  EXPECT_FALSE(registry::find(local));
  EXPECT_THROW((adopted_memory{local + 1, 10}), bad_argument);
  EXPECT_THROW((adopted_memory{memory, 10}), bad_argument);
}

TEST_F(Operations, ReallocateKeepsTheContents) {
  auto* memory = static_cast<unsigned char*>(operations::reallocate(host, nullptr, 10));
  std::memset(memory, 5, 10);
  memory = static_cast<unsigned char*>(operations::reallocate(host, memory, 5000));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(memory[i], 5);
  memory = static_cast<unsigned char*>(operations::reallocate(host, memory, 3));
  EXPECT_EQ(host.size_of(memory), 3u);
  EXPECT_EQ(memory[2], 5);
  EXPECT_THROW((void)operations::reallocate(host, memory + 16, 3), bad_argument);
  EXPECT_EQ(host.counts().allocations_in_use, 1u);
}

TEST_F(Operations, ChangeNothingWhenMemoryRunsOut) {
  pool<limited_resource<host_resource>> small{
      limited_resource<host_resource>{host_resource{}, 1_MiB}, {.first_block = 1_MiB}};
  auto* const first = static_cast<unsigned char*>(small.allocate(700_KiB));
  std::memset(first, 5, 700_KiB);
  EXPECT_THROW((void)operations::reallocate(small, first, 800_KiB), out_of_memory);
  EXPECT_EQ(small.size_of(first), 700_KiB);
  void* const second = host.allocate(1_MiB);
  EXPECT_THROW((void)operations::move(host, second, small), out_of_memory);
  EXPECT_EQ(host.size_of(second), 1_MiB);
  EXPECT_EQ(first[700_KiB - 1], 5);
}

TEST_F(Operations, MoveFromOnePoolToAnother) {
  auto* const memory = static_cast<unsigned char*>(host.allocate(100));
  std::memset(memory, 5, 100);
  auto* const moved = static_cast<unsigned char*>(operations::move(host, memory, file));
  EXPECT_EQ(registry::find(moved)->location.kind, memory_kind::file);
  EXPECT_EQ(moved[99], 5);
  EXPECT_FALSE(host.size_of(memory));
  EXPECT_THROW((void)operations::move(host, memory, file), bad_argument);
}

TEST_F(Operations, PassAdviceToTheSystem) {
  void* const memory = file.allocate(100'000);
  for (auto const advice :
       {memory_advice::will_be_used, memory_advice::is_sequential, memory_advice::is_random})
    EXPECT_NO_THROW(operations::advise(memory, 100'000, advice));
  EXPECT_NO_THROW(operations::prefetch(memory, 100'000, {}));
  EXPECT_THROW(operations::advise(memory, 100, memory_advice::read_mostly), bad_argument);
}

/// Returns the kernel's flags of the mapping at `address`: "rr" for random reads, "sr" for
/// sequential reads.
std::string flags_of(void const* address) {
  std::ifstream maps{"/proc/self/smaps"};
  auto const wanted = reinterpret_cast<std::uint64_t>(address);
  bool is_wanted = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long base = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &base, &end) == 2)
      is_wanted = wanted >= base && wanted < end;
    if (is_wanted && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

TEST_F(Operations, CancelAdvice) {
  auto* const memory = static_cast<char*>(file.allocate(100'000));
  auto* const interior = memory + 50'000;
  if (flags_of(interior).empty()) GTEST_SKIP() << "/proc/self/smaps has no flags";
  for (auto const& [advice, flag] :
       {std::pair{memory_advice::is_random, " rr"}, {memory_advice::is_sequential, " sr"}}) {
    operations::advise(memory, 100'000, advice);
    EXPECT_NE(flags_of(interior).find(flag), std::string::npos) << flags_of(interior);
    operations::advise(memory, 100'000, memory_advice::is_normal);
    EXPECT_EQ(flags_of(interior).find(flag), std::string::npos) << flags_of(interior);
  }
  for (auto const advice : {memory_advice::not_read_mostly, memory_advice::no_preferred_place,
                            memory_advice::not_accessed_by})
    EXPECT_THROW(operations::advise(memory, 100, advice), bad_argument)
        << "only the driver takes such advice";
}

/// Returns the kernel's policy for new pages at `memory`, or -1 if the kernel does not report it.
int policy_at(void const* memory) {
  int policy = -1;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0ul, memory, MPOL_F_ADDR) != 0) return -1;
  return policy;
}

TEST_F(Operations, MoveToANodeInPlace) {
  auto* const first = static_cast<unsigned char*>(host.allocate(100'000));
  auto* const second = static_cast<unsigned char*>(host.allocate(10));
  auto* const untouched = static_cast<unsigned char*>(host.allocate(10'000'000));
  std::iota(first, first + 100'000, static_cast<unsigned char>(0));
  int const initial_policy = policy_at(first);
  EXPECT_NE(initial_policy, MPOL_BIND);
  try {
    operations::move_to_node(first, 100'000, 0);
  } catch (resource_failed const& failure) {
    GTEST_SKIP() << failure.message();
  }
  operations::move_to_node(untouched, 10'000'000, 0);
  for (void const* each : {first, first + 99'999, untouched, untouched + 9'999'999})
    EXPECT_EQ(policy_at(each), initial_policy) << "the call moves pages and changes nothing else";
  for (int i = 0; i < 100'000; ++i) ASSERT_EQ(first[i], static_cast<unsigned char>(i));
  EXPECT_EQ(numa_node_of(first), 0u);
  EXPECT_EQ(numa_node_of(first + 99'999), 0u);
  EXPECT_EQ(host.size_of(first), 100'000u);
  operations::move_to_node(second, 10, 0);
  operations::move_to_node(first + 7, 1, 0);
  operations::move_to_node(nullptr, 0, 0);
}

TEST_F(Operations, RefuseToMoveMemoryOfFilesOrToUnknownNodes) {
  void* const first = host.allocate(100);
  void* const second = file.allocate(100);
  EXPECT_NE(
      refusal_of([&] { operations::move_to_node(first, 100, 1023); }).find("no NUMA node 1023"),
      std::string::npos);
  EXPECT_NE(
      refusal_of([&] { operations::move_to_node(nullptr, 0, 5000); }).find("no NUMA node 5000"),
      std::string::npos);
  EXPECT_NE(refusal_of([&] { operations::move_to_node(second, 100, 0); }).find("kind file"),
            std::string::npos);
  EXPECT_NE(
      refusal_of([&] { operations::move_to_node(first, 101, 0); }).find("1 more than are left"),
      std::string::npos);
  int local = 0;
  EXPECT_THROW(operations::move_to_node(&local, 4, 0), bad_argument);
  EXPECT_THROW((void)numa_node_of(nullptr), resource_failed);
}

/// Makes random copies and fills and compares the memory with arrays.
TEST_F(Operations, AgreeWithArrays) {
  std::mt19937 random{5};
  struct allocation {
    unsigned char* memory;
    std::vector<unsigned char> model;
  };
  std::vector<allocation> all;
  for (bytes size = 1; size < 5000; size = size * 3 + 1) {
    all.push_back(
        {static_cast<unsigned char*>(size % 2 == 0 ? host.allocate(size) : file.allocate(size)),
         std::vector<unsigned char>(size)});
    operations::fill(all.back().memory, 0, size);
  }
  for (int step = 0; step < 3000; ++step) {
    auto& target = all[random() % all.size()];
    auto const& source = all[random() % all.size()];
    bytes const at = random() % target.model.size();
    bytes const start = random() % source.model.size();
    bytes const size =
        random() % (std::min(target.model.size() - at, source.model.size() - start) + 1);
    if (random() % 2 == 0) {
      operations::copy(target.memory + at, source.memory + start, size);
      std::memmove(target.model.data() + at, source.model.data() + start, size);
    } else {
      operations::fill(target.memory + at, static_cast<unsigned char>(step), size);
      std::memset(target.model.data() + at, static_cast<unsigned char>(step), size);
    }
  }
  for (auto const& each : all)
    EXPECT_EQ(std::memcmp(each.memory, each.model.data(), each.model.size()), 0);
}

}  // namespace operations_test
}  // namespace quarry::test

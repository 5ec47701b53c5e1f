// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/shared_resource.hpp"

#include "conformance/resources.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace quarry::test {
namespace shared_resource_test {

/// Returns a name that no other process has.
std::string fresh_name() {
  static int number = 0;
  return "quarry-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

shared_resource make_shared() { return shared_resource{fresh_name(), 8_MiB}; }
using all = testing::Types<alone<&make_shared, true>, pooled<&make_shared, true, fast_fit>>;
bool const is_registered = conforms("SharedResource", all{});

/// Runs `work` in a child process and returns its result, or 128 plus the signal that ended the
/// child.
template <class Work>
int in_a_child(Work work) {
  pid_t const child = fork();
  if (child == 0) _exit(work());
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

TEST(SharedResource, SharesTheMemoryOfANameAmongProcesses) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  auto* const field = static_cast<int*>(source.allocate("field", 4000));
  EXPECT_EQ(field[999], 0);
  field[7] = 42;
  EXPECT_EQ(
      in_a_child([&] {
        shared_resource opened{name, 0};
        auto* const shared_field = static_cast<int*>(opened.find("field"));
        if (shared_field == nullptr || shared_field[7] != 42 || opened.find("other") != nullptr)
          return 1;
        if (opened.allocate("field", 4000) != shared_field) return 2;
        shared_field[8] = 43;
        return opened.offset_of(shared_field) == source.offset_of(field) ? 0 : 3;
      }),
      0);
  EXPECT_EQ(field[8], 43);
  EXPECT_EQ(source.counts().references, 1u);
  EXPECT_EQ(source.at(source.offset_of(field)), field);
  EXPECT_TRUE(source.release(field));
  EXPECT_EQ(source.find("field"), nullptr);
}

TEST(SharedResource, KeepsMemoryUntilItsLastReferenceIsReleased) {
  std::string const name = fresh_name();
  shared_resource first{name, 1_MiB};
  void* const memory = first.allocate("it", 100);
  (void)first.allocate("it", 100);
  EXPECT_TRUE(first.release(memory));
  EXPECT_EQ(first.counts().allocations_in_use, 1u);
  EXPECT_TRUE(first.release(memory));
  EXPECT_FALSE(first.release(memory));
  EXPECT_EQ(first.counts().allocations_in_use, 0u);
}

TEST(SharedResource, IsRemovedWhenTheLastProcessClosesIt) {
  std::string const name = fresh_name();
  {
    shared_resource const segment{name, 1_MiB};
  }
  EXPECT_THROW((shared_resource{name, 0}), bad_argument);
}

TEST(SharedResource, ReclaimsMemoryOfAKilledProcess) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  EXPECT_EQ(in_a_child([&] {
              shared_resource opened{name, 1_MiB};
              (void)opened.allocate(900_KiB, 64);
              (void)opened.allocate("named", 1000);
              raise(SIGKILL);
              return 0;
            }),
            128 + SIGKILL);
  EXPECT_EQ(source.counts().allocations_in_use, 2u);
  EXPECT_NE(source.allocate(900_KiB, 64), nullptr);  // reclaims the killed process's memory
  EXPECT_EQ(source.counts().allocations_in_use, 1u);
  EXPECT_EQ(source.counts().processes, 1u);
}

/// If a process is killed at any moment, the tables stay correct and the lock stays available.
TEST(SharedResource, SurvivesAProcessThatIsKilledAtAnyMoment) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  auto* const kept = static_cast<unsigned char*>(source.allocate("kept", 1000));
  std::memset(kept, 0xa5, 1000);
  std::mt19937 random{1};
  for (int round = 0; round < 30; ++round) {
    pid_t const child = fork();
    if (child == 0) {
      std::mt19937 sizes{static_cast<std::uint32_t>(round)};
      shared_resource opened{name, 0};
      for (;;) {
        std::vector<void*> pointers;
        for (int i = 0; i < 20; ++i) {
          bytes const size = 1 + sizes() % 10'000;
          pointers.push_back(opened.allocate(size, 64));
          std::memset(pointers.back(), 1, size);
        }
        for (void* const each : pointers) opened.release(each);
      }
    }
    usleep(static_cast<useconds_t>(500 + random() % 4000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    source.collect();
    auto const counts = source.counts();
    ASSERT_EQ(counts.allocations_in_use, 1u) << round;
    ASSERT_EQ(counts.references, 1u);
    ASSERT_EQ(counts.processes, 1u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(kept[i], 0xa5);
  }
}

TEST(SharedResource, CountsTwoOpeningsOfOneProcessSeparately) {
  std::string const name = fresh_name();
  shared_resource first{name, 1_MiB};
  void* const memory = first.allocate("it", 100);
  {
    shared_resource second{name, 0};
    EXPECT_NE(second.find("it"), nullptr);
    EXPECT_EQ(first.counts().processes, 2u);
    EXPECT_EQ(first.counts().references, 2u);
  }
  EXPECT_EQ(first.counts().references, 1u);
  EXPECT_NO_THROW((shared_resource{name, 0}));
  EXPECT_TRUE(first.release(memory));
}

/// Processes open and close one name concurrently, and some of them are killed. All processes end,
/// and processes that have the name open together share one memory.
TEST(SharedResource, MayBeOpenedAndClosedByManyProcessesConcurrently) {
  std::string const name = fresh_name();
  std::vector<pid_t> children;
  for (int number = 0; number < 4; ++number) {
    pid_t const child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (int round = 0; round < 100; ++round) {
      shared_resource source{name, 100'000};
      auto* const counter = static_cast<unsigned*>(source.allocate("counter", 64));
      __atomic_fetch_add(counter, 1u, __ATOMIC_SEQ_CST);
      if (number == 3 && round == 50) raise(SIGKILL);
    }
    _exit(0);
  }
  for (pid_t const child : children) {
    int state = 0;
    waitpid(child, &state, 0);
    EXPECT_TRUE(WIFSIGNALED(state) || WEXITSTATUS(state) == 0);
  }
  {
    shared_resource const last{name, 100'000};
  }
  EXPECT_THROW((shared_resource{name, 0}), bad_argument);
}

TEST(SharedResource, RefusesBadArgumentsAndSegmentsOfOthers) {
  EXPECT_THROW((shared_resource{"", 1000}), bad_argument);
  EXPECT_THROW((shared_resource{"a/b", 1000}), bad_argument);
  std::string const name = fresh_name();
  EXPECT_THROW((shared_resource{name, 0}), bad_argument);
  shared_resource segment{name, 100'000};
  EXPECT_THROW((shared_resource{name, 200'000}), bad_argument);
  EXPECT_THROW((void)segment.allocate("", 10), bad_argument);
  EXPECT_THROW((void)segment.allocate(std::string(64, 'x'), 10), bad_argument);
  EXPECT_THROW((void)segment.allocate(10, 48), bad_argument);
  (void)segment.allocate("it", 10);
  EXPECT_THROW((void)segment.allocate("it", 11), bad_argument);
  (void)segment.allocate("filler", 10);
  (void)segment.allocate("unaligned", 10);
  EXPECT_THROW((void)segment.allocate("unaligned", 10, 4096), bad_argument);
  EXPECT_THROW((void)segment.allocate(std::string_view{"a\0b", 3}, 10), bad_argument);
  EXPECT_THROW((shared_resource{std::string{"a\0b", 3}, 1000}), bad_argument);
  EXPECT_THROW((void)segment.allocate("large", 200'000), out_of_memory);
  int local = 0;
  EXPECT_FALSE(segment.release(&local));
  EXPECT_THROW((void)segment.offset_of(&local), bad_argument);
  EXPECT_THROW((void)segment.at(1_MiB), bad_argument);
  std::string const others = fresh_name();
  int const file = shm_open(("/" + others).c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(ftruncate(file, 100), 0);
  close(file);
  EXPECT_THROW((shared_resource{others, 1000}), resource_failed);
  shm_unlink(("/" + others).c_str());
}

/// The tables grow, so only the data limits the number of allocations.
TEST(SharedResource, AllocatesUntilItsDataIsFull) {
  constexpr std::size_t count = 512_KiB / 64;
  std::string const name = fresh_name();
  shared_resource source{name, 512_KiB};
  shared_resource other{name, 0};
  std::vector<void*> memory;
  for (std::size_t i = 0; i < count; ++i) memory.push_back(source.allocate(64, 64));
  EXPECT_THROW((void)other.allocate(1, 1), out_of_memory);
  EXPECT_EQ(other.counts().allocations_in_use, count);
  EXPECT_EQ(other.counts().in_use, 512_KiB);
  for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(source.release(memory[i])) << i;
  for (std::size_t i = 0; i < 5000; ++i) (void)other.allocate("name " + std::to_string(i), 50);
  EXPECT_EQ(source.counts().references, 5000u);
}

TEST(SharedResource, CountsReferencesOfManyOpenings) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  void* const memory = source.allocate("it", 100);
  std::vector<std::unique_ptr<shared_resource>> openings;
  for (int i = 0; i < 300; ++i) {
    openings.push_back(std::make_unique<shared_resource>(name, 0));
    (void)openings.back()->allocate("it", 100);
    (void)openings.back()->find("it");
  }
  EXPECT_EQ(source.counts().processes, 301u);
  EXPECT_EQ(source.counts().references, 601u);
  EXPECT_TRUE(source.release(memory));
  EXPECT_FALSE(source.release(memory));
  while (openings.size() > 1) openings.erase(openings.begin() + long(openings.size() * 2 / 3));
  EXPECT_EQ(source.counts().processes, 2u);
  EXPECT_EQ(source.counts().references, 2u);
  EXPECT_EQ(source.counts().allocations_in_use, 1u);
  openings.clear();
  EXPECT_EQ(source.counts().allocations_in_use, 0u);
}

/// A segment of another layout of this library has another number in its first eight bytes.
TEST(SharedResource, RefusesASegmentOfAnotherLayout) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  auto* const memory = static_cast<char*>(source.allocate("it", 100));
  *memory = 7;
  int const file = shm_open(("/" + name).c_str(), O_RDWR, 0600);
  auto const write_mark = [&](char const(&mark)[9]) { return pwrite(file, mark, 8, 0) == 8; };
  ASSERT_TRUE(write_mark("QUARRY01"));
  int const result = in_a_child([&] {
    for (bytes const size : {bytes{0}, 1_MiB}) {
      try {
        shared_resource const opened{name, size};
        return 1;
      } catch (resource_failed const& failure) {
        if (failure.message().find("layout 01; this version uses layout 02") == std::string::npos)
          return 2;
      }
    }
    return 0;
  });
  EXPECT_EQ(result, 0);
  ASSERT_TRUE(write_mark("STRANGER"));
  EXPECT_THROW((shared_resource{name, 1_MiB}), resource_failed);
  ASSERT_TRUE(write_mark("QUARRY02"));
  shared_resource opened{name, 1_MiB};
  EXPECT_EQ(*static_cast<char*>(opened.find("it")), 7);
  close(file);
}

TEST(SharedResource, TakesTheFreedRecordsOfAKilledHolderAgain) {
  std::string const name = fresh_name();
  shared_resource source{name, 1_MiB};
  struct stat before{}, after{};
  int const file = shm_open(("/" + name).c_str(), O_RDWR, 0600);
  ASSERT_EQ(fstat(file, &before), 0);
  std::mt19937 random{5};
  for (int round = 0; round < 100; ++round) {
    pid_t const child = fork();
    if (child == 0) {
      shared_resource opened{name, 0};
      for (;;) {
        void* const memory = opened.allocate(64, 64);
        (void)source.allocate("shared", 64);
        opened.release(memory);
      }
    }
    usleep(static_cast<useconds_t>(200 + random() % 1000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  source.collect();
  EXPECT_EQ(source.counts().references, 0u);
  EXPECT_EQ(source.counts().processes, 1u);
  ASSERT_EQ(fstat(file, &after), 0);
  EXPECT_EQ(after.st_blocks, before.st_blocks);  // no table grew
  close(file);
}

TEST(SharedResource, AgreesWithAMapOfNames) {
  std::mt19937 random{3};
  shared_resource source{fresh_name(), 256_KiB};
  struct named_memory {
    void* memory;
    int references;
  };
  std::map<std::string, named_memory> model;
  auto const size_of = [](std::string const& name) {
    return 100 + std::hash<std::string>{}(name) % 5000;
  };
  for (int step = 0; step < 3000; ++step) {
    std::string const name = "name " + std::to_string(random() % 40);
    auto const entry = model.find(name);
    if (random() % 2 == 0) {
      void* const got = source.allocate(name, size_of(name));
      if (entry == model.end()) {
        for (auto const& [other, allocation] : model) {
          auto* const base = static_cast<char*>(got);
          auto* const others = static_cast<char*>(allocation.memory);
          ASSERT_TRUE(base + size_of(name) <= others || others + size_of(other) <= base);
        }
        model[name] = {got, 1};
      } else {
        ASSERT_EQ(got, entry->second.memory);
        ++entry->second.references;
      }
    } else if (entry != model.end()) {
      ASSERT_TRUE(source.release(entry->second.memory));
      if (--entry->second.references == 0) model.erase(entry);
    } else {
      ASSERT_EQ(source.find(name), nullptr);
    }
    ASSERT_EQ(source.counts().allocations_in_use, model.size());
  }
}

}  // namespace shared_resource_test
}  // namespace quarry::test

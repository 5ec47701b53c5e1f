// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/shared_resource.hpp"

#include "conformance/resources.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>

namespace quarry::test {
namespace shared_resource_test {

/// A name that no other process has.
std::string fresh_name() {
  static int number = 0;
  return "quarry-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

shared_resource make_shared() { return shared_resource{fresh_name(), 8_MiB}; }
using all = testing::Types<alone<&make_shared, true>, pooled<&make_shared, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(SharedResource, ResourceConformance, all);

/// Runs `work` in a process of its own, which ends with what it gives; a signal ends it with 128
/// and more.
template <class Work>
int in_a_child(Work work) {
  pid_t const child = fork();
  if (child == 0) _exit(work());
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

TEST(SharedResource, GivesAllProcessesTheMemoryOfAName) {
  std::string const name = fresh_name();
  shared_resource mine{name, 1_MiB};
  auto* const field = static_cast<int*>(mine.allocate("field", 4000));
  EXPECT_EQ(field[999], 0);
  field[7] = 42;
  EXPECT_EQ(in_a_child([&] {
              shared_resource theirs{name, 0};
              auto* const same = static_cast<int*>(theirs.find("field"));
              if (same == nullptr || same[7] != 42 || theirs.find("other") != nullptr) return 1;
              if (theirs.allocate("field", 4000) != same) return 2;
              same[8] = 43;
              return theirs.offset_of(same) == mine.offset_of(field) ? 0 : 3;
            }),
            0);
  EXPECT_EQ(field[8], 43);
  EXPECT_EQ(mine.counts().references, 1u);
  EXPECT_EQ(mine.at(mine.offset_of(field)), field);
  EXPECT_TRUE(mine.release(field));
  EXPECT_EQ(mine.find("field"), nullptr);
}

TEST(SharedResource, KeepsMemoryAsLongAsAnyoneRefersToIt) {
  std::string const name = fresh_name();
  shared_resource first{name, 1_MiB};
  void* const one = first.allocate("it", 100);
  (void)first.allocate("it", 100);
  EXPECT_TRUE(first.release(one));
  EXPECT_EQ(first.counts().allocations, 1u);
  EXPECT_TRUE(first.release(one));
  EXPECT_FALSE(first.release(one));
  EXPECT_EQ(first.counts().allocations, 0u);
}

TEST(SharedResource, IsGoneWhenTheLastProcessHasClosedIt) {
  std::string const name = fresh_name();
  {
    shared_resource const one{name, 1_MiB};
  }
  EXPECT_THROW((shared_resource{name, 0}), bad_argument);
}

TEST(SharedResource, TakesBackWhatAKilledProcessHeld) {
  std::string const name = fresh_name();
  shared_resource mine{name, 1_MiB};
  EXPECT_EQ(in_a_child([&] {
              shared_resource theirs{name, 1_MiB};
              (void)theirs.allocate(900_KiB, 64);
              (void)theirs.allocate("named", 1000);
              raise(SIGKILL);
              return 0;
            }),
            128 + SIGKILL);
  EXPECT_EQ(mine.counts().allocations, 2u);
  EXPECT_NE(mine.allocate(900_KiB, 64), nullptr);  // finds no room, and takes it back
  EXPECT_EQ(mine.counts().allocations, 1u);
  EXPECT_EQ(mine.counts().processes, 1u);
}

/// A process that is killed at any moment leaves tables that are right and a lock that can be had.
TEST(SharedResource, SurvivesAProcessThatIsKilledAtAnyMoment) {
  std::string const name = fresh_name();
  shared_resource mine{name, 1_MiB};
  auto* const kept = static_cast<unsigned char*>(mine.allocate("kept", 1000));
  std::memset(kept, 0xa5, 1000);
  std::mt19937 random{1};
  for (int round = 0; round < 30; ++round) {
    pid_t const child = fork();
    if (child == 0) {
      std::mt19937 own{static_cast<std::uint32_t>(round)};
      shared_resource theirs{name, 0};
      for (;;) {
        std::vector<void*> reserved;
        for (int i = 0; i < 20; ++i) {
          bytes const size = 1 + own() % 10'000;
          reserved.push_back(theirs.allocate(size, 64));
          std::memset(reserved.back(), 1, size);
        }
        for (void* const each : reserved) theirs.release(each);
      }
    }
    usleep(static_cast<useconds_t>(500 + random() % 4000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    mine.collect();
    auto const counts = mine.counts();
    ASSERT_EQ(counts.allocations, 1u) << round;
    ASSERT_EQ(counts.references, 1u);
    ASSERT_EQ(counts.processes, 1u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(kept[i], 0xa5);
  }
}

TEST(SharedResource, CountsTwoOpeningsOfOneProcessApart) {
  std::string const name = fresh_name();
  shared_resource one{name, 1_MiB};
  void* const mine = one.allocate("it", 100);
  {
    shared_resource other{name, 0};
    EXPECT_NE(other.find("it"), nullptr);
    EXPECT_EQ(one.counts().processes, 2u);
    EXPECT_EQ(one.counts().references, 2u);
  }
  EXPECT_EQ(one.counts().references, 1u);
  EXPECT_NO_THROW((shared_resource{name, 0}));
  EXPECT_TRUE(one.release(mine));
}

/// Processes that open and close one name at once, some of which are killed, always end, and share
/// what they open together.
TEST(SharedResource, IsOpenedAndClosedByManyAtOnce) {
  std::string const name = fresh_name();
  std::vector<pid_t> children;
  for (int number = 0; number < 4; ++number) {
    pid_t const child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (int round = 0; round < 100; ++round) {
      shared_resource mine{name, 100'000};
      auto* const counter = static_cast<unsigned*>(mine.allocate("counter", 64));
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
  shared_resource one{name, 100'000};
  EXPECT_THROW((shared_resource{name, 200'000}), bad_argument);
  EXPECT_THROW((void)one.allocate("", 10), bad_argument);
  EXPECT_THROW((void)one.allocate(std::string(64, 'x'), 10), bad_argument);
  EXPECT_THROW((void)one.allocate(10, 48), bad_argument);
  (void)one.allocate("it", 10);
  EXPECT_THROW((void)one.allocate("it", 11), bad_argument);
  (void)one.allocate("filler", 10);
  (void)one.allocate("unaligned", 10);
  EXPECT_THROW((void)one.allocate("unaligned", 10, 4096), bad_argument);
  EXPECT_THROW((void)one.allocate(std::string_view{"a\0b", 3}, 10), bad_argument);
  EXPECT_THROW((shared_resource{std::string{"a\0b", 3}, 1000}), bad_argument);
  EXPECT_THROW((void)one.allocate("large", 200'000), out_of_memory);
  int local = 0;
  EXPECT_FALSE(one.release(&local));
  EXPECT_THROW((void)one.offset_of(&local), bad_argument);
  EXPECT_THROW((void)one.at(1_MiB), bad_argument);
  std::string const others = fresh_name();
  int const file = shm_open(("/" + others).c_str(), O_CREAT | O_RDWR, 0600);
  ASSERT_EQ(ftruncate(file, 100), 0);
  close(file);
  EXPECT_THROW((shared_resource{others, 1000}), resource_failed);
  shm_unlink(("/" + others).c_str());
}

TEST(SharedResource, AgreesWithAMapOfNames) {
  std::mt19937 random{3};
  shared_resource source{fresh_name(), 256_KiB};
  struct one {
    void* memory;
    int references;
  };
  std::map<std::string, one> model;
  auto const size_of = [](std::string const& name) {
    return 100 + std::hash<std::string>{}(name) % 5000;
  };
  for (int step = 0; step < 3000; ++step) {
    std::string const name = "name " + std::to_string(random() % 40);
    auto const there = model.find(name);
    if (random() % 2 == 0) {
      void* const got = source.allocate(name, size_of(name));
      if (there == model.end()) {
        for (auto const& [other, what] : model) {
          auto* const base = static_cast<char*>(got);
          auto* const others = static_cast<char*>(what.memory);
          ASSERT_TRUE(base + size_of(name) <= others || others + size_of(other) <= base);
        }
        model[name] = {got, 1};
      } else {
        ASSERT_EQ(got, there->second.memory);
        ++there->second.references;
      }
    } else if (there != model.end()) {
      ASSERT_TRUE(source.release(there->second.memory));
      if (--there->second.references == 0) model.erase(there);
    } else {
      ASSERT_EQ(source.find(name), nullptr);
    }
    ASSERT_EQ(source.counts().allocations, model.size());
  }
}

}  // namespace shared_resource_test
}  // namespace quarry::test

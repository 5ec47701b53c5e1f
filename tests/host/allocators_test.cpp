// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/allocators.hpp"

#include "quarry/host/resources/callback_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "support/sanitized.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace quarry::test {
namespace allocators_test {

using namespace quarry::literals;

template <class Work>
std::string refusal_of(Work work) {
  try {
    work();
  } catch (bad_argument const& failure) {
    return failure.message();
  }
  return "was not refused";
}
#define EXPECT_SAYS(work, words)                                  \
  do {                                                            \
    std::string const message = refusal_of([&] { work; });        \
    EXPECT_NE(message.find(words), std::string::npos) << message; \
  } while (false)

struct Allocators : testing::Test {
  ~Allocators() override {
    // destroys the pool first: its blocks belong to HOST
    allocators::destroy("fields", unfreed_memory::discard);
    allocators::destroy("HOST", unfreed_memory::discard);
  }
  any_allocator host = allocators::make<host_resource>("HOST");
  any_allocator fields = allocators::make_pool("fields", host, {.first_block = 1_MiB});
};

TEST_F(Allocators, AreFoundByNameByNumberAndByAddress) {
  EXPECT_EQ(allocators::at("fields"), fields);
  EXPECT_EQ(allocators::at("HOST"), host);
  EXPECT_EQ(allocators::find("fields"), fields);
  EXPECT_FALSE(allocators::find("none"));
  EXPECT_TRUE(allocators::contains("HOST"));
  EXPECT_FALSE(allocators::contains("host"));
  EXPECT_EQ(allocators::find(fields.id()), fields);
  EXPECT_EQ(allocators::find(host.id()), host);
  EXPECT_FALSE(allocators::find(allocator_id{0}));
  EXPECT_EQ(allocators::names(), (std::vector<std::string>{"HOST", "fields"}));

  auto* const a = static_cast<char*>(fields.allocate(100));
  auto* const b = static_cast<char*>(host.allocate(100));
  EXPECT_EQ(allocators::owner_of(a), fields);
  EXPECT_EQ(allocators::owner_of(a + 99), fields);
  EXPECT_EQ(allocators::owner_of(b + 99), host);
  EXPECT_TRUE(allocators::has_owner(a));
  int local = 0;
  EXPECT_FALSE(allocators::has_owner(&local));
}

TEST_F(Allocators, RefuseUnknownNamesAndListTheKnownNames) {
  EXPECT_SAYS((void)allocators::at("field"),
              "there is no allocator 'field'. There are 'HOST', 'fields'.");
  EXPECT_SAYS(allocators::destroy("field"), "there is no allocator 'field'");
  EXPECT_SAYS(allocators::add_alias("a", "field"), "there is no allocator 'field'");
  EXPECT_SAYS(allocators::remove_alias("field"), "there is no allocator 'field'");
}

TEST_F(Allocators, RefuseDuplicateAndInvalidNames) {
  EXPECT_SAYS((void)allocators::make<host_resource>("fields"),
              "there is an allocator 'fields' already");
  EXPECT_SAYS((void)allocators::make_pool("HOST", host), "there is an allocator 'HOST' already");
  allocators::add_alias("energy", "fields");
  EXPECT_SAYS((void)allocators::make_pool("energy", host),
              "there is an alias 'energy' of 'fields' already");
  EXPECT_SAYS((void)allocators::make<host_resource>(""), "not 0 bytes");
  EXPECT_SAYS((void)allocators::make<host_resource>(std::string(256, 'x')), "not 256 bytes");
  EXPECT_SAYS((void)allocators::make<host_resource>("a\nb"), "no control characters");
  EXPECT_SAYS((void)allocators::add("x", nullptr), "the model is null");
  EXPECT_EQ(allocators::names().size(), 2u);
  EXPECT_EQ(host.counts().allocations_in_use, 0u) << "no failed call kept an allocation";
}

TEST_F(Allocators, HaveAliasesUntilTheyAreDestroyed) {
  allocators::add_alias("energy", "fields");
  allocators::add_alias("density", "energy");
  EXPECT_EQ(allocators::at("energy"), fields);
  EXPECT_EQ(allocators::at("density"), fields);
  EXPECT_EQ(allocators::at("density").name(), "fields");
  EXPECT_EQ(allocators::names().size(), 2u);
  EXPECT_SAYS(allocators::add_alias("energy", "HOST"), "there is an alias 'energy'");
  EXPECT_SAYS(allocators::add_alias("HOST", "fields"), "there is an allocator 'HOST'");
  EXPECT_SAYS(allocators::destroy("energy"), "'energy' is an alias of 'fields'");
  EXPECT_SAYS(allocators::remove_alias("fields"), "'fields' is no alias");
  allocators::remove_alias("energy");
  EXPECT_FALSE(allocators::contains("energy"));
  EXPECT_TRUE(allocators::contains("density"));
  allocators::destroy("fields");
  EXPECT_FALSE(allocators::contains("density"));
  (void)allocators::make_pool("fields", host);  // the destructor of the fixture destroys it
}

TEST_F(Allocators, AreNotDestroyedWhileTheyHaveAllocations) {
  void* const a = fields.allocate(100);
  void* const b = fields.allocate(28);
  EXPECT_SAYS(allocators::destroy("fields"),
              "'fields' has 2 allocations of 128 bytes that were not freed");
  EXPECT_TRUE(fields.deallocate(b));
  EXPECT_EQ(fields.size_of(a), 100u) << "the allocation is unchanged";
  allocators::destroy("fields", unfreed_memory::discard);
  EXPECT_FALSE(registry::find(a));
  EXPECT_EQ(host.counts().allocations_in_use, 0u);
  (void)allocators::make_pool("fields", host);
}

TEST_F(Allocators, AreDestroyedAfterThePoolsOverThem) {
  auto const refuse = [&](char const* words) {
    EXPECT_SAYS(allocators::destroy("HOST"), words);
    EXPECT_SAYS(allocators::destroy("HOST", unfreed_memory::discard), words);
  };
  refuse("'HOST' is the resource of 1 pools or adaptors");  // though "fields" has no block
  {
    pool second{host.as_resource()};
    limited_resource third{host.as_resource(), 1000};
    refuse("'HOST' is the resource of 3 pools or adaptors");
  }
  allocators::destroy("fields");
  allocators::destroy("HOST");
  EXPECT_SAYS((void)host.as_resource(), "was destroyed");
  host = allocators::make<host_resource>("HOST");
  (void)allocators::make_pool("fields", host);
}

TEST_F(Allocators, WithoutTrackingAreFoundByNameOnly) {
  any_allocator const quiet =
      allocators::make_pool("quiet", host_resource{}, {.is_tracked = false});
  EXPECT_EQ(quiet.id(), 0u);
  void* const a = quiet.allocate(100);
  EXPECT_EQ(allocators::at("quiet"), quiet);
  EXPECT_FALSE(allocators::has_owner(a));
  EXPECT_SAYS(operations::deallocate(a), "is in no allocation that the registry knows");
  EXPECT_FALSE(quiet.label(a, "x"));
  EXPECT_TRUE(quiet.deallocate(a));
  allocators::destroy("quiet");
}

TEST_F(Allocators, FreeMemoryByItsAddress) {
  for (any_allocator source : {fields, host}) {
    void* const a = source.allocate(100);
    void* const b = source.allocate(100);
    operations::deallocate(a);
    EXPECT_FALSE(source.size_of(a));
    EXPECT_EQ(source.size_of(b), 100u);
    EXPECT_THROW(operations::deallocate(a), bad_argument);
    operations::deallocate(b);
    operations::deallocate(nullptr);
  }
  EXPECT_EQ(fields.counts().allocations_in_use, 0u);
  EXPECT_EQ(host.counts().allocations_in_use, 1u) << "the pool's block";
}

TEST_F(Allocators, NeverFreeAPoolsBlockInPlaceOfAnAllocationAtTheSameAddress) {
  void* const a = fields.allocate(100);
  void* const neighbour = fields.allocate(100);
  ASSERT_TRUE(fields.deallocate(a));
  ASSERT_EQ(registry::find(a)->allocator, host.id()) << "the block starts at this address";
  EXPECT_SAYS(operations::deallocate(a), "is the first address of a block of 1048576 bytes");
  EXPECT_SAYS((void)operations::reallocate(a, 10), "that a pool took of 'HOST'");
  EXPECT_SAYS((void)operations::move(a, fields), "that a pool took of 'HOST'");
  EXPECT_FALSE(host.deallocate(a));
  EXPECT_FALSE(host.size_of(a));
  std::memset(neighbour, 1, 100);
  EXPECT_EQ(fields.size_of(neighbour), 100u);
  EXPECT_EQ(host.counts().allocations_in_use, 1u);
  // a block that the program allocates itself
  allocator_resource of_host = host.as_resource();
  EXPECT_EQ(of_host.allocator(), host);
  void* const block = of_host.allocate(64, 64);
  EXPECT_SAYS(operations::deallocate(block), "a block of 64 bytes");
  of_host.deallocate(block, 64, 64);
  of_host.deallocate(block, 64, 64);
  EXPECT_EQ(host.counts().allocations_in_use, 1u);
}

TEST_F(Allocators, FreeMemoryOfAllocatorsThatShareACacheEntry) {
  // the registry's numbers increase by one; the cache has 1024 entries
  std::optional<any_allocator> colliding;
  for (int i = 0; i < 1100 && !colliding; ++i) {
    auto const made = allocators::make_pool("later", host_resource{}, {.first_block = 64_KiB});
    if (made.id() % 1024 == fields.id() % 1024) {
      colliding = made;
    } else {
      allocators::destroy("later");
    }
  }
  ASSERT_TRUE(colliding);
  void* const a = fields.allocate(10);
  void* const b = colliding->allocate(10);
  operations::deallocate(a);
  operations::deallocate(b);
  EXPECT_EQ(fields.counts().allocations_in_use, 0u);
  EXPECT_EQ(colliding->counts().allocations_in_use, 0u);
  EXPECT_EQ(fields.counts().invalid_frees, 0u);
  EXPECT_EQ(colliding->counts().invalid_frees, 0u);
  allocators::destroy("later");
  operations::deallocate(fields.allocate(10));
}

TEST_F(Allocators, RefuseToFreeForeignMemoryAndDescribeIt) {
  auto* const a = static_cast<char*>(fields.allocate(100));
  EXPECT_SAYS(operations::deallocate(a + 16),
              "lies 16 bytes after the first address of an allocation of 100 bytes");
  EXPECT_SAYS(operations::deallocate(a + 16), "of 'fields'");
  int local = 0;
  EXPECT_SAYS(operations::deallocate(&local), "is in no allocation that the registry knows");
  pool unnamed{host_resource{}, {.name = "own"}};
  void* const b = unnamed.allocate(100);
  EXPECT_SAYS(operations::deallocate(b),
              "belongs to 'own' (allocator " + std::to_string(unnamed.id()));
  EXPECT_SAYS((void)operations::reallocate(b, 10), "belongs to 'own'");
  EXPECT_SAYS((void)operations::move(b, fields), "belongs to 'own'");
  EXPECT_SAYS((void)allocators::owner_of(b), "belongs to 'own'");
  EXPECT_SAYS((void)allocators::owner_of(&local), "is in no allocation");
  EXPECT_SAYS((void)allocators::owner_of(nullptr), "nullptr has no allocator");
  EXPECT_EQ(fields.counts().allocations_in_use, 1u);
  EXPECT_EQ(unnamed.counts().allocations_in_use, 1u);
}

TEST_F(Allocators, AreNamedInErrors) {
  any_allocator made = allocators::make<pool<host_resource>>("made", host_resource{});
  auto* const a = static_cast<char*>(made.allocate(100));
  EXPECT_SAYS(operations::deallocate(a + 16), "of 'made'");
  EXPECT_EQ(made.name(), "made");
  allocators::destroy("made", unfreed_memory::discard);
}

TEST_F(Allocators, ReallocateMemoryByItsAddress) {
  auto* a = static_cast<unsigned char*>(fields.allocate(10, "density"));
  std::memset(a, 5, 10);
  a = static_cast<unsigned char*>(operations::reallocate(a, 5000));
  EXPECT_EQ(fields.size_of(a), 5000u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(a[i], 5);
  EXPECT_EQ(operations::reallocate(a, 5000), a);
  a = static_cast<unsigned char*>(operations::reallocate(a, 3));
  EXPECT_EQ(a[2], 5);
  void* const empty = operations::reallocate(a, 0);
  ASSERT_NE(empty, nullptr);
  EXPECT_EQ(fields.size_of(empty), 0u);
  EXPECT_EQ(fields.counts().allocations_in_use, 1u);
  void* const grown = operations::reallocate(empty, 20);
  EXPECT_EQ(fields.size_of(grown), 20u);

  EXPECT_SAYS((void)operations::reallocate(nullptr, 10), "nullptr has no allocator");
  void* const fresh = operations::reallocate(nullptr, 10, host);
  EXPECT_EQ(allocators::owner_of(fresh), host);
  EXPECT_EQ(allocators::owner_of(operations::reallocate(fresh, 20, fields)), host);
  auto* const inner = static_cast<char*>(grown) + 16;
  EXPECT_SAYS((void)operations::reallocate(inner, 10), "16 bytes after the first address");
  int local = 0;
  EXPECT_SAYS((void)operations::reallocate(&local, 10), "is in no allocation");
}

TEST_F(Allocators, MoveMemoryByItsAddress) {
  auto* const a = static_cast<unsigned char*>(fields.allocate(100));
  std::memset(a, 5, 100);
  auto* const moved = static_cast<unsigned char*>(operations::move(a, host));
  EXPECT_EQ(allocators::owner_of(moved), host);
  EXPECT_EQ(moved[99], 5);
  EXPECT_FALSE(fields.size_of(a));
  EXPECT_EQ(operations::move(moved, host), moved);
  void* const empty = operations::move(fields.allocate(0), host);
  EXPECT_EQ(host.size_of(empty), 0u);
  EXPECT_SAYS((void)operations::move(moved + 16, fields), "16 bytes after");
  EXPECT_SAYS((void)operations::move(nullptr, fields), "nullptr");
}

TEST_F(Allocators, KeepAnAllocationThatCannotBeReallocatedOrMoved) {
  using limited = limited_resource<host_resource>;
  any_allocator small = allocators::make<limited>("small", host_resource{}, bytes{1000});
  auto* const a = static_cast<unsigned char*>(small.allocate(600));
  std::memset(a, 5, 600);
  EXPECT_THROW((void)operations::reallocate(a, 700), out_of_memory);
  EXPECT_EQ(small.size_of(a), 600u);
  void* const b = fields.allocate(900);
  EXPECT_THROW((void)operations::move(b, small), out_of_memory);
  EXPECT_EQ(fields.size_of(b), 900u);
  EXPECT_EQ(a[599], 5);
  allocators::destroy("small", unfreed_memory::discard);
  EXPECT_THROW((void)operations::move(b, small), bad_argument);
  EXPECT_EQ(fields.size_of(b), 900u);
}

TEST_F(Allocators, MayBeMadeUsedAndDestroyedByThreadsConcurrently) {
  std::atomic<int> made{0};
  std::vector<std::thread> all;
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back([&, thread] {
      std::mt19937 random{static_cast<unsigned>(thread)};
      for (int i = 0; i < 150; ++i) {
        std::string const name = "pool " + std::to_string(random() % 3);
        try {
          (void)allocators::make_pool(name, host, {.first_block = 4_KiB});
          ++made;
        } catch (bad_argument const&) {  // another thread made it
        }
        for (int step = 0; step < 10; ++step) {
          try {
            void* const a = allocators::at(name).allocate(100);
            operations::deallocate(operations::reallocate(a, 200));
          } catch (bad_argument const&) {  // another thread destroyed it
          }
          operations::deallocate(fields.allocate(50));
        }
        try {
          allocators::destroy(name);
        } catch (bad_argument const&) {  // another thread destroyed it or uses it
        }
      }
    });
  }
  for (auto& each : all) each.join();
  for (int i = 0; i < 3; ++i) {
    std::string const name = "pool " + std::to_string(i);
    if (allocators::contains(name)) allocators::destroy(name);
  }
  EXPECT_GT(made.load(), 0);
  EXPECT_EQ(allocators::names(), (std::vector<std::string>{"HOST", "fields"}));
  EXPECT_EQ(fields.counts().allocations_in_use, 0u);
  EXPECT_EQ(fields.counts().invalid_frees, 0u);
}

/// A fork locks a pool before its resource, in the same order as calls do.
TEST_F(Allocators, WorkInAChildForkedDuringCalls) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> all;
  for (int thread = 0; thread < 2; ++thread) {
    all.emplace_back([&] {
      any_allocator upper = fields;
      while (!is_over) {
        void* const a = upper.allocate(2_MiB);  // takes a block of HOST, under both locks
        EXPECT_TRUE(upper.deallocate(a));
        upper.release();
        (void)allocators::contains("fields");
      }
    });
  }
  for (int i = 0; i < (is_sanitized ? 15 : 50); ++i) {
    pid_t const child = fork();
    ASSERT_NE(child, -1);
    if (child == 0) {
      alarm(20);
      any_allocator source = allocators::at("fields");
      void* const a = source.allocate(100);
      operations::deallocate(a);
      _exit(source.size_of(a) ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  is_over = true;
  for (auto& each : all) each.join();
}

/// The call waits for the forking thread, so the fork gives up its allocator.
TEST(AllocatorsOfAChild, RefuseTheAllocatorOfACallThatWaitsForTheForkingThread) {
  alarm(60);
  std::atomic<bool> waits{false}, is_in_call{false}, is_over{false};
  any_allocator lost = allocators::make<callback_resource>(
      "lost",
      [&](bytes size, bytes alignment) {
        if (waits) {
          is_in_call = true;
          is_in_call.notify_all();
          is_over.wait(false);
        }
        return host_resource{}.allocate(size, alignment);
      },
      [](void* pointer, bytes size, bytes alignment) {
        host_resource{}.deallocate(pointer, size, alignment);
      },
      memory_location{});
  any_allocator other = allocators::make<host_resource>("other");
  any_allocator upper = allocators::make_pool("upper", lost, {.first_block = 1_MiB});
  void* const of_lost = lost.allocate(100);
  void* const of_upper = upper.allocate(100);
  waits = true;
  std::thread caller{[&] { lost.deallocate(lost.allocate(100)); }};
  is_in_call.wait(false);
  pid_t const child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    alarm(20);
    bool holds = refusal_of([&] { (void)lost.allocate(100); }).find("when the process forked") !=
                     std::string::npos &&
                 !lost.deallocate(of_lost) && other.deallocate(other.allocate(100)) &&
                 upper.deallocate(of_upper) && upper.deallocate(upper.allocate(100));
    upper.release();  // cannot return its block to `lost`
    holds = holds && allocators::make<host_resource>("of child").is_alive();
    _exit(holds ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  is_over = true;
  is_over.notify_all();
  caller.join();
  EXPECT_TRUE(lost.deallocate(of_lost));
  for (char const* const name : {"upper", "lost", "other"})
    allocators::destroy(name, unfreed_memory::discard);
  alarm(0);
}

/// Frees memory after main(). The names must not be destroyed before.
struct frees_at_exit {
  ~frees_at_exit() {
    if (memory != nullptr) operations::deallocate(memory);
  }
  void* memory = nullptr;
};
frees_at_exit at_exit;

TEST(AllocatorsAtTheEnd, ServeDestructorsOfStaticObjects) {
  EXPECT_EXIT(
      {
        at_exit.memory = allocators::make_pool("late", host_resource{}).allocate(100);
        std::atexit([] {
          // runs before the destructor of `at_exit`
          (void)allocators::at("late").allocate(100);
        });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

/// Makes random calls and compares the result with a map.
TEST_F(Allocators, AgreeWithAModel) {
  unsigned const seed = 11;
  std::mt19937 random{seed};
  struct entry {
    any_allocator owner;
    std::vector<unsigned char> bytes;
  };
  std::map<unsigned char*, entry> model;
  std::array<any_allocator, 2> const owners{fields, host};
  auto const check = [&](unsigned char* at) {
    entry const& expected = model.at(at);
    ASSERT_EQ(allocators::owner_of(at), expected.owner);
    ASSERT_EQ(std::memcmp(at, expected.bytes.data(), expected.bytes.size()), 0);
  };
  for (int step = 0; step < 4000; ++step) {
    any_allocator chosen = owners[random() % 2];
    if (model.size() < 20 || random() % 4 == 0) {
      std::vector<unsigned char> content(random() % 3000);
      for (auto& each : content) each = static_cast<unsigned char>(random());
      auto* const at = static_cast<unsigned char*>(chosen.allocate(content.size()));
      std::memcpy(at, content.data(), content.size());
      ASSERT_TRUE(model.emplace(at, entry{chosen, std::move(content)}).second);
      continue;
    }
    auto node = model.extract(std::next(model.begin(), static_cast<long>(random() % model.size())));
    switch (random() % 3) {
      case 0:
        operations::deallocate(node.key());
        continue;
      case 1:
        node.mapped().bytes.resize(std::min<std::size_t>(node.mapped().bytes.size(), 500));
        node.key() = static_cast<unsigned char*>(
            operations::reallocate(node.key(), node.mapped().bytes.size()));
        break;
      default:
        node.key() = static_cast<unsigned char*>(operations::move(node.key(), chosen));
        node.mapped().owner = chosen;
    }
    auto* const at = node.key();
    ASSERT_TRUE(model.insert(std::move(node)).inserted);
    check(at);
  }
  for (auto const& [at, each] : model) {
    check(at);
    operations::deallocate(at);
  }
  EXPECT_EQ(fields.counts().allocations_in_use, 0u);
  EXPECT_EQ(fields.counts().invalid_frees + host.counts().invalid_frees, 0u);
}

}  // namespace allocators_test
}  // namespace quarry::test

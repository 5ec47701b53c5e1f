// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/allocators.hpp"

#include "quarry/host/pools/placements.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <tuple>
#include <type_traits>

namespace quarry::test {
namespace allocator_description_test {

using namespace quarry::literals;

struct AllocatorDescription : testing::Test {
  ~AllocatorDescription() override {
    auto all = allocators::names();
    while (!all.empty()) {  // pools before their resources
      for (std::string const& each : all) {
        try {
          allocators::destroy(each, unfreed_memory::discard);
        } catch (bad_argument const&) {
        }
      }
      all = allocators::names();
    }
  }
  static std::string refusal_of(std::string_view description) {
    try {
      (void)allocators::make("refused", description);
    } catch (bad_argument const& failure) {
      return failure.message();
    }
    return "was not refused";
  }
};

TEST_F(AllocatorDescription, MakesResources) {
  for (std::string const description :
       {"host", "host()", " host ", "limited(host, 1MiB)", "limited( host ,1048576 )",
        "fixed_size(host, 128)", "mixed(host)", "mixed(host, min_slot=32, max_slot=256, slab=4KiB)",
        "fixed_size(limited(host, 64MiB), 128B, 16)", "slots(host, 4)", "file('/tmp')",
        "file(\"/tmp\")"}) {
    any_allocator source = allocators::make(description, description);
    auto* const a = static_cast<char*>(source.allocate(100));
    a[99] = 1;
    EXPECT_EQ(allocators::owner_of(a).name(), description);
    EXPECT_EQ(source.location().kind, description[0] == 'f' && description[2] == 'l'
                                          ? memory_kind::file
                                          : memory_kind::host);
    operations::deallocate(a);
  }
}

TEST_F(AllocatorDescription, ReleaseEmptiesTheCachesOfResources) {
  any_allocator const below = allocators::make("HOST", "host");
  any_allocator source = allocators::make("mixed", "mixed('HOST', max_slot=512, slab=4KiB)");
  operations::deallocate(source.allocate(100));
  EXPECT_GT(below.counts().allocated, 0u);
  source.release();
  EXPECT_EQ(below.counts().allocated, 0u);
}

TEST_F(AllocatorDescription, CountsCachedMemoryAsReserved) {
  any_allocator below = allocators::make("HOST", "host");
  // Bytes of HOST: `reserved` while 100 bytes are allocated, `cached` after the free, `kept` after
  // `release`. A limit passes `release` to its upstream; fixed_size has no `release`.
  for (auto const& [description, reserved, cached, kept] :
       {std::tuple{"limited('HOST', 1GiB)", bytes{100}, bytes{0}, bytes{0}},
        std::tuple{"slots('HOST', 4)", bytes{100}, bytes{100}, bytes{0}},
        std::tuple{"limited(slots('HOST', 4), 1GiB)", bytes{100}, bytes{100}, bytes{0}},
        std::tuple{"fixed_size('HOST', 128, 16)", 2_KiB, 2_KiB, 2_KiB},
        std::tuple{"mixed('HOST', max_slot=512, slab=4KiB)", 64_MiB, 64_MiB, bytes{0}}}) {
    SCOPED_TRACE(description);
    any_allocator source = allocators::make("upper", description);
    void* const a = source.allocate(100);
    EXPECT_EQ(below.counts().allocated, reserved);
    EXPECT_EQ(source.counts().reserved, reserved);
    EXPECT_EQ(source.counts().peak_reserved, reserved);
    EXPECT_EQ(source.counts().allocated, 100u);
    EXPECT_TRUE(source.deallocate(a));
    EXPECT_EQ(below.counts().allocated, cached);
    EXPECT_EQ(source.counts().reserved, cached);
    EXPECT_EQ(source.counts().allocated, 0u);
    EXPECT_EQ(source.counts().peak_allocated, 100u);
    source.release();
    EXPECT_EQ(below.counts().allocated, kept);
    EXPECT_EQ(source.counts().reserved, kept);
    EXPECT_EQ(source.counts().peak_reserved, reserved);
    allocators::destroy("upper");
    EXPECT_EQ(below.counts().allocated, 0u);
  }
}

TEST_F(AllocatorDescription, EnforcesLimits) {
  any_allocator limited = allocators::make("limited", "limited(host, 1KiB)");
  (void)limited.allocate(1000);
  EXPECT_THROW((void)limited.allocate(100), out_of_memory);
  any_allocator fixed = allocators::make("fixed", "fixed_size(host, 64)");
  EXPECT_THROW((void)fixed.allocate(65), out_of_memory);
}

TEST_F(AllocatorDescription, MakesPoolsWithOptions) {
  any_allocator source = allocators::make(
      "fields",
      "pool(host, first_block=64KiB, next_block = 32KiB, growth_percent=0, max_bytes=128KiB)");
  (void)source.allocate(60_KiB);
  EXPECT_EQ(source.counts().reserved, 64_KiB);
  (void)source.allocate(20_KiB);
  EXPECT_EQ(source.counts().reserved, 96_KiB);
  EXPECT_THROW((void)source.allocate(60_KiB), out_of_memory);
  EXPECT_EQ(registry::name_of(source.id()), "fields");

  auto const make_with = [](auto const& placement) {
    any_allocator other = allocators::make(
        placement.name, "pool(host, alignment=256, placement=" + std::string{placement.name} + ")");
    void* const a = other.allocate(1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a) % 256, 0u);
    operations::deallocate(a);
  };
  std::apply([&](auto const&... each) { (make_with(each), ...); }, named_placements);
  EXPECT_EQ(allocators::make("quiet", "pool(host, is_tracked=false)").id(), 0u);
}

TEST_F(AllocatorDescription, MakesPoolsThatCoalesce) {
  any_allocator source = allocators::make(
      "fields", "pool(host, first_block=64KiB, next_block=64KiB, coalesce=blocks_releasable(2))");
  void* const a = source.allocate(60_KiB);
  void* const b = source.allocate(60_KiB);
  operations::deallocate(a);
  EXPECT_EQ(source.counts().reserved, 128_KiB);
  operations::deallocate(b);
  EXPECT_EQ(source.counts().reserved, 128_KiB);
  EXPECT_EQ(source.size_of(source.allocate(120_KiB)), 120_KiB);
  EXPECT_EQ(source.counts().reserved, 128_KiB) << "one block";
  for (char const* const heuristic :
       {"never", "percent_releasable(50)", "percent_releasable(100, to_high_water)",
        "percent:100+hwm", "cost:3", "blocks:2+hwm+cbg", "blocks_releasable(3, before_growth)",
        "by_cost(10, to_high_water, before_growth)"}) {
    EXPECT_NO_THROW(
        (void)allocators::make(heuristic, "pool(host, coalesce=" + std::string{heuristic} + ")"));
  }
}

TEST_F(AllocatorDescription, PutsPoolsOverNamedAllocators) {
  any_allocator const host = allocators::make("HOST", "host");
  any_allocator fields = allocators::make("fields", "pool('HOST', first_block=64KiB)");
  any_allocator inner =
      allocators::make("inner", "pool(limited('fields', 40KiB), first_block=4KiB)");
  void* const a = inner.allocate(100);
  EXPECT_EQ(host.counts().allocated, 64_KiB);
  EXPECT_EQ(fields.counts().allocated, 4_KiB);
  EXPECT_EQ(allocators::owner_of(a), inner);
  EXPECT_THROW(allocators::destroy("HOST", unfreed_memory::discard), bad_argument);
}

/// An allocation over an allocator usually starts where an allocation of the lower allocator
/// starts, and may have the same size.
TEST_F(AllocatorDescription, FreesMemoryOfStackedAllocatorsByItsAddress) {
  (void)allocators::make("HOST", "host");
  (void)allocators::make("P", "pool('HOST', first_block=1MiB)");
  any_allocator other = allocators::make("other", "host");
  for (std::string const lower : {"'HOST'", "'P'"}) {
    for (std::string const upper :
         {"limited(", "slots(", "fixed_size(", "mixed(", "pool(", "limited(slots("}) {
      std::string description = upper + lower;
      if (upper == "limited(") description += ", 1GiB";
      if (upper == "slots(" || upper == "limited(slots(") description += ", 8";
      if (upper == "fixed_size(") description += ", 5000";
      description += upper == "limited(slots(" ? "), 1GiB)" : ")";
      SCOPED_TRACE(description);
      any_allocator source = allocators::make("upper", description);
      for (bytes const size : {0, 100, 5000}) {
        SCOPED_TRACE(size);
        auto* const a = static_cast<char*>(source.allocate(size));
        auto* const b = static_cast<char*>(source.allocate(size));
        EXPECT_EQ(allocators::owner_of(a), source);
        if (size != 0) {
          EXPECT_EQ(allocators::owner_of(b + size - 1), source);
          EXPECT_EQ(registry::find(b + size - 1)->size, size);
        }
        operations::deallocate(a);
        EXPECT_THROW(operations::deallocate(a), bad_argument);
        EXPECT_EQ(source.size_of(b), size);
        void* const c = operations::reallocate(b, 200);
        EXPECT_EQ(allocators::owner_of(c), source);
        void* const d = operations::move(c, other);
        EXPECT_EQ(allocators::owner_of(d), other);
        void* const e = operations::move(d, source);
        EXPECT_EQ(allocators::owner_of(e), source);
        EXPECT_THROW(operations::fill(e, 1, 201), bad_argument);
        operations::deallocate(e);
        EXPECT_EQ(source.counts().allocations_in_use, 0u);
      }
      allocators::destroy("upper");
    }
  }
}

TEST_F(AllocatorDescription, MakesAnAllocatorFromEachLineOfAFile) {
  auto const all = allocators::make_all(
      "# the program's allocators\n"
      "HOST = host\n"
      "\n"
      "  large fields = pool('HOST', first_block=64KiB)  # over HOST\r\n"
      "file's = file('/tmp')");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(allocators::names(), (std::vector<std::string>{"HOST", "file's", "large fields"}));
  EXPECT_TRUE(allocators::make_all("").empty());
  for (auto const& [lines, words] :
       {std::pair<char const*, char const*>{"a = host\nb = hots\n", "'hots', at byte 0"},
        {"a1 = host\nb = hots\n", "(line 2)"},
        {"\n\njust words", "is no 'name = description' (line 3)"},
        {"HOST = host", "there is an allocator 'HOST' already (line 1)"}}) {
    try {
      (void)allocators::make_all(lines);
      ADD_FAILURE() << lines;
    } catch (bad_argument const& failure) {
      EXPECT_NE(failure.message().find(words), std::string::npos) << failure.message();
    }
  }
  EXPECT_TRUE(allocators::contains("a1")) << "the lines before the error took effect";
}

TEST_F(AllocatorDescription, ReportsTheLineThatFailedForEveryKindOfError) {
  auto const failure_of = []<class Error>(std::type_identity<Error>, std::string const& lines) {
    try {
      (void)allocators::make_all(lines);
    } catch (Error const& failed) {
      EXPECT_EQ(failed.message(), std::string{failed.what()});
      return failed.message();
    }
    return std::string{"did not fail"};
  };
  std::string const name = "quarry_description_" + std::to_string(getpid());
  EXPECT_EQ(failure_of(std::type_identity<out_of_memory>{}, "\na = shared('" + name + "', 128TiB)"),
            "shared_resource " + name +
                ": no memory for 140737488355328 bytes: the request is "
                "larger than any resource can serve (max 64 TiB) (line 2)");
  int const file = shm_open(("/" + name).c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(ftruncate(file, 1), 0);
  close(file);
  EXPECT_EQ(failure_of(std::type_identity<resource_failed>{},
                       "b = host\n\nc = shared('" + name + "', 1MiB)"),
            "shared_resource /" + name +
                ": the existing object is not a segment of this library (line 3)");
  shm_unlink(("/" + name).c_str());
  EXPECT_TRUE(allocators::contains("b"));
}

TEST_F(AllocatorDescription, RefusesInvalidDescriptionsAndReportsThePosition) {
  for (auto const& [description, words] :
       std::initializer_list<std::pair<char const*, char const*>>{
           {"", "at byte 0: a word, a number or a name in quotes is missing"},
           {"hots", "at byte 0: there is no resource 'hots'; there are host, device"},
           {"host(1)", "at byte 5: 'host' takes no such argument here"},
           {"host host", "at byte 5: more than one description"},
           {"pool", "at byte 0: 'pool' needs a resource"},
           {"pool(host", "at byte 9: a comma or a closing parenthesis is missing"},
           {"pool(host,)", "at byte 10: a word, a number"},
           {"pool(hots)", "at byte 5: there is no resource 'hots'"},
           {"pool(pool(host))", "a pool under another has a name of its own"},
           {"pool(10)", "at byte 5: a resource is missing"},
           {"pool('none')", "there is no allocator 'none'"},
           {"'none'", "is the name of an allocator, not a description"},
           {"pool('none)", "at byte 5: the quote has no end"},
           {"pool(host, first=1)", "'pool' has no option 'first'"},
           {"pool(host, max_bytes=1, max_bytes=2)", "'max_bytes' comes twice"},
           {"pool(host, max_bytes=x)", "at byte 21: a number is missing"},
           {"pool(host, max_bytes=1MB)", "there is no unit 'MB'"},
           {"pool(host, max_bytes=99999999999999999999)", "the number is more than 2^64 - 1"},
           {"pool(host, max_bytes=99999999999TiB)", "the size is more than 2^64 - 1 bytes"},
           {"pool(host, growth_percent=5GiB)", "5368709120 is more than 4294967295"},
           {"pool(host, alignment=24)", "alignment is 24, not a power of two"},
           {"pool(host, placement=best)", "at byte 21: there is no placement 'best'"},
           {"pool(host, is_tracked=1)", "true or false is missing"},
           {"pool(host, coalesce=often)",
            "at byte 20: 'often' is no heuristic: 'often' is unknown. A heuristic is never, "
            "percent:N,"},
           {"pool(host, coalesce=by_cost)", "'by_cost' has no number from 0"},
           {"pool(host, coalesce=by_cost(1, now))",
            "'by_cost:1+now' is no heuristic: '+now' is unknown"},
           {"limited(host)", "'limited' needs a size"},
           {"limited(host, 'x')", "a number is missing"},
           {"file(tmp)", "a text in quotes is missing"},
           {"device(300)", "300 is more than 255"},
           {"mixed(host, slots=1)", "'mixed' has no option 'slots'"},
           {"mixed(host, slab=5000)", "slab 5000 are not powers of two"},
           {"slots(host, 0)", "slots is 0, not from 1 to 1024"},
           {"numa(4000)", "the system has no NUMA node 4000"}}) {
    std::string const message = refusal_of(description);
    EXPECT_NE(message.find(words), std::string::npos) << description << "\n" << message;
  }
  std::string deep = "host";
  for (int i = 0; i < 20; ++i) deep = "limited(" + deep + ", 1)";
  EXPECT_NE(refusal_of(deep).find("nested more than 16 deep"), std::string::npos);
  EXPECT_TRUE(allocators::names().empty());
}

/// A random text of the grammar's words makes an allocator or throws bad_argument, and has no other
/// effect.
TEST_F(AllocatorDescription, RefusesARandomTextOrMakesAnAllocator) {
  unsigned const seed = 3;
  std::mt19937 random{seed};
  std::vector<std::string> const parts{"host", "pool",  "limited", "(",     ")",      ",", "=",
                                       "1",    "64KiB", "most",    "slots", "'HOST'", "'", " "};
  (void)allocators::make("HOST", "host");
  int made = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto left = random() % 9; left != 0; --left) text += parts[random() % parts.size()];
    try {
      (void)allocators::make("random", text);
      allocators::destroy("random");
      ++made;
    } catch (bad_argument const& failure) {
      ASSERT_NE(failure.message().find("allocators: "), std::string::npos) << text;
    }
  }
  EXPECT_GT(made, 20);
  EXPECT_EQ(allocators::names(), (std::vector<std::string>{"HOST"}));
}

}  // namespace allocator_description_test
}  // namespace quarry::test

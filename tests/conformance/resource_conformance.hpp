// SPDX-License-Identifier: Apache-2.0
// The requirements for every resource and every pool. A test registers the suite for types with
//   static constexpr bytes alignment;
//   static constexpr bool is_touchable;      // whether the host can access the memory
//   static std::unique_ptr<Source> make();   // null if there is no such memory
//   void* allocate(bytes);
//   void deallocate(void*, bytes);
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>

namespace quarry::test {

/// A source of any type. The tests compile once: typed tests of all sources took a fifth of the
/// time of host_tests.
struct conforming_source {
  virtual ~conforming_source() = default;
  [[nodiscard]] virtual void* allocate(bytes size) = 0;
  virtual void deallocate(void* memory, bytes size) = 0;
  bytes alignment;
  bool is_touchable;

 protected:
  conforming_source(bytes given_alignment, bool can_be_touched)
      : alignment{given_alignment}, is_touchable{can_be_touched} {}
};

/// Makes a source of the type; null if there is no such memory.
template <class Source>
std::unique_ptr<conforming_source> make_conforming() {
  struct adapter final : conforming_source {
    explicit adapter(std::unique_ptr<Source> source)
        : conforming_source{Source::alignment, Source::is_touchable}, made{std::move(source)} {}
    [[nodiscard]] void* allocate(bytes size) override { return made->allocate(size); }
    void deallocate(void* memory, bytes size) override { made->deallocate(memory, size); }
    std::unique_ptr<Source> made;
  };
  auto made = Source::make();
  return made ? std::make_unique<adapter>(std::move(made)) : nullptr;
}

inline void allocates_aligned_memory_that_can_be_written(conforming_source& source) {
  for (bytes const size :
       {bytes{1}, bytes{7}, bytes{16}, bytes{100}, bytes{4096}, bytes{100'000}}) {
    void* const memory = source.allocate(size);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % source.alignment, 0u) << size;
    if (source.is_touchable) std::memset(memory, 0xa5, size);
    source.deallocate(memory, size);
  }
}

inline void allocations_of_size_zero_have_distinct_addresses(conforming_source& source) {
  void* const first = source.allocate(0);
  void* const second = source.allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  source.deallocate(first, 0);
  source.deallocate(second, 0);
}

inline void throws_if_it_has_no_memory_and_still_works(conforming_source& source) {
  for (bytes const size : {bytes{1} << 47, bytes{1} << 62, ~bytes{0}}) {
    try {
      (void)source.allocate(size);
      ADD_FAILURE() << "allocated " << size;
    } catch (std::bad_alloc const& failure) {
      ASSERT_NE(dynamic_cast<error const*>(&failure), nullptr);
      EXPECT_NE(std::string{failure.what()}.find(std::to_string(size)), std::string::npos)
          << failure.what();
    }
  }
  source.deallocate(source.allocate(64), 64);
}

/// Checks that allocations do not overlap and keep their contents.
inline void agrees_with_a_map_of_its_allocations(conforming_source& source) {
  std::mt19937 random{7};
  std::map<std::uintptr_t, std::pair<bytes, unsigned char>> allocated;
  for (int step = 0; step < 300; ++step) {
    if (random() % 2 == 0 && !allocated.empty()) {
      auto const victim =
          std::next(allocated.begin(), static_cast<std::ptrdiff_t>(random() % allocated.size()));
      auto const [size, fill] = victim->second;
      auto* const memory = reinterpret_cast<unsigned char*>(victim->first);
      for (bytes i = 0; source.is_touchable && i < size; ++i) ASSERT_EQ(memory[i], fill);
      source.deallocate(memory, size);
      allocated.erase(victim);
      continue;
    }
    bytes const size = random() % 3000;
    auto const fill = static_cast<unsigned char>(random());
    void* const memory = source.allocate(size);
    if (source.is_touchable) std::memset(memory, fill, size);
    auto const base = reinterpret_cast<std::uintptr_t>(memory);
    auto const next = allocated.lower_bound(base);
    ASSERT_TRUE(next == allocated.end() || base + size <= next->first);
    if (next != allocated.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first, base);
    }
    allocated[base] = {size, fill};
  }
  for (auto const& [base, contents] : allocated)
    source.deallocate(reinterpret_cast<void*>(base), contents.first);
}

/// One test of one source.
class conformance_test : public testing::Test {
 public:
  using maker = std::unique_ptr<conforming_source> (*)();
  using body = void (*)(conforming_source&);
  conformance_test(maker make, body test) : make_{make}, test_{test} {}
  void TestBody() override {
    auto const source = make_();
    if (!source) GTEST_SKIP() << "there is no such memory here";
    test_(*source);
  }

 private:
  maker make_;
  body test_;
};

inline void register_conformance(std::string const& suite, conformance_test::maker make) {
  std::pair<char const*, conformance_test::body> const tests[] = {
      {"AllocatesAlignedMemoryThatCanBeWritten", allocates_aligned_memory_that_can_be_written},
      {"AllocationsOfSizeZeroHaveDistinctAddresses",
       allocations_of_size_zero_have_distinct_addresses},
      {"ThrowsIfItHasNoMemoryAndStillWorks", throws_if_it_has_no_memory_and_still_works},
      {"AgreesWithAMapOfItsAllocations", agrees_with_a_map_of_its_allocations}};
  for (auto const& [name, test] : tests)
    testing::RegisterTest(suite.c_str(), name, nullptr, nullptr, __FILE__, __LINE__,
                          [make, body = test] { return new conformance_test{make, body}; });
}

/// Registers the suite `<name>/ResourceConformance/<number>` for each of the types. For the
/// initialiser of a variable. The suite has one thread.
#if defined(QUARRY_ONLY_TESTS_OF_THREADS)
template <class... Sources>
[[nodiscard]] bool conforms(char const* /*name*/, testing::Types<Sources...> /*types*/) {
  return false;
}
#else
template <class... Sources>
[[nodiscard]] bool conforms(std::string const& name, testing::Types<Sources...> /*types*/) {
  int number = 0;
  (register_conformance(name + "/ResourceConformance/" + std::to_string(number++),
                        &make_conforming<Sources>),
   ...);
  return true;
}
#endif

}  // namespace quarry::test

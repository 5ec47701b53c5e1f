// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/string.hpp"

#include "support/backends.hpp"

#include <string_view>

namespace quarry {
namespace string_test {

using namespace test;

constexpr std::uint32_t max_text = 256;

/// The text of one lane, for the host.
struct written {
  char text[max_text];
  std::uint32_t size;
};

QUARRY_HD void write(string<> const& source, written& result) {
  result.size = source.size();
  for (std::uint32_t i = 0; i < source.size() && i < max_text; ++i)
    result.text[i] = source.data()[i];
}

struct write_numbers {
  heap_ref heap;
  written* result;

  QUARRY_HD void operator()() const {
    string<> text{heap};
    (void)text.append_number(std::int64_t{-9223372036854775807} - 1);
    (void)text.append(" ");
    (void)text.append_number(~std::uint64_t{0});
    (void)text.append(" ");
    (void)text.append_number(0);
    (void)text.append(" ");
    (void)text.append_number(-7);
    (void)text.append(text);
    write(text, *result);
  }
};

/// Doubles a string until an append fails.
struct double_until_refused {
  heap_ref heap;
  std::uint32_t* size;
  std::uint32_t* wrong;

  QUARRY_HD void operator()() const {
    string<> text{heap};
    *wrong += text.append("ab") ? 0 : 1;
    while (text.append(text)) {
    }
    *size = text.size();
    for (std::uint32_t i = 0; i < text.size(); ++i) *wrong += text.data()[i] == "ab"[i % 2] ? 0 : 1;
    *wrong += text.data()[text.size()] == '\0' ? 0 : 1;
  }
};

/// Each lane appends chunks of `source` to two strings as its random numbers decide. Then it writes
/// both strings to `results` and compares them.
struct append_chunks {
  heap_ref heap;
  char const* source;  // 16 characters
  std::uint32_t seed;
  written* results;  // two for each lane
  std::int32_t* orders;

  QUARRY_HD void operator()() const {
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    string<> texts[2] = {string<>{heap}, string<>{heap}};
    std::uint32_t random = mix(seed * 1000 + rank);
    for (std::uint32_t i = 0; i < 12; ++i) {
      random = mix(random + i);
      std::uint32_t const begin = random % 16;
      (void)texts[i % 2].append(source + begin, (random / 16) % (17 - begin));
      if (random % 29 == 0) texts[i % 2].clear();
    }
    for (std::uint32_t i = 0; i < 2; ++i) write(texts[i], results[2 * rank + i]);
    orders[rank] = texts[0].compare(texts[1]);
  }
};

template <class Backend>
struct String : testing::Test {};
TYPED_TEST_SUITE(String, backends, backend_names);

TYPED_TEST(String, WritesTheSmallestAndTheLargestNumbers) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<written> result(1);
  backend.run({}, write_numbers{heap.ref(), result.data()});
  std::string const numbers = "-9223372036854775808 18446744073709551615 0 -7";
  EXPECT_EQ(std::string_view(result[0].text, result[0].size), numbers + numbers);
  expect_sound_and_empty(heap);
}

TYPED_TEST(String, KeepsItsTextWhenItCannotGrow) {
  TypeParam const backend;
  auto const heap = backend.make_heap({.bytes = 256_KiB, .segment_bytes = 64_KiB});
  typename TypeParam::template array<std::uint32_t> size(1), wrong(1);
  backend.run({}, double_until_refused{heap.ref(), size.data(), wrong.data()});
  EXPECT_GE(size[0], 1024u);
  EXPECT_EQ(wrong[0], 0u);
  expect_sound(heap);
  EXPECT_TRUE(heap.live_allocations().empty());
}

TYPED_TEST(String, AgreesWithTheStandardStringOnAppendAndOrder) {
  for (auto const seed : TypeParam::seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TypeParam const backend{seed};
    auto const heap = backend.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB});
    std::string_view const letters{
        "aaab\0aa\xFF"
        "bbaaaaab",
        16};
    typename TypeParam::template array<char> source(16);
    std::copy(letters.begin(), letters.end(), source.begin());
    typename TypeParam::template array<written> results(2 * 128);
    typename TypeParam::template array<std::int32_t> orders(128);
    backend.run(small_grid,
                append_chunks{heap.ref(), source.data(), static_cast<std::uint32_t>(seed),
                              results.data(), orders.data()});
    for (std::uint32_t rank = 0; rank < 128; ++rank) {
      std::string texts[2];
      std::uint32_t random = mix(static_cast<std::uint32_t>(seed) * 1000 + rank);
      for (std::uint32_t i = 0; i < 12; ++i) {
        random = mix(random + i);
        std::uint32_t const begin = random % 16;
        texts[i % 2].append(letters.substr(begin, (random / 16) % (17 - begin)));
        if (random % 29 == 0) texts[i % 2].clear();
      }
      for (std::uint32_t i = 0; i < 2; ++i) {
        ASSERT_EQ(std::string_view(results[2 * rank + i].text, results[2 * rank + i].size),
                  texts[i]);
      }
      int const order = texts[0].compare(texts[1]);
      EXPECT_EQ(orders[rank], order < 0 ? -1 : order > 0 ? 1 : 0);
    }
    expect_sound_and_empty(heap);
  }
}

}  // namespace string_test
}  // namespace quarry

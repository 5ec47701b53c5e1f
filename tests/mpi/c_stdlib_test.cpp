// SPDX-License-Identifier: Apache-2.0
// Random numbers, sorting and memory of the C library.
#include "mpi/support/one_rank.hpp"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
void quarry_c_srand(unsigned);
int quarry_c_rand();
long quarry_c_random();
int quarry_c_rand_r(unsigned*);
void quarry_c_srand48(long);
double quarry_c_drand48();
long quarry_c_lrand48();
long quarry_c_mrand48();
double quarry_c_erand48(unsigned short*);
void quarry_c_qsort(void*, unsigned long, unsigned long, int (*)(void const*, void const*));
void* quarry_c_bsearch(void const*, void const*, unsigned long, unsigned long,
                       int (*)(void const*, void const*));
void* quarry_c_malloc(unsigned long);
void* quarry_c_calloc(unsigned long, unsigned long);
void* quarry_c_realloc(void*, unsigned long);
void quarry_c_free(void*);
int quarry_c_posix_memalign(void**, unsigned long, unsigned long);
char* quarry_c_getenv(char const*);
long quarry_c_sysconf(int);
int quarry_c_gethostname(char*, unsigned long);
int quarry_c_uname(utsname*);
int quarry_c_getrusage(int, rusage*);
char* quarry_c_setlocale(int, char const*);
int quarry_c_atexit(void (*)());
int* quarry_c___errno_location();
}

namespace quarry::mpi_test {
namespace {

class CStdlib : public OneRank {};

TEST_F(CStdlib, HasTheHostsSequenceOfRand) {
  std::srand(1);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(quarry_c_rand(), std::rand());  // without srand
  for (unsigned const seed : {0u, 2u, 42u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    std::srand(seed);
    quarry_c_srand(seed);
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(quarry_c_rand(), std::rand()) << seed;
      ASSERT_EQ(quarry_c_random(), ::random()) << seed;
    }
  }
}

TEST_F(CStdlib, HasTheHostsOtherSequences) {
  unsigned expected_seed = 5;
  unsigned seed = 5;
  srand48(0);
  ASSERT_EQ(sizeof(long), 8u);
  quarry_c_srand48(-3);
  srand48(-3);
  unsigned short words[3] = {1, 2, 65535};
  unsigned short expected_words[3] = {1, 2, 65535};
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(quarry_c_rand_r(&seed), rand_r(&expected_seed));
    ASSERT_EQ(quarry_c_drand48(), drand48());
    ASSERT_EQ(quarry_c_lrand48(), lrand48());
    ASSERT_EQ(quarry_c_mrand48(), mrand48());
    ASSERT_EQ(quarry_c_erand48(words), erand48(expected_words));
  }
}

struct keyed {
  int key, position;
};
int by_key(void const* a, void const* b) {
  return static_cast<keyed const*>(a)->key - static_cast<keyed const*>(b)->key;
}

TEST_F(CStdlib, SortsAndKeepsTheOrderOfEqualElements) {
  chooser choose{10};
  for (int i = 0; i < 300; ++i) {
    std::vector<keyed> actual(static_cast<std::size_t>(choose.below(200)));
    for (std::size_t j = 0; j < actual.size(); ++j)
      actual[j] = {choose.below(50), static_cast<int>(j)};
    auto expected = actual;
    std::ranges::stable_sort(expected, {}, &keyed::key);
    quarry_c_qsort(actual.data(), actual.size(), sizeof(keyed), by_key);
    for (std::size_t j = 0; j < actual.size(); ++j) {
      ASSERT_EQ(actual[j].key, expected[j].key);
      ASSERT_EQ(actual[j].position, expected[j].position);
    }
  }
}

int by_first_byte(void const* a, void const* b) {
  return *static_cast<unsigned char const*>(a) - *static_cast<unsigned char const*>(b);
}

/// Also elements that are sorted in parts, whose runs are not compared one by one.
TEST_F(CStdlib, SortsElementsOfAnySizeAtAnyAddress) {
  chooser choose{12};
  for (std::size_t const size : {1u, 3u, 4u, 8u, 12u, 40u})
    for (std::size_t const shift : {0u, 1u, 4u})
      for (int const part : {0, 5, 64}) {
        std::vector<std::string> expected;
        for (int i = 0; i < 200; ++i) {
          std::string element(size, static_cast<char>(i));
          element[0] = static_cast<char>(part == 0 ? choose.below(100) : i % part * 100 / part);
          expected.push_back(element);
        }
        alignas(8) char memory[200 * 40 + 8];
        for (std::size_t i = 0; i < expected.size(); ++i)
          std::memcpy(memory + shift + i * size, expected[i].data(), size);
        std::ranges::stable_sort(expected, {}, [](std::string const& element) {
          return static_cast<unsigned char>(element[0]);
        });
        quarry_c_qsort(memory + shift, expected.size(), size, by_first_byte);
        for (std::size_t i = 0; i < expected.size(); ++i)
          ASSERT_EQ(std::string(memory + shift + i * size, size), expected[i]) << size << shift;
      }
}

TEST_F(CStdlib, SortsInPlaceWhatTheHeapCannotCopy) {
  chooser choose{11};
  std::vector<keyed> actual(5'000'000);  // 40 MB; the heap has 64 MiB, in parts
  std::vector<void*> parts;
  while (void* const part = quarry_c_malloc(1 << 20)) parts.push_back(part);
  actual.resize(3000);
  for (auto& element : actual) element = {choose.below(1000), 0};
  while (void* const part = quarry_c_malloc(3000)) parts.push_back(part);
  quarry_c_qsort(actual.data(), actual.size(), sizeof(keyed), by_key);
  EXPECT_TRUE(std::ranges::is_sorted(actual, {}, &keyed::key));
}

TEST_F(CStdlib, FindsElements) {
  keyed const elements[] = {{1, 0}, {3, 1}, {5, 2}, {7, 3}};
  for (int key = 0; key < 9; ++key) {
    keyed const wanted{key, 0};
    auto const* const found = static_cast<keyed const*>(
        quarry_c_bsearch(&wanted, elements, std::size(elements), sizeof(keyed), by_key));
    EXPECT_EQ(found, key % 2 == 1 && key < 8 ? elements + key / 2 : nullptr) << key;
  }
}

TEST_F(CStdlib, AllocatesMemory) {
  auto* memory = static_cast<char*>(quarry_c_calloc(10, 10));
  EXPECT_TRUE(std::all_of(memory, memory + 100, [](char c) { return c == 0; }));
  memory[99] = 'x';
  memory = static_cast<char*>(quarry_c_realloc(memory, 10000));
  EXPECT_EQ(memory[99], 'x');
  quarry_c_free(memory);
  quarry_c_free(nullptr);
  void* aligned = nullptr;
  EXPECT_EQ(quarry_c_posix_memalign(&aligned, 256, 100), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 256, 0u);
}

TEST_F(CStdlib, RefusesMemoryThatDoesNotExist) {
  void* memory = nullptr;
  EXPECT_EQ(quarry_c_posix_memalign(&memory, 24, 100), EINVAL);
  EXPECT_EQ(quarry_c_calloc(1ul << 40, 1ul << 40), nullptr);
  EXPECT_EQ(quarry_c_malloc(1ul << 40), nullptr);
  EXPECT_EQ(*quarry_c___errno_location(), ENOMEM);
}

TEST_F(CStdlib, IsAComputerWithOneProcessor) {
  EXPECT_EQ(quarry_c_sysconf(_SC_NPROCESSORS_ONLN), 1);
  EXPECT_EQ(quarry_c_sysconf(_SC_PAGESIZE), 4096);
  EXPECT_EQ(quarry_c_sysconf(-5), -1);
  char name[4];
  EXPECT_EQ(quarry_c_gethostname(name, 4), 0);
  EXPECT_STREQ(name, "cpu");
  utsname system{};
  quarry_c_uname(&system);
  EXPECT_STREQ(system.sysname, "Quarry");
  rusage usage{};
  EXPECT_EQ(quarry_c_getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_STREQ(quarry_c_setlocale(LC_ALL, ""), "C");
}

TEST_F(CStdlib, ReadsTheEnvironmentOfTheLauncher) {
  EXPECT_STREQ(quarry_c_getenv("HOME"), "/home/user");
  EXPECT_STREQ(quarry_c_getenv("EMPTY"), "");
  EXPECT_EQ(quarry_c_getenv("HOM"), nullptr);
}

std::string& calls() {
  static std::string all;
  return all;
}

TEST_F(CStdlib, CallsTheFunctionsOfAtexitFromTheLastToTheFirst) {
  calls().clear();
  quarry_c_atexit([] { calls() += '1'; });
  quarry_c_atexit([] { calls() += '2'; });
  leave_library(world_.rank());
  EXPECT_EQ(calls(), "21");
}

}  // namespace
}  // namespace quarry::mpi_test

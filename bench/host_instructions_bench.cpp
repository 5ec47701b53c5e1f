// SPDX-License-Identifier: Apache-2.0
// How many instructions do host pools and lookups take? Unlike times, instruction counts do not
// vary between runs.
//
//   host_instructions_bench [quarry]         counts all cases with callgrind
//   host_instructions_bench CASE COUNT       does the work of one case COUNT times
//
// Callgrind runs this program twice with different counts. The difference is the cost of the work,
// with its calls and its loop. Without valgrind there is no result. A pair of `replace` deallocates
// a random live allocation and allocates a random size.
#include "harness.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>

namespace {

using quarry::bytes;

struct c_library {
  void* allocate(bytes size) { return std::malloc(size); }
  void deallocate(void* memory) { std::free(memory); }
};
template <bool Tracked>
struct pooled {
  quarry::pool<quarry::host_resource> pool{quarry::host_resource{}, {.is_tracked = Tracked}};
  void* allocate(bytes size) { return pool.allocate(size); }
  void deallocate(void* memory) { pool.deallocate(memory); }
};

template <class Source>
[[gnu::noinline]] void* allocate(Source& source, bytes size) {
  return source.allocate(size);
}
template <class Source>
[[gnu::noinline]] void deallocate(Source& source, void* memory) {
  source.deallocate(memory);
}

template <class Source>
void pair_of_64(std::size_t count) {
  Source source;
  for (std::size_t i = 0; i < count; ++i) deallocate(source, allocate(source, 64));
}
template <class Source>
void replace(std::size_t count, std::size_t allocated, bytes maximum) {
  Source source;
  std::minstd_rand random{1};
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < allocated; ++i)
    pointers.push_back(allocate(source, 1 + random() % maximum));
  for (std::size_t i = 0; i < count; ++i) {
    void*& victim = pointers[random() % allocated];
    deallocate(source, victim);
    victim = allocate(source, 1 + random() % maximum);
  }
}
void find(std::size_t count, bool is_interior) {
  pooled<true> source;
  std::minstd_rand random{1};
  std::vector<char*> addresses;
  for (std::size_t i = 0; i < 1000; ++i) {
    bytes const size = 1 + random() % 8192;
    addresses.push_back(static_cast<char*>(source.allocate(size)) + (is_interior ? size / 2 : 0));
  }
  std::shuffle(addresses.begin(), addresses.end(), random);
  for (std::size_t i = 0; i < count; ++i) {
    if (!quarry::registry::find(addresses[i % addresses.size()])) std::abort();
  }
}

struct work {
  char const* name;
  void (*run)(std::size_t count);
};
constexpr work cases[] = {
    {"pair of 64 B, malloc", [](std::size_t n) { pair_of_64<c_library>(n); }},
    {"pair of 64 B, pool", [](std::size_t n) { pair_of_64<pooled<false>>(n); }},
    {"pair of 64 B, tracked pool", [](std::size_t n) { pair_of_64<pooled<true>>(n); }},
    {"replace 1..4096 B of 10000, malloc",
     [](std::size_t n) { replace<c_library>(n, 10'000, 4096); }},
    {"replace 1..4096 B of 10000, tracked pool",
     [](std::size_t n) { replace<pooled<true>>(n, 10'000, 4096); }},
    {"replace 1 B..1 MiB of 1000, tracked pool",
     [](std::size_t n) { replace<pooled<true>>(n, 1000, bytes{1} << 20); }},
    {"lookup of a first byte", [](std::size_t n) { find(n, false); }},
    {"lookup of an interior pointer", [](std::size_t n) { find(n, true); }},
};

/// The instructions that callgrind counts for a case; 0 if there is no valgrind.
double count_instructions(char const* program, char const* name, std::size_t count) {
  std::string const command =
      std::string{"valgrind --tool=callgrind --callgrind-out-file=/dev/null '"} + program + "' '" +
      name + "' " + std::to_string(count) + " 2>&1";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const output{popen(command.c_str(), "r"), pclose};
  char line[256];
  double result = 0;
  while (output != nullptr && std::fgets(line, sizeof line, output.get()) != nullptr) {
    if (char const* const found = std::strstr(line, "Collected :")) result = std::atof(found + 11);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    for (work const& benched : cases) {
      if (std::string_view{argv[1]} != benched.name) continue;
      benched.run(std::strtoull(argv[2], nullptr, 10));
      return 0;
    }
    std::fprintf(stderr, "host_instructions_bench: unknown case '%s'\n", argv[1]);
    return 2;
  }
  if (!bench::is_requested(argc, argv)) return 0;
  constexpr std::size_t short_run = 20'000, long_run = 60'000;
  for (work const& benched : cases) {
    double const short_count = count_instructions(argv[0], benched.name, short_run);
    double const long_count = count_instructions(argv[0], benched.name, long_run);
    if (short_count == 0 || long_count == 0) {
      std::fprintf(stderr, "host_instructions_bench: cannot run valgrind, so nothing is counted\n");
      return 0;
    }
    bench::record("host/instructions", bench::parameters{}.add("case", benched.name),
                  (long_count - short_count) / (long_run - short_run), "instructions");
  }
}

// SPDX-License-Identifier: Apache-2.0
// How many instructions do host pools and lookups take? Unlike times, these do not waver.
//
//   host_instructions_bench [quarry]         all cases, each counted by callgrind
//   host_instructions_bench CASE COUNT       does the work of one case, COUNT times
//
// Callgrind runs this program twice with different counts; the difference is what the work takes,
// calls and loop included. Without valgrind there is no result. Pairs of `replace` are a
// deallocation of one of the live allocations at random, and an allocation of a random size.
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
  quarry::pool<quarry::host_resource> from{quarry::host_resource{}, {.is_tracked = Tracked}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* memory) { from.deallocate(memory); }
};

template <class From>
[[gnu::noinline]] void* take(From& from, bytes size) {
  return from.allocate(size);
}
template <class From>
[[gnu::noinline]] void give(From& from, void* memory) {
  from.deallocate(memory);
}

template <class From>
void pair_of_64(std::size_t count) {
  From from;
  for (std::size_t i = 0; i < count; ++i) give(from, take(from, 64));
}
template <class From>
void replace(std::size_t count, std::size_t allocated, bytes maximum) {
  From from;
  std::minstd_rand random{1};
  std::vector<void*> reserved;
  for (std::size_t i = 0; i < allocated; ++i)
    reserved.push_back(take(from, 1 + random() % maximum));
  for (std::size_t i = 0; i < count; ++i) {
    void*& one = reserved[random() % allocated];
    give(from, one);
    one = take(from, 1 + random() % maximum);
  }
}
void look(std::size_t count, bool is_in_the_midst) {
  pooled<true> from;
  std::minstd_rand random{1};
  std::vector<char*> addresses;
  for (std::size_t i = 0; i < 1000; ++i) {
    bytes const size = 1 + random() % 8192;
    addresses.push_back(static_cast<char*>(from.allocate(size)) + (is_in_the_midst ? size / 2 : 0));
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
    {"lookup of a first byte", [](std::size_t n) { look(n, false); }},
    {"lookup of an interior pointer", [](std::size_t n) { look(n, true); }},
};

/// What callgrind counts of a case; 0 if there is no valgrind.
double counted(char const* program, char const* name, std::size_t count) {
  std::string const command =
      std::string{"valgrind --tool=callgrind --callgrind-out-file=/dev/null '"} + program + "' '" +
      name + "' " + std::to_string(count) + " 2>&1";
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const out{popen(command.c_str(), "r"), pclose};
  char line[256];
  double result = 0;
  while (out != nullptr && std::fgets(line, sizeof line, out.get()) != nullptr) {
    if (char const* const found = std::strstr(line, "Collected :")) result = std::atof(found + 11);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    for (work const& each : cases) {
      if (std::string_view{argv[1]} != each.name) continue;
      each.run(std::strtoull(argv[2], nullptr, 10));
      return 0;
    }
    std::fprintf(stderr, "host_instructions_bench: there is no case '%s'\n", argv[1]);
    return 2;
  }
  if (!bench::is_asked_for(argc, argv)) return 0;
  constexpr std::size_t few = 20'000, many = 60'000;
  for (work const& each : cases) {
    double const less = counted(argv[0], each.name, few), more = counted(argv[0], each.name, many);
    if (less == 0 || more == 0) {
      std::fprintf(stderr, "host_instructions_bench: valgrind does not run here\n");
      return 0;
    }
    bench::record("host/instructions", bench::parameters{}.add("case", each.name),
                  (more - less) / (many - few), "instructions");
  }
}

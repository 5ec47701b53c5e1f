// SPDX-License-Identifier: Apache-2.0
// Reads any file as a plan. Saves a plan that is accepted, reads it again, and serves requests from
// it, which need not follow it. Link with libFuzzer, or with main.cpp.
//
// The first byte of the input selects what the file is made of.
#include "fuzz/byte_source.hpp"
#include "fuzz/fuzz_file.hpp"
#include "quarry/host/pools/planned_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/trace.hpp"
#include "trace/codec.hpp"

#include <cstdio>
#include <map>
#include <string>

namespace quarry::test {
namespace {

[[nodiscard]] std::string with_checksum(std::string text) {
  char line[32];
  auto const crc =
      trace::codec::crc32c({reinterpret_cast<unsigned char const*>(text.data()), text.size()});
  std::snprintf(line, sizeof line, "crc32c %08x\n", static_cast<unsigned>(crc));
  return text + line;
}

/// A file in which most lines have the right form, and most plans keep the invariants.
[[nodiscard]] std::string plan_text(byte_source& input) {
  bytes const alignment = bytes{1} << input.range(3, 15);
  std::size_t const count = input.range(0, 40), period_begin = input.range(0, count + 1);
  bytes const units = input.range(0, 60);
  std::string text = "quarry-plan 1\nalignment " + std::to_string(alignment) + "\nbytes " +
                     std::to_string(units * alignment) + "\nlower_bound " +
                     std::to_string(input.range(0, units) * alignment) + "\nperiod_begin " +
                     std::to_string(period_begin) + "\nmethod " +
                     (input.chance(128) ? "x" : "none") + "\nallocations " + std::to_string(count) +
                     "\n";
  for (std::size_t i = 0; i < count; ++i) {
    bytes const size = (1 + input.range(0, 4)) * alignment;
    std::uint64_t const freed = input.chance(8) ? input.u64() : i + input.range(0, 8);
    text += std::to_string(input.chance(4) ? input.u64() : size) + ' ';
    text += input.chance(16) ? "-" : std::to_string(input.range(0, units) * alignment);
    text += ' ' + std::to_string(freed) + '\n';
  }
  if (input.chance(16)) text[input.index(text.size())] = static_cast<char>(input.u8());
  return with_checksum(text);
}

void serve(plan const& served, byte_source& input) {
  planned_pool_options options{.fallback = {.first_block = 4096, .next_block = 4096}};
  options.fallback.max_bytes = bytes{1} << 40;
  options.lookahead = static_cast<std::uint32_t>(input.range(0, 20));
  try {
    planned_pool tested{simulated_resource{}, served, options};
    std::map<std::uint64_t, bytes> live;
    std::size_t next = 0;
    while (!input.is_exhausted()) {
      if (input.chance(100) && !live.empty()) {
        auto const victim = std::next(live.begin(), std::ptrdiff_t(input.index(live.size())));
        auto* const pointer = reinterpret_cast<void*>(victim->first);
        expect(tested.size_of(pointer) == victim->second, "the size of an allocation is lost");
        expect(tested.deallocate(pointer), "a free is refused");
        expect(!tested.deallocate(pointer), "a second free is accepted");
        live.erase(victim);
        continue;
      }
      if (input.chance(8)) tested.restart();
      bool const follows = input.chance(224) && !served.allocations.empty();
      bytes const size = follows ? served.allocations[next++ % served.allocations.size()].size
                                 : input.size(100'000);
      auto const base = reinterpret_cast<std::uint64_t>(tested.allocate(size));
      auto const above = live.lower_bound(base);
      expect(above == live.end() || base + std::max<bytes>(size, 1) <= above->first,
             "two allocations overlap");
      expect(above == live.begin() || std::prev(above)->first + std::prev(above)->second <= base,
             "two allocations overlap");
      live[base] = size;
    }
    expect(tested.audit().empty(), "the pool violates an invariant");
    expect(tested.counts().allocations_in_use == live.size(), "the count is wrong");
  } catch (out_of_memory const&) {  // the plan, or a request, is too large
  }
}

void run_plan(byte_source& input) {
  static fuzz_file const file{"-plan"}, copy{"-plan-copy"};
  std::uint8_t const choice = input.u8() % 4;
  std::string text;
  if (choice == 0) {
    if (input.chance(128)) text = "quarry-plan 1\n";
    while (!input.is_exhausted()) text += static_cast<char>(input.u8());
    if (input.u8() % 2 == 0) text = with_checksum(text);
  } else {
    text = plan_text(input);
  }
  file.write(text);
  plan read;
  try {
    read = load_plan(file.path());
  } catch (bad_plan const& refused) {
    expect(refused.message().starts_with(file.path()), "a refusal that does not name the file");
    return;
  }
  expect(audit(read).empty(), "a plan was accepted that violates an invariant");
  save(read, copy.path());
  expect(load_plan(copy.path()) == read, "the copy differs");
  serve(read, input);
}

}  // namespace
}  // namespace quarry::test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  quarry::test::byte_source input{data, size};
  quarry::test::run_plan(input);
  return 0;
}

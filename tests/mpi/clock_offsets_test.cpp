// SPDX-License-Identifier: Apache-2.0
// Clocks of GPUs against a model whose offsets are known, and the correction of traces.
#include "mpi/clock_offsets.hpp"
#include "mpi/support/ranks.hpp"
#include "mpi/trace_file.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace quarry::mpi_test {
namespace {

using namespace quarry::mpi;

/// A GPU whose clock is the host's, less an offset. Answers take random times.
struct model_clock {
  std::int64_t offset;
  std::vector<clock_exchange> exchanges;

  model_clock(test::shared_random& random, int count) : offset{random.below(200'000) - 100'000} {
    std::uint64_t now = (std::uint64_t{1} << 60) + static_cast<std::uint64_t>(random.below(1000));
    for (int i = 0; i < count; ++i) {
      std::uint64_t const before = now;
      now += static_cast<std::uint64_t>(random.below(random.below(4) == 0 ? 50'000 : 3000));
      auto const device = now - static_cast<std::uint64_t>(offset);
      now += static_cast<std::uint64_t>(random.below(3000));
      exchanges.push_back({before, device, now});
      now += static_cast<std::uint64_t>(random.below(500));
    }
  }
};

std::uint64_t distance(std::int64_t left, std::int64_t right) {
  return static_cast<std::uint64_t>(left < right ? right - left : left - right);
}

TEST(ClockOffsets, AreThoseOfTheModelWithinTheirError) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::shared_random random{seed};
    std::vector<model_clock> models;
    std::vector<clock_offset> to_host;
    for (int gpu = random.below(8); gpu >= 0; --gpu) {
      models.emplace_back(random, 1 + random.below(30));
      to_host.push_back(offset_to_host(models.back().exchanges));
      std::uint64_t shortest = ~std::uint64_t{0};
      for (auto const& each : models.back().exchanges)
        shortest = std::min(shortest, each.after - each.before);
      ASSERT_EQ(to_host.back().error, (shortest + 1) / 2);
      ASSERT_LE(distance(to_host.back().offset, models.back().offset), to_host.back().error);
    }
    gpu_clocks const found = clocks_of(to_host);
    ASSERT_EQ(found.offsets.size(), models.size());
    ASSERT_EQ(found.offsets[0], 0);
    for (std::size_t i = 0; i < models.size(); ++i)
      for (std::size_t k = 0; k < models.size(); ++k)
        ASSERT_LE(
            distance(found.offsets[i] - found.offsets[k], models[i].offset - models[k].offset),
            i == k ? 0 : found.error);
  }
}

TEST(ClockOffsets, OfTheShortestExchangeCount) {
  clock_offset const found = offset_to_host({{0, 100, 50}, {1000, 900, 1007}, {2000, 1, 9000}});
  EXPECT_EQ(found.offset, 103);  // 1003 - 900
  EXPECT_EQ(found.error, 4u);
  EXPECT_EQ(clocks_of({{0, 5}, {0, 1}, {0, 3}}).error, 8u);
  EXPECT_EQ(clocks_of({{7, 5}}).error, 5u);
}

/// The head of a trace of four ranks on two GPUs, and the times of its records.
struct written_trace {
  std::string head;
  std::vector<trace_record> records;

  explicit written_trace(gpu_clocks const& clocks) {
    auto const path = std::filesystem::temp_directory_path() /
                      ("quarry_clock_offsets_" + std::to_string(::getpid()) + ".trace");
    launch_options asked;
    asked.ranks = 4;
    asked.uses_gpu = true;
    asked.trace = path.string();
    asked.trace_events = 3;
    trace_writer writer{asked,
                        {{0, 2}, clocks},
                        {"", "MPI_Send"},
                        [] { return std::vector<rank_trace>(4, rank_trace{.written = 2}); },
                        [](trace_record* to, std::uint64_t, std::uint64_t count) {
                          for (std::uint64_t i = 0; i < count; ++i)
                            to[i] = {.begin = 100'000 + i, .end = i == 0 ? 100'500u : 0u};
                        }};
    writer.write({""});
    std::ifstream file{path, std::ios::binary};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    std::filesystem::remove(path);
    auto const line = text.find('\n') + 1;
    head = text.substr(line, text.find('\n', line) - line);
    records.resize(8);
    std::memcpy(records.data(), text.data() + text.size() - 8 * sizeof(trace_record),
                8 * sizeof(trace_record));
  }
};

TEST(TraceWriter, CorrectsTheTimesOfOtherGpus) {
  written_trace const trace{{{0, -42'000}, 1800}};
  EXPECT_NE(trace.head.find(R"("gpu_ranks":[0,2],"clock_offsets_ns":[0,-42000],)"
                            R"("clock_error_ns":1800,)"),
            std::string::npos)
      << trace.head;
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint64_t const moved = i < 4 ? 0 : 42'000;
    EXPECT_EQ(trace.records[i].begin, 100'000 + i % 2 - moved);
    EXPECT_EQ(trace.records[i].end, i % 2 == 0 ? 100'500 - moved : 0) << "0: not returned";
  }
}

TEST(TraceWriter, LeavesTimesAloneIfTheClocksAreNotKnown) {
  written_trace const trace{{}};
  EXPECT_NE(trace.head.find(R"("gpu_ranks":[0,2],"resolution_ns")"), std::string::npos);
  EXPECT_EQ(trace.records[7].begin, 100'001u);
}

}  // namespace
}  // namespace quarry::mpi_test

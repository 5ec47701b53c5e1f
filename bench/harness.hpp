// SPDX-License-Identifier: Apache-2.0
// Shared by all benchmarks: memory, timing by the machine's own clock, medians, and JSON lines.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/this_lane.hpp"
#ifdef __CUDACC__
#include "quarry/simt/launch.cuh"
#else
#include "quarry/simt/launch.hpp"
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

// A program may have this code twice: for a GPU, and for the CPU. Each copy has its own namespace,
// so that the linker does not merge the copies.
#ifdef __CUDACC__
#define BENCH_COPY for_gpu
#else
#define BENCH_COPY for_cpu
#endif

namespace bench::inline BENCH_COPY {

using namespace quarry::literals;
using quarry::bytes;
using quarry::simt::grid;

#ifdef __CUDACC__
inline constexpr bool on_gpu = true;
#else
inline constexpr bool on_gpu = false;
#endif

/// An array that kernels can access.
template <class T>
class array {
 public:
  explicit array(std::size_t count) : count_{count} {
#ifdef __CUDACC__
    quarry::simt::check_cuda(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    zero();
#else
    data_ = static_cast<T*>(std::calloc(count, sizeof(T)));
#endif
  }
  array(array const&) = delete;
  array& operator=(array const&) = delete;
  ~array() {
#ifdef __CUDACC__
    cudaFree(data_);
#else
    std::free(data_);
#endif
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }

  void zero() {
#ifdef __CUDACC__
    quarry::simt::check_cuda(cudaMemset(data_, 0, count_ * sizeof(T)), "cudaMemset");
#else
    std::memset(data_, 0, count_ * sizeof(T));
#endif
  }
  [[nodiscard]] std::vector<T> to_host() const {
    std::vector<T> copy(count_);
#ifdef __CUDACC__
    quarry::simt::check_cuda(cudaMemcpy(copy.data(), data_, count_ * sizeof(T), cudaMemcpyDefault),
                             "cudaMemcpy");
#else
    std::memcpy(copy.data(), data_, count_ * sizeof(T));
#endif
    return copy;
  }
  void from_host(std::span<T const> source) {
#ifdef __CUDACC__
    quarry::simt::check_cuda(
        cudaMemcpy(data_, source.data(), source.size_bytes(), cudaMemcpyDefault), "cudaMemcpy");
#else
    std::memcpy(data_, source.data(), source.size_bytes());
#endif
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

#ifdef __CUDACC__
/// Keeps the device busy while the host queues the kernel and its events. So the time between the
/// events contains no launch latency.
static __global__ void spin(long long cycles) {
  auto const begin = clock64();
  while (clock64() - begin < cycles) {
  }
}
#endif

/// Runs the kernel and returns its duration in milliseconds, by events on CUDA and by the clock on
/// the CPU. Throws if the kernel fails.
template <class Kernel>
double time_ms(grid lanes, Kernel const& kernel) {
#ifdef __CUDACC__
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  spin<<<1, 1>>>(40000);
  cudaEventRecord(begin);
  quarry::simt::launch_cuda(lanes, kernel);
  cudaEventRecord(end);
  quarry::simt::check_cuda(cudaEventSynchronize(end), "kernel");
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return static_cast<double>(ms);
#else
  auto const begin = std::chrono::steady_clock::now();
  quarry::simt::launch_threads(lanes, std::max(1u, std::thread::hardware_concurrency()), kernel);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
#endif
}

/// The clock of a lane, which times single calls. `tick` is its unit.
#ifdef __CUDACC__
inline constexpr char const* tick = "cycles";
#else
inline constexpr char const* tick = "ns";
#endif
[[nodiscard]] QUARRY_HD inline std::uint32_t ticks() {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(clock64());
#else
  return static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds{1});
#endif
}

/// Runs the kernel without timing it.
template <class Kernel>
void run(grid lanes, Kernel const& kernel) {
  (void)time_ms(lanes, kernel);
}

/// Lanes in blocks of 256.
inline grid lanes(std::uint64_t count) {
  return {static_cast<std::uint32_t>((count + 255) / 256),
          static_cast<std::uint32_t>(std::min<std::uint64_t>(count, 256))};
}

/// A JSON object, `{"key":value,...}`. Numbers are not quoted.
class parameters {
 public:
  parameters() = default;
  parameters& add(char const* key, std::string const& value) {
    return append(key, '"' + value + '"');
  }
  parameters& add(char const* key, char const* value) { return add(key, std::string{value}); }
  template <class Number>
    requires std::is_arithmetic_v<Number>
  parameters& add(char const* key, Number value) {
    return append(key, std::to_string(value));
  }
  [[nodiscard]] std::string json() const { return '{' + text_ + '}'; }

 private:
  parameters& append(char const* key, std::string const& value) {
    text_ += (text_.empty() ? "\"" : ",\"") + std::string{key} + "\":" + value;
    return *this;
  }
  std::string text_;
};

/// The value of an environment variable, or `fallback` if it is not set.
inline std::string environment(char const* name, std::string const& fallback) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : fallback;
}

inline std::string today() {
  std::time_t const time = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::localtime(&time));
  return text;
}

/// For programs that measure all allocators interleaved, or only Quarry's: scripts/run_bench.sh
/// runs such a program once, as allocator `quarry`. Returns false if `main` has nothing to do for
/// these arguments.
inline bool is_requested(int argc, char** argv) {
  if (argc < 2) return true;
  if (std::strcmp(argv[1], "--allocators") == 0) std::puts("quarry");
  return std::strcmp(argv[1], "quarry") == 0;
}

/// Prints one line of results. `spread`, if not empty, is a JSON object with further statistics of
/// the same quantity.
inline void print_record(std::string const& name, parameters const& params,
                         std::string const& value, char const* unit,
                         std::string const& spread = {}) {
  std::string const statistics = spread.empty() ? spread : ",\"spread\":" + spread;
  std::printf(
      R"({"bench":"%s","params":%s,"value":%s%s,"unit":"%s","machine":"%s","date":"%s","commit":"%s"})"
      "\n",
      name.c_str(), params.json().c_str(), value.c_str(), statistics.c_str(), unit,
      environment("QUARRY_MACHINE", "unknown").c_str(), environment("QUARRY_DATE", today()).c_str(),
      environment("QUARRY_COMMIT", "unknown").c_str());
  std::fflush(stdout);
}

/// Prints one line of results.
inline void record(std::string const& name, parameters const& params, double value,
                   char const* unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  print_record(name, params, text, unit);
}

/// Prints a line that says why a quantity was not measured.
inline void record_failure(std::string const& name, parameters params, std::string const& reason,
                           char const* unit) {
  print_record(name, params.add("error", reason), "null", unit);
}

/// The value below which the share `share` of the values lies.
inline double percentile(std::vector<double> const& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

/// Prints three lines: the median, the 10th and the 90th percentile. If there is only one value,
/// prints one line.
inline void record_spread(std::string const& name, parameters const& params,
                          std::vector<double> values, char const* unit) {
  std::sort(values.begin(), values.end());
  auto const value_at = [&](double share) { return percentile(values, share); };
  if (values.size() == 1) return record(name, params, values.front(), unit);
  record(name, parameters{params}.add("statistic", "median"), value_at(0.5), unit);
  record(name, parameters{params}.add("statistic", "p10"), value_at(0.1), unit);
  record(name, parameters{params}.add("statistic", "p90"), value_at(0.9), unit);
}

/// Prints one line: the median, and as its spread the mean, the standard deviation, the 10th and
/// the 90th percentile, and the number of runs.
inline void record_moments(std::string const& name, parameters const& params,
                           std::vector<double> values, char const* unit) {
  std::sort(values.begin(), values.end());
  double sum = 0, squares = 0;
  for (double const value : values) sum += value;
  double const mean = sum / static_cast<double>(values.size());
  for (double const value : values) squares += (value - mean) * (value - mean);
  double const deviation =
      values.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(values.size() - 1));
  char median[32], spread[192];
  std::snprintf(median, sizeof median, "%.6g", percentile(values, 0.5));
  std::snprintf(spread, sizeof spread,
                R"({"mean":%.6g,"sd":%.4g,"p10":%.6g,"p90":%.6g,"runs":%zu})", mean, deviation,
                percentile(values, 0.1), percentile(values, 0.9), values.size());
  print_record(name, params, median, unit, spread);
}

/// Millions of operations a second.
inline double mops(std::uint64_t operations, double ms) {
  return static_cast<double>(operations) / ms / 1e3;
}

/// Waits for all work on the device. On the CPU there is nothing to wait for.
inline void wait_for_device() {
#ifdef __CUDACC__
  quarry::simt::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
}

/// Runs `work` and returns the milliseconds until it is done, by the host's clock.
template <class Work>
double host_ms(Work const& work) {
  wait_for_device();
  auto const begin = std::chrono::steady_clock::now();
  work();
  wait_for_device();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace bench::inline BENCH_COPY

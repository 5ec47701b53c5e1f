// SPDX-License-Identifier: Apache-2.0
// Shared by the kernels by hand: launches, times, and JSON lines as bench/mpi/measure.h prints.
//
// A kernel runs all steps of a sample in one cooperative launch. The time of a sample includes the
// launch, so a sample takes at least some milliseconds.
#pragma once

#include <cooperative_groups.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

namespace by_hand {

using index = unsigned long long;

constexpr int samples = 11;
constexpr double sample_seconds = 0.004, slow_seconds = 0.1;

inline void require(bool is_right, char const* what) {
  if (is_right) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

inline void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// Global memory, zeroed. Freed at the end of the scope.
template <class T>
class buffer {
 public:
  explicit buffer(index count) {
    check(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
  }
  ~buffer() { cudaFree(data_); }
  buffer(buffer const&) = delete;
  T* data() const { return data_; }
  T host(index at) const {
    T value;
    check(cudaMemcpy(&value, data_ + at, sizeof value, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return value;
  }
  void set(index at, T value) {
    check(cudaMemcpy(data_ + at, &value, sizeof value, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

 private:
  T* data_ = nullptr;
};

inline int multiprocessors() {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "attribute");
  return count;
}

/// Whether all thread blocks of such a launch can run at once.
template <class Kernel>
bool fits(Kernel* kernel, int blocks, int threads) {
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0), "occupancy");
  return blocks <= resident * multiprocessors();
}

template <class... Arguments>
void launch(void (*kernel)(Arguments...), int blocks, int threads,
            std::type_identity_t<Arguments>... arguments) {
  void* pointers[] = {&arguments...};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(kernel), blocks, threads, pointers),
        "launch");
}

/// The seconds from before `work` to its end on the GPU.
inline double seconds_of(std::function<void()> const& work) {
  cudaEvent_t begin, end;
  float milliseconds = 0.0f;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaEventRecord(begin), "event");
  work();
  check(cudaEventRecord(end), "event");
  check(cudaEventSynchronize(end), "kernel");
  check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds * 1e-3;
}

inline std::string setting(char const* name) {
  char const* const value = std::getenv(name);
  return value != nullptr ? value : "unknown";
}

inline void print(std::string const& bench, std::string const& params, std::vector<double> values,
                  double scale, char const* unit) {
  double sum = 0.0, squares = 0.0;
  std::ranges::sort(values);
  for (double& value : values) sum += value *= scale;
  auto const count = values.size();
  for (double const value : values) squares += std::pow(value - sum / count, 2);
  std::printf(
      "{\"bench\":\"mpi/%s\",\"params\":{\"system\":\"%s\",\"host\":\"%s\",%s},\"value\":%.6g,"
      "\"unit\":\"%s\",\"spread\":{\"mean\":%.6g,\"sd\":%.6g,\"p10\":%.6g,\"p90\":%.6g,\"runs\":%"
      "zu},"
      "\"machine\":\"%s\",\"date\":\"%s\",\"commit\":\"%s\"}\n",
      bench.c_str(), setting("QUARRY_SYSTEM").c_str(), setting("QUARRY_HOST").c_str(),
      params.c_str(), values[count / 2], unit, sum / count, std::sqrt(squares / count),
      values[count / 10], values[count - 1 - count / 10], count, setting("QUARRY_MACHINE").c_str(),
      setting("QUARRY_DATE").c_str(), setting("QUARRY_COMMIT").c_str());
  std::fflush(stdout);
}

/// One of several ways to do the same work. `run(steps)` launches all steps, an even number.
struct way {
  std::string name;
  std::function<void(int)> run;
};

/// The seconds of a step in each sample, by the fastest way, and its name.
struct result {
  std::string name;
  std::vector<double> seconds;
};

inline result measure(std::vector<way> const& ways) {
  way const* best = nullptr;
  double best_seconds = 0.0;
  for (way const& each : ways) {
    seconds_of([&] { each.run(2); });
    double const seconds = seconds_of([&] { each.run(20); }) / 20;
    if (best == nullptr || seconds < best_seconds) best = &each, best_seconds = seconds;
  }
  require(best != nullptr, "a way that fits on this GPU");
  int const steps = 2 * static_cast<int>(std::clamp(sample_seconds / best_seconds / 2.0, 1.0, 1e4));
  int const runs = best_seconds > slow_seconds ? 5 : samples;
  result found{best->name, {}};
  seconds_of([&] { best->run(steps); });
  for (int sample = 0; sample < runs; ++sample)
    found.seconds.push_back(seconds_of([&] { best->run(steps); }) / steps);
  return found;
}

/// Ways that differ in the number of thread blocks, as far as they fit: few meet faster, many copy
/// faster.
template <class Kernel, class Run>
std::vector<way> ways_of_blocks(Kernel* kernel, Run run) {
  std::vector<way> ways;
  for (int const blocks : {1, 8, 32, multiprocessors(), 2 * multiprocessors()})
    if (fits(kernel, blocks, 1024))
      ways.push_back({std::to_string(blocks) + " blocks", [=](int steps) { run(blocks, steps); }});
  return ways;
}

inline std::string quoted(std::string const& name, std::string const& text) {
  return ",\"" + name + "\":\"" + text + "\"";
}

}  // namespace by_hand

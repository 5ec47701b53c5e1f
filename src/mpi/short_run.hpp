// SPDX-License-Identifier: Apache-2.0
// What quarry-mpirun --tune and a program that it runs for a short time tell each other.
#pragma once

#include "quarry/core/config.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace quarry::inline QUARRY_ABI::mpi_tuning {

/// The program's end: it reports to the file whose number is in a variable of the environment, and
/// stops its ranks after the seconds in another one. Make it when the ranks begin.
class short_run {
 public:
  static constexpr char seconds_variable[] = "QUARRY_MPI_TUNE_SECONDS";
  static constexpr char report_variable[] = "QUARRY_MPI_TUNE_REPORT";
  // The first word of a report. The seconds of the ranks and the number of their steps follow.
  static constexpr char done[] = "done", stopped[] = "stopped", failed[] = "failed",
                        on_cpu[] = "cpu";

  short_run() {
    char const* const limit = std::getenv(seconds_variable);
    char const* const report = std::getenv(report_variable);
    if (limit == nullptr || report == nullptr) return;
    limit_ = std::atof(limit);
    report_ = std::atoi(report);
    fcntl(report_, F_SETFD, FD_CLOEXEC);  // processes that the program starts do not have it
  }
  [[nodiscard]] bool is_over() const { return limit_ > 0 && seconds() > limit_; }
  [[nodiscard]] bool exists() const { return limit_ > 0; }
  void report(char const* how, double steps) const {
    if (!exists()) return;
    char text[100];
    int const size = std::snprintf(text, sizeof text, "%s %.9g %.9g\n", how, seconds(), steps);
    (void)!write(report_, text, static_cast<std::size_t>(size));
  }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(clock::now() - begin_).count();
  }

  double limit_ = 0;  // 0: this is no short run
  int report_ = -1;
  clock::time_point begin_ = clock::now();
};

}  // namespace quarry::inline QUARRY_ABI::mpi_tuning

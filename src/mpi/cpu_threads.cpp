// SPDX-License-Identifier: Apache-2.0
#include "cpu_threads.hpp"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

simt::lane_part part_of(std::uint32_t ranks, std::uint32_t threads, std::uint32_t number) {
  std::uint64_t const unit =
      ranks >= threads * std::uint64_t{simt::warp_size} ? simt::warp_size : 1;
  std::uint64_t const units = (ranks + unit - 1) / unit;
  auto const begin = [&](std::uint64_t i) {
    std::uint64_t const rank = units * i / threads * unit;
    return rank < ranks ? rank : ranks;
  };
  return {begin(number), begin(number + 1) - begin(number), number};
}

void run_on_threads(std::uint32_t ranks, std::uint32_t threads,
                    std::function<void(simt::lane_part)> const& run,
                    std::function<void()> const& end_ranks) {
  std::mutex lock;
  std::exception_ptr first;
  auto const fail = [&] {
    {
      std::lock_guard const guard{lock};
      if (!first) first = std::current_exception();
    }
    end_ranks();
  };
  auto const run_part = [&](std::uint32_t number) {
    try {
      run(part_of(ranks, threads, number));
    } catch (...) {
      fail();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::uint32_t i = 1; i < threads; ++i) others.emplace_back(run_part, i);
    } catch (...) {
      fail();
    }
    run_part(0);  // ends soon after a failure
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
#include "gpu_clocks.hpp"

#include "clock_mailbox.hpp"
#include "gpu_peers.hpp"

#include <atomic>
#include <chrono>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

std::uint64_t host_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

/// A mailbox in pinned memory.
class host_mailbox {
 public:
  [[nodiscard]] clock_mailbox* get() const { return mailbox_.data(); }

  /// Asks for the time number `number`. False if no answer comes.
  [[nodiscard]] bool ask(std::uint32_t number, clock_exchange& result) const {
    std::atomic_ref<std::uint32_t> const answered{mailbox_.data()->answered};
    result.before = host_ns();
    std::atomic_ref{mailbox_.data()->asked}.store(number, std::memory_order_release);
    do {
      result.after = host_ns();
      if (result.after - result.before > longest_clock_wait) return false;
    } while (answered.load(std::memory_order_acquire) != number);
    result.after = host_ns();
    result.device = mailbox_.data()->time;
    return true;
  }

 private:
  host_array<clock_mailbox> mailbox_{1};
};

/// Empty if the GPU does not answer.
std::vector<clock_exchange> exchange_times(cudaKernel_t kernel, gpu_part const& part) {
  current_gpu const current{part};
  host_mailbox const mailbox;
  clock_mailbox* const address = mailbox.get();
  void* arguments[] = {const_cast<clock_mailbox**>(&address)};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3{1}, dim3{1}, arguments, 0,
                         nullptr),
        "cudaLaunchKernel");
  std::vector<clock_exchange> result(clock_exchanges);
  for (std::uint32_t i = 0; i < clock_exchanges && !result.empty(); ++i)
    if (!mailbox.ask(i + 1, result[i])) result.clear();
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // before the mailbox is freed
  return result;
}

}  // namespace

gpu_clocks compare_clocks(gpu_program const& program, std::vector<gpu_part> const& parts) {
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, program.library, "quarry_mpi_tell_time"),
        "cudaLibraryGetKernel");
  std::vector<clock_offset> to_host;
  for (gpu_part const& part : parts) {
    auto const exchanges = exchange_times(kernel, part);
    if (exchanges.empty()) return {};
    to_host.push_back(offset_to_host(exchanges));
  }
  return clocks_of(to_host);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
// Converts times of the device's clock to times of the host's clock.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/device/detail/kernel_memory.hpp"
#include "quarry/simt/clock.hpp"
#include "quarry/simt/launch.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI {

namespace detail {

/// Nanoseconds of std::chrono::steady_clock.
[[nodiscard]] QUARRY_API std::uint64_t steady_clock_ns();

}  // namespace detail

/// Stores the device's time.
struct store_clock {
  std::uint64_t* result;
  QUARRY_HD void operator()() const { *result = simt::clock_ns(); }
};

/// Both clocks at one moment, in nanoseconds. The host's clock is std::chrono::steady_clock. `host`
/// is wrong by at most `error`.
struct clock_reading {
  std::uint64_t device = 0, host = 0, error = 0;
};

/// Reads both clocks. `launch(grid, kernel)` must run the kernel on the device and wait for it.
///
/// A kernel reads the device's clock between two readings of the host's clock; `host` is the middle
/// of these two readings. Several kernels run, because CUDA may load code before the first kernel.
/// The result is that of the kernel with the shortest time between its two readings. Throws
/// `out_of_memory`, `resource_failed`, and what `launch` throws.
template <class Launch>
[[nodiscard]] clock_reading read_clocks(Launch& launch, backend kind) {
  constexpr std::size_t attempts = 5;
  std::array<std::uint64_t, attempts> device{};
  detail::kernel_memory results{kind, sizeof device};
  std::size_t best = 0;
  clock_reading result{.error = ~std::uint64_t{0}};
  for (std::size_t i = 0; i < attempts; ++i) {
    std::uint64_t const before = detail::steady_clock_ns();
    launch(simt::grid{1, 1}, store_clock{static_cast<std::uint64_t*>(results.data()) + i});
    std::uint64_t const error = (detail::steady_clock_ns() - before + 1) / 2;
    if (error >= result.error) continue;
    result = {.host = before + error, .error = error};
    best = i;
  }
  results.read(device.data(), 0, sizeof device);
  result.device = device[best];
  return result;
}

/// Converts times of the device to times of the host, between the last two readings of both clocks.
/// So neither the device's epoch nor its rate need be known, and errors do not add up.
class clock_alignment {
 public:
  explicit clock_alignment(clock_reading const& first) : before_{first}, last_{first} {}

  void add(clock_reading const& next) {
    before_ = last_;
    last_ = next;
  }
  /// Nanoseconds of std::chrono::steady_clock. Times outside the last two readings get the nearer
  /// reading's time. A later time never has a smaller result, even if readings were added between
  /// the calls, or the device's clock went back.
  [[nodiscard]] std::uint64_t host_ns(std::uint64_t device) const {
    if (device <= before_.device) return before_.host;
    if (device >= last_.device) return last_.host;
    double const share = static_cast<double>(device - before_.device) /
                         static_cast<double>(last_.device - before_.device);
    return before_.host +
           static_cast<std::uint64_t>(share * static_cast<double>(last_.host - before_.host));
  }
  /// The maximum error of `host_ns` in nanoseconds, if both clocks have constant rates.
  [[nodiscard]] std::uint64_t error() const {
    return before_.error < last_.error ? last_.error : before_.error;
  }

 private:
  clock_reading before_, last_;
};

}  // namespace quarry::inline QUARRY_ABI

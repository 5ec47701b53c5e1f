// SPDX-License-Identifier: Apache-2.0
// A world of one rank outside a launch, for functions of the C library. Include it in one source of
// a program.
#pragma once

#include "mpi/c_library.hpp"
#include "mpi/mailbox.hpp"
#include "mpi/rank.hpp"

#include "quarry/device/heap.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace quarry::mpi_test {

using namespace quarry::mpi;

/// The world of a test. `output` has what the rank wrote to stream 1 or 2; 3 counts flushes.
class one_rank {
 public:
  one_rank() : memory_{{.bytes = bytes{64} << 20, .backend_kind = backend::cpu}} {
    static char* const environment[] = {const_cast<char*>("HOME=/home/user"),
                                        const_cast<char*>("EMPTY="), nullptr};
    all_.all = {1, 0, nullptr, 1};
    all_.activity = &activity_;
    all_.threads = 1;
    all_.refused = &refused_;
    all_.environment = const_cast<char**>(environment);
    record_.resize(64);
    quarry_mpi_layout = {record_.data(), 64,      0, 1, &all_, &rank_,
                         &mailbox_,      nullptr, 0, 0, {},    nullptr};
    quarry_mpi_layout.set_heap(memory_.ref());
    mailbox_.initialise();
    current = this;
  }
  ~one_rank() { current = nullptr; }
  one_rank(one_rank const&) = delete;

  std::string output[4];
  static inline one_rank* current = nullptr;

  [[nodiscard]] rank_state& rank() { return rank_; }

 private:
  heap memory_;
  rank_state rank_{};
  mail mailbox_{};
  world all_{};
  activity_counter activity_;
  refused_memory refused_{};
  std::vector<char> record_;
};

/// A test whose world lives as long as the test.
class OneRank : public testing::Test {
 protected:
  one_rank world_;
};

/// Random choices of a property test; the seed is in every failure's message.
class chooser {
 public:
  explicit chooser(std::uint64_t seed) : engine_{seed} {}
  std::uint64_t word() { return engine_(); }
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  template <std::size_t N>
  char one_of(char const (&letters)[N]) {
    return letters[below(N - 1)];
  }
  /// A double of any kind: usual numbers, random bits, denormals, short decimals.
  double real() {
    std::uint64_t bits = word();
    double result;
    switch (below(6)) {
      case 0:
        return (below(2'000'001) - 1'000'000) / 1000.0;
      case 1:
        return static_cast<double>(below(2'000'001) - 1'000'000);
      case 2:
        bits &= (std::uint64_t{1} << 52) - 1;  // a denormal
        break;
      case 3:
        return below(2) == 0 ? 0.0 : -0.0;
      default:
        break;
    }
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace quarry::mpi_test

// SPDX-License-Identifier: Apache-2.0
// Worlds with many communicators.
#pragma once

#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace quarry::test::communicators {

inline std::size_t index(int value) { return static_cast<std::size_t>(value); }

inline MPI_Comm part_of(MPI_Comm from, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(from, color, key, &part);
  return part;
}

/// Communicators of one world: copies, halves, rows and columns in both orders, and parts of parts.
class many_communicators {
 public:
  many_communicators() {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    int columns = 1;
    while ((columns + 1) * (columns + 1) <= size) ++columns;
    MPI_Comm copy, copy_of_half;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    add(copy);
    add(part_of(MPI_COMM_WORLD, 0, -own));  // all ranks in the opposite order
    MPI_Comm const half = part_of(MPI_COMM_WORLD, own * 2 < size, own);
    add(half);
    MPI_Comm_dup(half, &copy_of_half);
    add(copy_of_half);
    add(part_of(MPI_COMM_WORLD, own / columns, own));  // rows
    add(part_of(MPI_COMM_WORLD, own / columns, -own));
    add(part_of(MPI_COMM_WORLD, own % columns, own));  // columns
    add(part_of(MPI_COMM_WORLD, own % columns, -own));
    add(part_of(half, own % 3, own * 7 % 5));
    add(part_of(MPI_COMM_WORLD, own % 5 == 0 ? MPI_UNDEFINED : 1, own));
  }
  ~many_communicators() {
    for (MPI_Comm& each : all_) MPI_Comm_free(&each);
  }
  many_communicators(many_communicators const&) = delete;

  template <class Act>
  void for_each(Act const& act) {
    for (MPI_Comm const each : all_) act(each);
  }

 private:
  void add(MPI_Comm made) {
    if (made != MPI_COMM_NULL) all_.push_back(made);
  }
  std::vector<MPI_Comm> all_;
};

/// In worlds of several sizes, as fibers.
inline void run_worlds(std::function<void()> const& body) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const ranks : {1u, 2u, 7u, 33u, 70u})
    for (std::uint64_t const seed : {1u, 2u}) {
      auto const result = run_on_fibers(ranks, seed, body);
      EXPECT_EQ(result.failure, "") << ranks << " ranks";
      EXPECT_EQ(result.status, 0);
      EXPECT_FALSE(result.is_deadlocked);
      EXPECT_EQ(result.wrong_frees, 0u);
    }
}

}  // namespace quarry::test::communicators

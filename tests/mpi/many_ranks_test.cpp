// SPDX-License-Identifier: Apache-2.0
// Operations in which all ranks share the work that one rank used to do alone, in worlds of more
// ranks than other tests have.
#include "mpi/support/full_heap.hpp"
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace quarry::test {
namespace many_ranks_test {

using values = std::vector<int>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Runs the ranks in an order that a seed decides.
void run_many(std::uint32_t ranks, std::function<void()> const& body) {
  QUARRY_TEST_USES_FIBERS();
  auto const result = run_on_fibers(ranks, 3, body);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.wrong_frees, 0u);
}

/// The world, a copy of it, which does not meet, and a part with the ranks in reversed order.
void in_communicators(void (*body)(MPI_Comm)) {
  MPI_Comm copy = MPI_COMM_NULL, part = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int const own = rank_in(MPI_COMM_WORLD);
  MPI_Comm_split(MPI_COMM_WORLD, own % 3 == 0 ? 1 : 0, -own, &part);
  for (MPI_Comm communicator : {MPI_COMM_WORLD, copy, part}) {
    MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
    body(communicator);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&part);
}

/// Parts of 0 to 3 pairs of ints, with gaps. In the root's buffer the ints of a pair are `stride`
/// apart.
struct root_layout {
  static constexpr int stride = 3;
  values counts, places;
  int end = 0;  // in ints

  root_layout(int size, shared_random& random) {
    for (int rank = 0, pairs = 0; rank < size; ++rank) {
      counts.push_back(random.below(4));
      places.push_back(pairs);
      pairs += counts.back() + random.below(2);
      end = 2 * stride * pairs;
    }
  }
  /// Calls `act(index in the root's buffer, rank, number of the int)`.
  template <class Act>
  void for_each(Act const& act) const {
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      for (int i = 0; i < 2 * counts[rank]; ++i)
        act(at((places[rank] * 2 + i) * stride), static_cast<int>(rank), i);
  }
};

int value_of(int rank, int i) { return 100 * rank + i; }

/// MPI_Allgather and MPI_Allgatherv, also in place, and into a spread type.
void gather_everywhere(MPI_Comm all) {
  shared_random random{6};
  int const own = rank_in(all), size = size_of(all), count = random.below(3);
  values expected, mine(at(count), own), gathered(at(count * size), -1);
  for (int rank = 0; rank < size; ++rank) expected.insert(expected.end(), at(count), rank);
  EXPECT_EQ(MPI_Allgather(mine.data(), count, MPI_INT, gathered.data(), count, MPI_INT, all),
            MPI_SUCCESS);
  EXPECT_EQ(gathered, expected);
  gathered.assign(gathered.size(), -1);
  std::copy(mine.begin(), mine.end(), gathered.begin() + own * count);
  EXPECT_EQ(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, gathered.data(), count, MPI_INT, all),
            MPI_SUCCESS);
  EXPECT_EQ(gathered, expected);
  root_layout const layout{size, random};
  MPI_Datatype pair = MPI_DATATYPE_NULL, spread = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, root_layout::stride, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 2 * root_layout::stride * sizeof(int), &spread);
  MPI_Type_commit(&spread);
  values spread_out(at(layout.end), -1), dense(at(layout.end / root_layout::stride), -1), part;
  values counts, places;
  for (int rank = 0; rank < size; ++rank) {
    counts.push_back(2 * layout.counts[at(rank)]);
    places.push_back(2 * layout.places[at(rank)]);
  }
  auto expected_spread = spread_out, expected_dense = dense;
  layout.for_each([&](std::size_t i, int rank, int n) {
    expected_spread[i] = expected_dense[i / root_layout::stride] = value_of(rank, n);
  });
  for (int i = 0; i < counts[at(own)]; ++i) part.push_back(value_of(own, i));
  bool const is_spread = own % 3 == 1;  // rank 0 has the other type
  EXPECT_EQ(MPI_Allgatherv(part.data(), counts[at(own)], MPI_INT,
                           is_spread ? spread_out.data() : dense.data(),
                           is_spread ? layout.counts.data() : counts.data(),
                           is_spread ? layout.places.data() : places.data(),
                           is_spread ? spread : MPI_INT, all),
            MPI_SUCCESS);
  if (is_spread) {
    EXPECT_EQ(spread_out, expected_spread);
  } else {
    EXPECT_EQ(dense, expected_dense);
  }
  MPI_Type_free(&spread);
  MPI_Type_free(&pair);
}

TEST(ManyRanks, GatherEverywhere) {
  for (std::uint32_t const ranks : {20u, 70u})
    run_many(ranks, [] { in_communicators(gather_everywhere); });
}

void exchange_parts(MPI_Comm all) {
  shared_random random{5};
  int const own = rank_in(all), size = size_of(all), root = random.below(size);
  root_layout const layout{size, random};
  MPI_Datatype spread = MPI_DATATYPE_NULL, pair = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, root_layout::stride, MPI_INT, &pair);
  MPI_Type_create_resized(pair, 0, 2 * root_layout::stride * sizeof(int), &spread);
  MPI_Type_commit(&spread);
  MPI_Datatype const type = own == root ? spread : MPI_DATATYPE_NULL;
  values expected(at(layout.end), -1), part;
  layout.for_each([&](std::size_t i, int rank, int n) { expected[i] = value_of(rank, n); });
  for (int i = 0; i < 2 * layout.counts[at(own)]; ++i) part.push_back(value_of(own, i));
  int const count = layout.counts[at(own)];
  values gathered(own == root ? expected.size() : 0, -1), scattered(part.size(), -1);
  // Half of the ranks send with the root's type, too.
  values const padded = [&] {
    values result(at(count * 2 * root_layout::stride), 0);
    for (std::size_t i = 0; i < part.size(); ++i) result[i * root_layout::stride] = part[i];
    return result;
  }();
  bool const is_spread = own % 2 != 0;
  EXPECT_EQ(MPI_Gatherv(is_spread ? padded.data() : part.data(), is_spread ? count : 2 * count,
                        is_spread ? spread : MPI_INT, gathered.data(), layout.counts.data(),
                        layout.places.data(), type, root, all),
            MPI_SUCCESS);
  if (own == root) {
    EXPECT_EQ(gathered, expected);
  }
  EXPECT_EQ(MPI_Scatterv(expected.data(), layout.counts.data(), layout.places.data(), type,
                         scattered.data(), 2 * count, MPI_INT, root, all),
            MPI_SUCCESS);
  EXPECT_EQ(scattered, part);
  MPI_Type_free(&spread);
  MPI_Type_free(&pair);
}

TEST(ManyRanks, MoveTheirPartsOfTheRootsBufferAlsoIfItHasAnotherType) {
  for (std::uint32_t const ranks : {20u, 70u})
    run_many(ranks, [] { in_communicators(exchange_parts); });
}

TEST(ManyRanks, MoveTheirPartsOnThreads) {
  auto const result = run_on_threads(18, [] {
    in_communicators(exchange_parts);
    in_communicators(gather_everywhere);
  });
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.wrong_frees, 0u);
}

TEST(ManyRanks, TellTheReceiverOfAPartThatIsTooLong) {
  run_many(40, [] {
    in_communicators([](MPI_Comm all) {
      int const own = rank_in(all), size = size_of(all), root = 2;
      int sent[3] = {own, own, own}, received[2] = {-1, -1};
      values gathered(own == root ? at(2 * size) : 0, -1);
      int const error =
          MPI_Gather(sent, own == 1 ? 3 : 1, MPI_INT, gathered.data(), 2, MPI_INT, root, all);
      EXPECT_EQ(error, own == root ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
      for (std::size_t i = 0; i < gathered.size(); ++i)  // nobody writes outside its part
        EXPECT_EQ(gathered[i], i % 2 == 0 || i == 3 ? static_cast<int>(i) / 2 : -1);
      values const all_parts(at(2 * size), 7);
      EXPECT_EQ(
          MPI_Scatter(all_parts.data(), 2, MPI_INT, received, own == 1 ? 1 : 2, MPI_INT, root, all),
          own == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
      EXPECT_EQ(received[0], 7);
      EXPECT_EQ(received[1], own == 1 ? -1 : 7);
    });
  });
}

TEST(ManyRanks, SplitAsASortOfAllWishesDoes) {
  struct drawn {
    int ranks, colors, keys;
  };
  // Worlds of one run of ranks, of runs that are merged once, and twice.
  for (drawn const& how :
       {drawn{64, 3, 5}, drawn{65, 40, 2}, drawn{300, 2, 1000}, drawn{2200, 9, 50}}) {
    std::vector<std::tuple<int, int, int>> sorted;  // color, key, rank
    shared_random random{static_cast<std::uint64_t>(how.ranks)};
    for (int rank = 0; rank < how.ranks; ++rank) {
      int const color = random.below(how.colors + 1);
      sorted.emplace_back(color == how.colors ? MPI_UNDEFINED : color,
                          random.below(how.keys) - how.keys / 2, rank);
    }
    auto const wishes = sorted;
    std::sort(sorted.begin(), sorted.end());
    run_many(static_cast<std::uint32_t>(how.ranks), [&] {
      int const own = rank_in(MPI_COMM_WORLD);
      auto const& wish = wishes[at(own)];
      MPI_Comm part = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, std::get<0>(wish), std::get<1>(wish), &part);
      if (std::get<0>(wish) == MPI_UNDEFINED) {
        EXPECT_EQ(part, MPI_COMM_NULL);
        return;
      }
      auto const first = std::find_if(sorted.begin(), sorted.end(), [&](auto const& other) {
        return std::get<0>(other) == std::get<0>(wish);
      });
      auto const place = std::lower_bound(sorted.begin(), sorted.end(), wish);
      ASSERT_EQ(rank_in(part), place - first);
      // A message to the next member arrives there, so the list of members is right.
      int const size = size_of(part), to = (rank_in(part) + 1) % size;
      int const from = (rank_in(part) + size - 1) % size;
      int received = -1;
      MPI_Sendrecv(&own, 1, MPI_INT, to, 0, &received, 1, MPI_INT, from, 0, part,
                   MPI_STATUS_IGNORE);
      EXPECT_EQ(received, std::get<2>(first[from]));
      MPI_Comm_free(&part);
    });
  }
}

TEST(ManyRanks, SplitOnThreads) {
  auto const result = run_on_threads(70, [] {  // runs of ranks are merged
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, own % 3, -own, &part);
    int const place = (69 - own) / 3;
    EXPECT_EQ(rank_in(part), place);
    int received = -1;
    if (place != 0) MPI_Send(&own, 1, MPI_INT, place - 1, 0, part);
    if (place + 1 != size_of(part))
      MPI_Recv(&received, 1, MPI_INT, place + 1, 0, part, MPI_STATUS_IGNORE);
    EXPECT_EQ(received, own >= 3 ? own - 3 : -1);
    MPI_Comm_free(&part);
  });
  EXPECT_EQ(result.status, 0);
}

TEST(ManyRanks, MakeCommunicatorsOfGroups) {
  run_many(150, [] {  // of all but each third rank, in reversed order
    int const own = rank_in(MPI_COMM_WORLD);
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    values chosen;
    for (int rank = 149; rank >= 0; --rank)
      if (rank % 3 != 0) chosen.push_back(rank);
    MPI_Group_incl(all, static_cast<int>(chosen.size()), chosen.data(), &some);
    MPI_Comm made[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    EXPECT_EQ(MPI_Comm_create_group(MPI_COMM_WORLD, some, 4, &made[0]), MPI_SUCCESS);
    EXPECT_EQ(MPI_Comm_create(MPI_COMM_WORLD, some, &made[1]), MPI_SUCCESS);
    for (MPI_Comm& each : made) {
      ASSERT_EQ(each == MPI_COMM_NULL, own % 3 == 0);
      if (each == MPI_COMM_NULL) continue;
      EXPECT_EQ(chosen[at(rank_in(each))], own);
      values gathered(chosen.size());
      MPI_Allgather(&own, 1, MPI_INT, gathered.data(), 1, MPI_INT, each);
      EXPECT_EQ(gathered, chosen);
      MPI_Comm_free(&each);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  });
}

TEST(ManyRanks, SplitNothingWithoutMemory) {
  QUARRY_TEST_USES_FIBERS();
  auto const leftover = [](bool is_full) {
    auto const result = run_on_fibers(
        70, 1,
        [=] {
          MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
          int const own = rank_in(MPI_COMM_WORLD);
          MPI_Comm part = MPI_COMM_NULL;
          EXPECT_EQ(MPI_Comm_split(MPI_COMM_WORLD, own % 2, 0, &part), MPI_SUCCESS);
          MPI_Comm_free(&part);
          if (!is_full) return;
          // Room for the table, or for nothing.
          for (bool const has_table : {false, true}) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (own == 0) {
              void* const table = mpi::allocate(70 * 64);
              full_heap const full;
              if (has_table) mpi::release(table);
              EXPECT_EQ(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &part), MPI_ERR_NO_MEM);
              if (!has_table) mpi::release(table);
            } else {
              EXPECT_EQ(MPI_Comm_split(MPI_COMM_WORLD, own % 2, 0, &part), MPI_ERR_NO_MEM);
            }
            EXPECT_EQ(part, MPI_COMM_NULL);
          }
          MPI_Barrier(MPI_COMM_WORLD);
        },
        std::uint64_t{4} << 20);
    EXPECT_EQ(result.failure, "");
    return result.allocations;
  };
  EXPECT_EQ(leftover(true), leftover(false));
}

/// A product of affine maps x -> a x + b modulo 2^32, which does not commute.
void compose(void* lower, void* inout, int* count, MPI_Datatype*) {
  auto const* first = static_cast<std::uint32_t const*>(lower);
  auto* second = static_cast<std::uint32_t*>(inout);
  for (int i = 0; i < *count; ++i, first += 2, second += 2) {
    second[1] += second[0] * first[1];
    second[0] *= first[0];
  }
}

TEST(ManyRanks, ScansCombineLowerRanksInOrder) {
  for (std::uint32_t const ranks : {1u, 2u, 7u, 20u, 67u})
    for (int const count : {1, 9}) {
      run_many(ranks, [count] {
        int const own = rank_in(MPI_COMM_WORLD);
        MPI_Datatype map = MPI_DATATYPE_NULL;
        MPI_Op product = MPI_OP_NULL;
        MPI_Type_contiguous(2, MPI_UINT32_T, &map);
        MPI_Type_commit(&map);
        MPI_Op_create(compose, 0, &product);
        auto const of = [&](int rank) {
          std::vector<std::uint32_t> result;
          for (int i = 0; i < 2 * count; ++i)
            result.push_back(static_cast<std::uint32_t>((rank + 2) * 7 + i));
          return result;
        };
        int elements = count;
        auto expected = of(0);
        std::vector<std::uint32_t> below;
        for (int rank = 1; rank <= own; ++rank) {
          below = expected;
          auto next = of(rank);
          compose(expected.data(), next.data(), &elements, &map);
          expected = next;
        }
        auto mine = of(own), result = of(-1);
        MPI_Scan(mine.data(), result.data(), count, map, product, MPI_COMM_WORLD);
        EXPECT_EQ(result, expected);
        std::vector<std::uint32_t> later(result.size());
        MPI_Request requests[2];  // nonblocking ones at once
        auto lower = mine;
        MPI_Iscan(mine.data(), later.data(), count, map, product, MPI_COMM_WORLD, &requests[0]);
        MPI_Iexscan(MPI_IN_PLACE, lower.data(), count, map, product, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        EXPECT_EQ(later, expected);
        EXPECT_EQ(lower, own == 0 ? of(0) : below);
        MPI_Exscan(MPI_IN_PLACE, mine.data(), count, map, product, MPI_COMM_WORLD);
        EXPECT_EQ(mine, own == 0 ? of(0) : below);
        MPI_Op_free(&product);
        MPI_Type_free(&map);
      });
    }
}

}  // namespace many_ranks_test
}  // namespace quarry::test

// SPDX-License-Identifier: Apache-2.0
// Collective operations as schedules: blocking ones and nonblocking ones, in random orders, against
// a model.
#include "mpi/support/ranks.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace quarry::test {
namespace scheduled_collective_test {

using values = std::vector<int>;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Value `index` of what rank `rank` contributes.
int value_of(int rank, int index, int salt) { return rank * 31 + index * 7 + salt * 1009 + 1; }

values contribution(int rank, int count, int salt) {
  values result;
  for (int i = 0; i < count; ++i) result.push_back(value_of(rank, i, salt));
  return result;
}

/// Linear functions x -> a x + b modulo a prime as pairs (a, b): their composition is associative,
/// and does not commute.
constexpr int modulus = 10007;
void compose(void* input, void* in_out, int* count, MPI_Datatype* type) {
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_get_extent(*type, &lower, &extent);
  for (int i = 0; i < *count; ++i) {
    auto const* const first = reinterpret_cast<int*>(static_cast<char*>(input) + i * extent);
    auto* const second = reinterpret_cast<int*>(static_cast<char*>(in_out) + i * extent);
    int const a = second[0], b = second[1];
    second[0] = a * first[0] % modulus;
    second[1] = (a * first[1] + b) % modulus;
  }
}

/// What the composition of the ranks in [first, end) is.
values composition(int first, int end, int count, int salt) {
  auto const pairs = [&](int rank) {
    values result = contribution(rank, 2 * count, salt);
    for (int& value : result) value %= modulus;
    return result;
  };
  if (first >= end) return {};
  values result = pairs(first);
  for (int rank = first + 1; rank < end; ++rank) {
    values next = pairs(rank);
    MPI_Datatype type = MPI_2INT;
    compose(result.data(), next.data(), &count, &type);
    result = next;
  }
  return result;
}

/// An operation that has begun, its buffers, and what they must contain at its end.
struct running {
  values sent, received, expected, counts, places, sent_counts, sent_places;
  std::vector<MPI_Datatype> types;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct test_world {
  MPI_Comm communicator;
  int own, size;
  MPI_Op op;
  MPI_Datatype pair;
};

constexpr int operations = 17;

/// Begins operation `which` with random arguments; `all_draw` gives all ranks the same numbers.
std::unique_ptr<running> begin(test_world const& world, int which, bool is_in_place, int salt,
                               shared_random& all_draw) {
  auto made = std::make_unique<running>();
  running& run = *made;
  auto const [communicator, own, size, op, pair] = world;
  int const count = all_draw.below(6) == 0 ? 2500 : all_draw.below(20);
  int const root = all_draw.below(size);
  auto const append = [](values& all, values const& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  // Parts of random sizes, with gaps.
  int total = 0;
  for (int i = 0; i < size; ++i) {
    run.counts.push_back(all_draw.below(9));
    run.places.push_back(total + 1);
    total += run.counts.back() + 2;
  }
  run.types.assign(at(size), MPI_INT);
  auto const own_count = run.counts[at(own)];
  values gathered(at(total), -1);
  for (int i = 0; i < size; ++i) {
    values const part = contribution(i, run.counts[at(i)], salt);
    std::copy(part.begin(), part.end(), gathered.begin() + run.places[at(i)]);
  }
  auto const own_pairs = [&](int elements) {
    values result = contribution(own, 2 * elements, salt);
    for (int& value : result) value %= modulus;
    return result;
  };
  void const* sent = nullptr;
  // In place, the input lies in the buffer of the result.
  auto const place_input = [&](values const& input, std::size_t offset = 0) {
    if (is_in_place) {
      std::copy(input.begin(), input.end(), run.received.begin() + static_cast<long>(offset));
      sent = MPI_IN_PLACE;
    } else {
      run.sent = input;
      sent = run.sent.data();
    }
  };
  switch (which) {
    case 0:
      MPI_Ibarrier(communicator, &run.request);
      break;
    case 1:
      run.received = contribution(own, count, salt);
      run.expected = contribution(root, count, salt);
      MPI_Ibcast(run.received.data(), count, MPI_INT, root, communicator, &run.request);
      break;
    case 2:
      is_in_place = is_in_place && own == root;
      run.received.assign(at(2 * count), -1);
      run.expected = own == root ? composition(0, size, count, salt) : run.received;
      place_input(own_pairs(count));
      MPI_Ireduce(sent, run.received.data(), count, pair, op, root, communicator, &run.request);
      break;
    case 3:
      run.received.assign(at(2 * count), -1);
      run.expected = composition(0, size, count, salt);
      place_input(own_pairs(count));
      MPI_Iallreduce(sent, run.received.data(), count, pair, op, communicator, &run.request);
      break;
    case 4:
      is_in_place = is_in_place && own == root;
      if (own == root) run.received.assign(at(count * size), -1);
      for (int i = 0; own == root && i < size; ++i)
        append(run.expected, contribution(i, count, salt));
      place_input(contribution(own, count, salt), at(own * count));
      MPI_Igather(sent, count, MPI_INT, run.received.data(), count, MPI_INT, root, communicator,
                  &run.request);
      break;
    case 5:
      is_in_place = is_in_place && own == root;
      run.received.assign(gathered.size(), -1);
      run.expected = own == root ? gathered : run.received;
      place_input(contribution(own, own_count, salt), at(run.places[at(own)]));
      MPI_Igatherv(sent, own_count, MPI_INT, run.received.data(), run.counts.data(),
                   run.places.data(), MPI_INT, root, communicator, &run.request);
      break;
    case 6:
      for (int i = 0; own == root && i < size; ++i) append(run.sent, contribution(i, count, salt));
      run.received.assign(at(count), -1);
      is_in_place = is_in_place && own == root;
      run.expected = is_in_place ? run.received : contribution(own, count, salt);
      MPI_Iscatter(run.sent.data(), count, MPI_INT,
                   is_in_place ? MPI_IN_PLACE : run.received.data(), count, MPI_INT, root,
                   communicator, &run.request);
      break;
    case 7:
      run.sent = gathered;
      run.received.assign(at(own_count), -1);
      is_in_place = is_in_place && own == root;
      run.expected = is_in_place ? run.received : contribution(own, own_count, salt);
      MPI_Iscatterv(run.sent.data(), run.counts.data(), run.places.data(), MPI_INT,
                    is_in_place ? MPI_IN_PLACE : run.received.data(), own_count, MPI_INT, root,
                    communicator, &run.request);
      break;
    case 8:
      run.received.assign(at(count * size), -1);
      for (int i = 0; i < size; ++i) append(run.expected, contribution(i, count, salt));
      place_input(contribution(own, count, salt), at(own * count));
      MPI_Iallgather(sent, count, MPI_INT, run.received.data(), count, MPI_INT, communicator,
                     &run.request);
      break;
    case 9:
      run.received.assign(gathered.size(), -1);
      run.expected = gathered;
      place_input(contribution(own, own_count, salt), at(run.places[at(own)]));
      MPI_Iallgatherv(sent, own_count, MPI_INT, run.received.data(), run.counts.data(),
                      run.places.data(), MPI_INT, communicator, &run.request);
      break;
    case 10: {
      values outgoing;
      for (int i = 0; i < size; ++i) {
        append(outgoing, contribution(own, count, salt + i));
        append(run.expected, contribution(i, count, salt + own));
      }
      run.received.assign(at(count * size), -1);
      place_input(outgoing);
      MPI_Ialltoall(sent, count, MPI_INT, run.received.data(), count, MPI_INT, communicator,
                    &run.request);
      break;
    }
    case 11:
    case 12: {  // from rank i to rank k: a number of elements that is the same in both directions
      auto const between = [&](int i, int k) { return (i + k + salt) % 5 * ((i * k + salt) % 3); };
      values outgoing;
      run.counts.clear();
      run.places.clear();
      bool const has_types = which == 12;  // then displacements are bytes
      int const unit = has_types ? static_cast<int>(sizeof(int)) : 1;
      for (int i = 0; i < size; ++i) {
        run.counts.push_back(between(own, i));
        run.places.push_back(static_cast<int>(outgoing.size()) * unit);
        append(outgoing, contribution(own, between(own, i), salt + i));
        append(run.expected, contribution(i, between(i, own), salt + own));
      }
      run.received.assign(run.expected.size(), -1);
      place_input(outgoing);
      if (has_types) {
        MPI_Ialltoallw(sent, run.counts.data(), run.places.data(), run.types.data(),
                       run.received.data(), run.counts.data(), run.places.data(), run.types.data(),
                       communicator, &run.request);
      } else {
        MPI_Ialltoallv(sent, run.counts.data(), run.places.data(), MPI_INT, run.received.data(),
                       run.counts.data(), run.places.data(), MPI_INT, communicator, &run.request);
      }
      break;
    }
    case 13: {
      int elements = 0, first = 0;
      for (int i = 0; i < size; ++i) {
        if (i == own) first = elements;
        elements += run.counts[at(i)];
      }
      values const reduced = composition(0, size, elements, salt);
      run.received.assign(at(2 * elements), -1);
      place_input(own_pairs(elements));
      run.expected = run.received;
      std::copy_n(reduced.begin() + 2 * first, 2 * own_count, run.expected.begin());
      MPI_Ireduce_scatter(sent, run.received.data(), run.counts.data(), pair, op, communicator,
                          &run.request);
      break;
    }
    case 14: {
      values const reduced = composition(0, size, count * size, salt);
      run.received.assign(at(2 * count * size), -1);
      place_input(own_pairs(count * size));
      run.expected = run.received;
      std::copy_n(reduced.begin() + 2 * own * count, 2 * count, run.expected.begin());
      MPI_Ireduce_scatter_block(sent, run.received.data(), count, pair, op, communicator,
                                &run.request);
      break;
    }
    case 15:
      run.received.assign(at(2 * count), -1);
      run.expected = composition(0, own + 1, count, salt);
      place_input(own_pairs(count));
      MPI_Iscan(sent, run.received.data(), count, pair, op, communicator, &run.request);
      break;
    case 16:
      run.received.assign(at(2 * count), -1);
      place_input(own_pairs(count));
      run.expected = own == 0 ? run.received : composition(0, own, count, salt);
      MPI_Iexscan(sent, run.received.data(), count, pair, op, communicator, &run.request);
      break;
    default:
      break;
  }
  return made;
}

/// Runs `body` in the world, then in a communicator whose ranks have another order.
void in_communicators(std::function<void(test_world const&)> const& body) {
  run_in_worlds([&body] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Comm reversed = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -own, &reversed);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(compose, 0, &op);
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    body({MPI_COMM_WORLD, own, size, op, pair});
    body({reversed, rank_in(reversed), size, op, pair});
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    MPI_Comm_free(&reversed);
  });
}

TEST(ScheduledCollective, EachOperationDoesWhatTheModelDoes) {
  in_communicators([](test_world const& world) {
    shared_random random{7};
    for (int which = 0; which < operations; ++which) {
      for (bool const is_in_place : {false, true}) {
        auto const run = begin(world, which, is_in_place, which, random);
        MPI_Wait(&run->request, MPI_STATUS_IGNORE);
        EXPECT_EQ(run->request, MPI_REQUEST_NULL);
        EXPECT_EQ(run->received, run->expected) << "operation " << which;
      }
    }
  });
}

TEST(ScheduledCollective, SeveralAtOnceEndInAnyOrderBesideBlockingOnes) {
  in_communicators([](test_world const& world) {
    shared_random random{11}, own_draw{static_cast<std::uint64_t>(world.own) + 3};
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<running>> runs;
      int const many = 2 + random.below(6);
      for (int i = 0; i < many; ++i) {
        runs.push_back(
            begin(world, random.below(operations), random.below(2) == 0, round * 16 + i, random));
        if (random.below(3) == 0) {
          int sum = 0;
          MPI_Allreduce(&world.own, &sum, 1, MPI_INT, MPI_SUM, world.communicator);
          EXPECT_EQ(sum, world.size * (world.size - 1) / 2);
        }
        if (random.below(3) == 0) {
          values sent(3000, i), received(3000, -1);
          MPI_Sendrecv(sent.data(), 3000, MPI_INT, (world.own + 1) % world.size, 5, received.data(),
                       3000, MPI_INT, (world.own + world.size - 1) % world.size, 5,
                       world.communicator, MPI_STATUS_IGNORE);
          EXPECT_EQ(received, sent);
        }
      }
      // Each rank waits in an order of its own.
      std::vector<MPI_Request> requests;
      for (auto& run : runs) requests.push_back(run->request);
      for (int left = many; left > 0; --left) {
        int index = own_draw.below(many), flag = 0;
        switch (own_draw.below(4)) {
          case 0:
            MPI_Wait(&requests[at(index)], MPI_STATUS_IGNORE);
            break;
          case 1:
            while (flag == 0) MPI_Test(&requests[at(index)], &flag, MPI_STATUS_IGNORE);
            break;
          case 2:
            MPI_Waitany(many, requests.data(), &index, MPI_STATUS_IGNORE);
            break;
          default:
            MPI_Test(&requests[at(index)], &flag, MPI_STATUS_IGNORE);
        }
      }
      MPI_Waitall(many, requests.data(), MPI_STATUSES_IGNORE);
      for (auto& run : runs) {
        EXPECT_EQ(run->received, run->expected);
      }
    }
  });
}

TEST(ScheduledCollective, TypesAndOperationsCanBeFreedBeforeTheEnd) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(compose, 0, &op);
    MPI_Datatype pair = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    values sent = contribution(own, 2, 0), received(2, -1), data = contribution(own, 2, 1);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Iallreduce(sent.data(), received.data(), 1, MPI_2INT, op, copy, &requests[0]);
    MPI_Ibcast(data.data(), 1, pair, 0, copy, &requests[1]);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    MPI_Comm_free(&copy);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    EXPECT_EQ(received, composition(0, size, 1, 0));
    EXPECT_EQ(data, contribution(0, 2, 1));
  });
}

TEST(ScheduledCollective, ARankThatWaitsForAMessageAdvancesOperations) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Request request = MPI_REQUEST_NULL;
    values data(5000, own);
    MPI_Ibcast(data.data(), 5000, MPI_INT, 0, MPI_COMM_WORLD, &request);
    // The last rank's message depends on the broadcast, which passes through all ranks.
    int token = 0;
    if (own == size - 1) {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      for (int to = 0; to < own; ++to) MPI_Send(&token, 1, MPI_INT, to, 0, MPI_COMM_WORLD);
    } else {
      MPI_Recv(&token, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    EXPECT_EQ(data, values(5000, 0));
  });
}

TEST(ScheduledCollective, WrongArgumentsAreRefusedAndChangeNothing) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int data = 0;
    int const counts[2] = {1, -1};
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_EQ(MPI_Ibcast(&data, 1, MPI_INT, 2, MPI_COMM_WORLD, &request), MPI_ERR_ROOT);
    EXPECT_EQ(MPI_Ibcast(&data, -1, MPI_INT, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Ibcast(&data, 1, 17, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Ibarrier(77, &request), MPI_ERR_COMM);
    EXPECT_EQ(MPI_Iallreduce(&data, &data, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD, &request),
              MPI_ERR_OP);
    EXPECT_EQ(MPI_Reduce_scatter(&data, &data, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD),
              MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Reduce_local(&data, &data, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  });
}

TEST(ScheduledCollective, ACommunicatorIsCopiedWhileTheRankDoesOtherThings) {
  in_communicators([](test_world const& world) {
    MPI_Comm copies[2] = {MPI_COMM_NULL, MPI_COMM_NULL};
    MPI_Request requests[3];
    int sum = 0;
    // The last rank begins only after a message that the others send after they have begun.
    int const last = world.size - 1;
    for (int i = 0; world.own == last && i < last; ++i)
      MPI_Recv(nullptr, 0, MPI_INT, i, 8, world.communicator, MPI_STATUS_IGNORE);
    MPI_Comm_idup(world.communicator, &copies[0], &requests[0]);
    MPI_Iallreduce(&world.own, &sum, 1, MPI_INT, MPI_SUM, world.communicator, &requests[1]);
    MPI_Comm_idup(world.communicator, &copies[1], &requests[2]);
    if (world.own != last) MPI_Send(nullptr, 0, MPI_INT, last, 8, world.communicator);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    EXPECT_EQ(sum, world.size * (world.size - 1) / 2);
    for (MPI_Comm& copy : copies) {
      int result = -1;
      MPI_Comm_compare(world.communicator, copy, &result);
      EXPECT_EQ(result, MPI_CONGRUENT);
      int token = world.own;
      MPI_Bcast(&token, 1, MPI_INT, last, copy);
      EXPECT_EQ(token, last);
      MPI_Comm_free(&copy);
    }
  });
}

TEST(ScheduledCollective, WithoutMemoryNothingBeginsAndNothingIsLost) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int data = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < 3; ++i)  // in place it needs a copy, which is larger than the heap
      EXPECT_EQ(MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INT, &data, 50'000'000, MPI_INT, MPI_COMM_WORLD,
                              &request),
                MPI_ERR_NO_MEM);
    EXPECT_EQ(request, MPI_REQUEST_NULL);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    EXPECT_EQ(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
  });
}

TEST(ScheduledCollective, OperationsGiveTheirMemoryBack) {
  QUARRY_TEST_USES_FIBERS();
  auto const leftover = [](int rounds) {
    return run_on_fibers(6, 3,
                         [rounds] {
                           int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
                           MPI_Op op = MPI_OP_NULL;
                           MPI_Op_create(compose, 0, &op);
                           for (int round = 0; round < rounds; ++round) {
                             shared_random random{static_cast<std::uint64_t>(round)};
                             for (int which = 0; which < operations; ++which) {
                               auto const run = begin({MPI_COMM_WORLD, own, size, op, MPI_2INT},
                                                      which, true, which, random);
                               MPI_Wait(&run->request, MPI_STATUS_IGNORE);
                             }
                             MPI_Request request = MPI_REQUEST_NULL;
                             MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
                             MPI_Start(&request);
                             MPI_Wait(&request, MPI_STATUS_IGNORE);
                             MPI_Request_free(&request);
                             MPI_Barrier(MPI_COMM_WORLD);
                           }
                           MPI_Op_free(&op);
                         })
        .allocations;
  };
  // Ranks keep some messages for reuse, at most 24 each; how many depends on the order of arrival.
  // A block for each round would be 50 more.
  EXPECT_LT(leftover(60), leftover(10) + 25);
}

}  // namespace scheduled_collective_test
}  // namespace quarry::test

// SPDX-License-Identifier: Apache-2.0
// The functions of MPI 4 with counts of the type MPI_Count do what those with ints do.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace quarry::test {
namespace large_counts_test {

constexpr MPI_Count too_large = MPI_Count{1} << 31;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// The same numbers as ints and as another type.
template <class T>
struct two_arrays {
  std::vector<int> narrow;
  std::vector<T> wide;

  void add(int value) {
    narrow.push_back(value);
    wide.push_back(value);
  }
};

/// Counts and places of parts, with gaps.
struct layout {
  two_arrays<MPI_Count> counts;
  two_arrays<MPI_Aint> places;
  int end = 0;

  layout(int parts, shared_random& random) {
    for (int i = 0; i < parts; ++i) {
      counts.add(random.below(4));
      places.add(end);
      end += counts.narrow.back() + random.below(2);
    }
  }
};

TEST(LargeCounts, MessagesArriveAndAreCounted) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    int const next = (own + 1) % size, last = (own + size - 1) % size;
    int const sent[3] = {own, 2 * own, 3 * own};
    int received[3] = {-1, -1, -1};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    EXPECT_EQ(MPI_Irecv_c(received, 3, MPI_INT, last, 1, MPI_COMM_WORLD, &requests[0]),
              MPI_SUCCESS);
    EXPECT_EQ(MPI_Isend_c(sent, 2, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
    MPI_Waitall(2, requests, statuses);
    MPI_Count count = -1, elements = -1;
    EXPECT_EQ(MPI_Get_count_c(&statuses[0], MPI_INT, &count), MPI_SUCCESS);
    EXPECT_EQ(MPI_Get_elements_c(&statuses[0], MPI_INT, &elements), MPI_SUCCESS);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(elements, 2);
    EXPECT_EQ(received[1], 2 * last);
    EXPECT_EQ(received[2], -1);
    EXPECT_EQ(MPI_Sendrecv_c(sent, 3, MPI_INT, next, 2, received, 3, MPI_INT, last, 2,
                             MPI_COMM_WORLD, &statuses[0]),
              MPI_SUCCESS);
    EXPECT_EQ(received[2], 3 * last);
    MPI_Get_count_c(&statuses[0], MPI_DOUBLE, &count);
    EXPECT_EQ(count, MPI_UNDEFINED);  // 12 bytes are no doubles
  });
}

TEST(LargeCounts, CollectivesWithArraysDoAsThoseWithInts) {
  run_in_worlds([] {
    shared_random random{31};
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    for (int round = 0; round < 4; ++round) {
      int const root = random.below(size);
      layout const parts{size, random};
      int const count = parts.counts.narrow[at(own)];
      std::vector<int> const mine(at(count), own + 10);
      auto const empty = [&] { return std::vector<int>(at(parts.end), -1); };
      auto narrow = empty(), wide = empty();
      bool const is_root = own == root;
      MPI_Gatherv(mine.data(), count, MPI_INT, narrow.data(), parts.counts.narrow.data(),
                  parts.places.narrow.data(), MPI_INT, root, MPI_COMM_WORLD);
      // Other ranks than the root may have no arrays.
      EXPECT_EQ(MPI_Gatherv_c(mine.data(), count, MPI_INT, wide.data(),
                              is_root ? parts.counts.wide.data() : nullptr,
                              is_root ? parts.places.wide.data() : nullptr, MPI_INT, root,
                              MPI_COMM_WORLD),
                MPI_SUCCESS);
      EXPECT_EQ(wide, narrow);
      MPI_Request request = MPI_REQUEST_NULL;
      narrow = empty(), wide = empty();
      MPI_Allgatherv(mine.data(), count, MPI_INT, narrow.data(), parts.counts.narrow.data(),
                     parts.places.narrow.data(), MPI_INT, MPI_COMM_WORLD);
      EXPECT_EQ(
          MPI_Iallgatherv_c(mine.data(), count, MPI_INT, wide.data(), parts.counts.wide.data(),
                            parts.places.wide.data(), MPI_INT, MPI_COMM_WORLD, &request),
          MPI_SUCCESS);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      EXPECT_EQ(wide, narrow);
      std::vector<int> back(at(count), -1), back_wide(at(count), -1);
      MPI_Scatterv(narrow.data(), parts.counts.narrow.data(), parts.places.narrow.data(), MPI_INT,
                   back.data(), count, MPI_INT, root, MPI_COMM_WORLD);
      EXPECT_EQ(MPI_Scatterv_c(narrow.data(), parts.counts.wide.data(), parts.places.wide.data(),
                               MPI_INT, back_wide.data(), count, MPI_INT, root, MPI_COMM_WORLD),
                MPI_SUCCESS);
      EXPECT_EQ(back_wide, back);
      std::vector<int> outgoing(at(size)), in(at(size), -1), in_wide(at(size), -1);
      for (int i = 0; i < size; ++i) outgoing[at(i)] = 100 * own + i;
      two_arrays<MPI_Count> ones;
      two_arrays<MPI_Aint> order, bytes;
      std::vector<MPI_Datatype> const types(at(size), MPI_INT);
      for (int i = 0; i < size; ++i) {
        ones.add(1);
        order.add(size - 1 - i);
        bytes.add(4 * i);
      }
      MPI_Alltoallv(outgoing.data(), ones.narrow.data(), order.narrow.data(), MPI_INT, in.data(),
                    ones.narrow.data(), order.narrow.data(), MPI_INT, MPI_COMM_WORLD);
      EXPECT_EQ(MPI_Alltoallv_c(outgoing.data(), ones.wide.data(), order.wide.data(), MPI_INT,
                                in_wide.data(), ones.wide.data(), order.wide.data(), MPI_INT,
                                MPI_COMM_WORLD),
                MPI_SUCCESS);
      EXPECT_EQ(in_wide, in);
      EXPECT_EQ(MPI_Alltoallw_c(MPI_IN_PLACE, nullptr, nullptr, nullptr, in_wide.data(),
                                ones.wide.data(), bytes.wide.data(), types.data(), MPI_COMM_WORLD),
                MPI_SUCCESS);
      for (int i = 0; i < size; ++i)
        EXPECT_EQ(in_wide[at(i)], 100 * (size - 1 - own) + size - 1 - i);
    }
  });
}

void add_all(void* input, void* in_out, MPI_Count* count, MPI_Datatype*) {
  for (MPI_Count i = 0; i < *count; ++i)
    static_cast<int*>(in_out)[i] += static_cast<int const*>(input)[i];
}

TEST(LargeCounts, OperationsOfTheProgramGetThem) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Op sum = MPI_OP_NULL;
    ASSERT_EQ(MPI_Op_create_c(add_all, 1, &sum), MPI_SUCCESS);
    int const values[2] = {own, 1};
    int totals[2] = {};
    EXPECT_EQ(MPI_Allreduce_c(values, totals, 2, MPI_INT, sum, MPI_COMM_WORLD), MPI_SUCCESS);
    EXPECT_EQ(totals[0], size * (size - 1) / 2);
    EXPECT_EQ(totals[1], size);
    MPI_Op_free(&sum);
  });
}

TEST(LargeCounts, DatatypesHaveTheSameContents) {
  run_everywhere(1, [] {
    MPI_Count const lengths[2] = {2, 1}, places[2] = {0, 5}, offsets[2] = {8, 40};
    MPI_Datatype const types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Datatype made[4];
    EXPECT_EQ(MPI_Type_contiguous_c(7, MPI_INT, &made[0]), MPI_SUCCESS);
    EXPECT_EQ(MPI_Type_vector_c(2, 1, 3, MPI_INT, &made[1]), MPI_SUCCESS);
    EXPECT_EQ(MPI_Type_indexed_c(2, lengths, places, MPI_INT, &made[2]), MPI_SUCCESS);
    EXPECT_EQ(MPI_Type_create_struct_c(2, lengths, offsets, types, &made[3]), MPI_SUCCESS);
    MPI_Count const sizes[4] = {28, 8, 12, 16}, extents[4] = {28, 16, 24, 40},
                    lowers[4] = {0, 0, 0, 8};
    for (std::size_t i = 0; i < 4; ++i) {
      MPI_Count size = -1, lower = -1, extent = -1;
      MPI_Type_size_c(made[i], &size);
      MPI_Type_get_extent_c(made[i], &lower, &extent);
      EXPECT_EQ(size, sizes[i]);
      EXPECT_EQ(lower, lowers[i]);
      EXPECT_EQ(extent, extents[i]);
    }
    MPI_Count integers = -1, addresses = -1, large = -1, inner = -1;
    int combiner = 0, values[5];
    EXPECT_EQ(MPI_Type_get_envelope_c(made[2], &integers, &addresses, &large, &inner, &combiner),
              MPI_SUCCESS);
    EXPECT_EQ(combiner, MPI_COMBINER_INDEXED);
    EXPECT_EQ(integers, 5);
    EXPECT_EQ(addresses + large, 0);
    EXPECT_EQ(inner, 1);
    MPI_Datatype old = MPI_DATATYPE_NULL;
    EXPECT_EQ(MPI_Type_get_contents_c(made[2], 5, 0, 0, 1, values, nullptr, nullptr, &old),
              MPI_SUCCESS);
    EXPECT_EQ(values[4], 5);
    for (MPI_Datatype& type : made) MPI_Type_free(&type);
    char packed[8];
    int const number = 77;
    int unpacked = 0;
    MPI_Count position = 4, size = -1;
    EXPECT_EQ(MPI_Pack_c(&number, 1, MPI_INT, packed, 8, &position, MPI_COMM_WORLD), MPI_SUCCESS);
    EXPECT_EQ(position, 8);
    EXPECT_EQ(MPI_Pack_size_c(3, MPI_INT, MPI_COMM_WORLD, &size), MPI_SUCCESS);
    EXPECT_EQ(size, 12);
    position = 4;
    EXPECT_EQ(MPI_Unpack_c(packed, 8, &position, &unpacked, 1, MPI_INT, MPI_COMM_WORLD),
              MPI_SUCCESS);
    EXPECT_EQ(unpacked, 77);
  });
}

TEST(LargeCounts, CountsThatAreNoIntsAreRefused) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int const own = rank_in(MPI_COMM_WORLD), peer = 1 - own;
    int value = own, received = -1;
    EXPECT_EQ(MPI_Send_c(&value, too_large, MPI_INT, peer, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Recv_c(&value, -too_large, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Send_c(&value, -1, MPI_INT, peer, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
    MPI_Count const counts[2] = {1, too_large};
    MPI_Aint const places[2] = {too_large, 0};
    EXPECT_EQ(
        MPI_Allgatherv_c(&value, 1, MPI_INT, &received, counts, places, MPI_INT, MPI_COMM_WORLD),
        MPI_ERR_COUNT);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Count const lengths[1] = {1};
    EXPECT_EQ(MPI_Type_contiguous_c(too_large, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Type_indexed_c(too_large, lengths, lengths, MPI_INT, &type), MPI_ERR_COUNT);
    EXPECT_EQ(type, MPI_DATATYPE_NULL);
    MPI_Count position = too_large;
    EXPECT_EQ(MPI_Pack_c(&value, 1, MPI_INT, &received, 4, &position, MPI_COMM_WORLD),
              MPI_ERR_COUNT);
    EXPECT_EQ(position, too_large);
    // An unknown communicator has no arrays' lengths.
    EXPECT_EQ(MPI_Allgatherv_c(&value, 1, MPI_INT, &received, counts, places, MPI_INT, 99),
              MPI_ERR_COMM);
    // Nothing was sent.
    int flag = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(received, -1);
  });
}

}  // namespace large_counts_test
}  // namespace quarry::test

// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace types_test {

int size_of_type(MPI_Datatype type) {
  int size = -1;
  MPI_Type_size(type, &size);
  return size;
}
std::pair<long, long> bounds_of(MPI_Datatype type) {
  MPI_Aint lower = -1, extent = -1;
  MPI_Type_get_extent(type, &lower, &extent);
  return {lower, extent};
}
MPI_Datatype vector_of(int count, int block_length, int stride, MPI_Datatype old) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, block_length, stride, old, &made);
  MPI_Type_commit(&made);
  return made;
}

TEST(Types, SizesAndExtentsAreThoseOfC) {
  run_everywhere(1, [] {
    using bounds = std::pair<long, long>;
    struct double_int {
      double value;
      int place;
    };
    struct long_int {
      long value;
      int place;
    };
    struct short_int {
      short value;
      int place;
    };
    EXPECT_EQ(size_of_type(MPI_DOUBLE), 8);
    EXPECT_EQ(size_of_type(MPI_DOUBLE_INT), 12);
    EXPECT_EQ(size_of_type(MPI_LONG_INT), 12);
    EXPECT_EQ(size_of_type(MPI_SHORT_INT), 6);
    EXPECT_EQ(size_of_type(MPI_FLOAT_INT), 8);
    EXPECT_EQ(size_of_type(MPI_2INTEGER), 8);
    EXPECT_EQ(size_of_type(MPI_2REAL), 8);
    EXPECT_EQ(size_of_type(MPI_2DOUBLE_PRECISION), 16);
    EXPECT_EQ(bounds_of(MPI_DOUBLE_INT), (bounds{0, sizeof(double_int)}));
    EXPECT_EQ(bounds_of(MPI_LONG_INT), (bounds{0, sizeof(long_int)}));
    EXPECT_EQ(bounds_of(MPI_SHORT_INT), (bounds{0, sizeof(short_int)}));
    MPI_Datatype made = vector_of(3, 2, 5, MPI_INT);
    EXPECT_EQ(size_of_type(made), 24);
    EXPECT_EQ(bounds_of(made), (bounds{0, 48}));
    MPI_Type_free(&made);
    made = vector_of(3, 2, -5, MPI_INT);
    EXPECT_EQ(bounds_of(made), (bounds{-40, 48}));
    MPI_Datatype nested = vector_of(2, 1, 2, made);
    EXPECT_EQ(bounds_of(nested), (bounds{-40, 3 * 48}));
    EXPECT_EQ(size_of_type(nested), 48);
    MPI_Datatype empty = vector_of(0, 3, 4, MPI_INT);
    EXPECT_EQ(bounds_of(empty), (bounds{0, 0}));
    EXPECT_EQ(size_of_type(empty), 0);
  });
}

/// A type and the indices of the ints that it names, in the order of a message.
struct modelled_type {
  MPI_Datatype type;
  std::vector<int> places;
  int extent;

  static modelled_type basic() { return {MPI_INT, {0}, 1}; }
  static modelled_type random(int depth, shared_random& numbers) {
    modelled_type made = basic();
    for (int i = 0; i < depth; ++i) {
      int const count = 1 + numbers.below(3), length = 1 + numbers.below(3);
      bool const is_contiguous = numbers.below(3) == 0;
      int const stride = is_contiguous ? length : length + numbers.below(3);
      modelled_type next{MPI_DATATYPE_NULL, {}, 0};
      if (is_contiguous) {
        MPI_Type_contiguous(count * length, made.type, &next.type);
      } else {
        MPI_Type_vector(count, length, stride, made.type, &next.type);
      }
      if (made.type != MPI_INT) MPI_Type_free(&made.type);  // the new type does not need it
      for (int block = 0; block < count; ++block)
        for (int element = 0; element < length; ++element)
          for (int const place : made.places)
            next.places.push_back((block * stride + element) * made.extent + place);
      next.extent = ((count - 1) * stride + length) * made.extent;
      made = next;
    }
    MPI_Type_commit(&made.type);
    return made;
  }
};

TEST(Types, MessagesOfRandomTypesMoveTheElementsThatAModelNames) {
  run_everywhere(2, [] {
    shared_random numbers{11};
    int const own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 40; ++round) {
      auto sent = modelled_type::random(1 + numbers.below(4), numbers);
      auto received = modelled_type::random(1 + numbers.below(4), numbers);
      int const count = 1 + numbers.below(4);
      auto const elements = sent.places.size() * static_cast<std::size_t>(count);
      int const received_count =
          static_cast<int>((elements + received.places.size() - 1) / received.places.size());
      std::vector<int> buffer(static_cast<std::size_t>(sent.extent * count));
      for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<int>(i);
      if (own == 0) {
        MPI_Send(buffer.data(), count, sent.type, 1, 0, MPI_COMM_WORLD);
      } else {
        std::vector<int> got(static_cast<std::size_t>(received.extent * received_count), -1);
        std::vector<int> expected(got);
        for (std::size_t i = 0; i < elements; ++i) {
          auto const place = [&](modelled_type const& type) {
            auto const size = type.places.size();
            return type.places[i % size] + static_cast<int>(i / size) * type.extent;
          };
          expected[static_cast<std::size_t>(place(received))] =
              buffer[static_cast<std::size_t>(place(sent))];
        }
        MPI_Status status;
        MPI_Recv(got.data(), received_count, received.type, 0, 0, MPI_COMM_WORLD, &status);
        EXPECT_EQ(got, expected);
        int got_elements = 0;
        MPI_Get_count(&status, MPI_INT, &got_elements);
        EXPECT_EQ(got_elements, static_cast<int>(elements));
      }
      MPI_Type_free(&sent.type);
      MPI_Type_free(&received.type);
    }
  });
}

TEST(Types, AMatrixIsTransposedByAlltoallOfColumns) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    // Each rank has a row of blocks of 2 x 2 and gets a column of them.
    auto const ints = static_cast<std::size_t>(4 * size);
    std::vector<int> rows(ints), got(ints, -1);
    for (std::size_t i = 0; i < ints; ++i) rows[i] = own * 1000 + static_cast<int>(i);
    MPI_Datatype block = vector_of(2, 2, 2 * size, MPI_INT);
    for (int to = 0; to < size; ++to) {
      MPI_Request request;
      MPI_Isend(&rows[static_cast<std::size_t>(2 * to)], 1, block, to, 0, MPI_COMM_WORLD, &request);
      MPI_Request_free(&request);
    }
    for (int from = 0; from < size; ++from)
      MPI_Recv(&got[static_cast<std::size_t>(4 * from)], 4, MPI_INT, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
    MPI_Type_free(&block);
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < 4; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(4 * from + i)],
                  from * 1000 + i / 2 * 2 * size + 2 * own + i % 2);
    MPI_Barrier(MPI_COMM_WORLD);
  });
}

TEST(Types, AReceiveKeepsATypeThatTheProgramFrees) {
  run_everywhere(2, [] {
    int data[4] = {1, 2, 3, 4};
    if (rank_in(MPI_COMM_WORLD) == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Send(data, 2, MPI_INT, 1, 0, MPI_COMM_WORLD);
      return;
    }
    MPI_Datatype spread = vector_of(2, 1, 3, MPI_INT);
    MPI_Request request;
    MPI_Irecv(data, 1, spread, 0, 0, MPI_COMM_WORLD, &request);
    MPI_Type_free(&spread);
    MPI_Datatype other = vector_of(2, 1, 1, MPI_INT);  // gets a free handle
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Type_free(&other);
    EXPECT_EQ(data[0], 1);
    EXPECT_EQ(data[1], 2);
    EXPECT_EQ(data[3], 2);
  });
}

TEST(Types, NumbersThatAreNoTypesAreRefused) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int value = 0;
    for (MPI_Datatype const type :
         {0, MPI_SUM, 0x100, 0x10a, 0x301, 1000, 0x480, 0x812, 0x1005, 0x2002, 0x10000})
      EXPECT_EQ(MPI_Send(&value, 0, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE) << type;
    MPI_Datatype const none = MPI_DATATYPE_NULL;  // only of no data and of nobody
    EXPECT_EQ(MPI_Recv(&value, 0, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_SUCCESS);
    EXPECT_EQ(MPI_Recv(&value, 1, none, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              MPI_ERR_TYPE);
    for (MPI_Datatype const type :
         {MPI_CHAR, MPI_UINT8_T, MPI_UINT16_T, MPI_WCHAR, MPI_2INT, MPI_FLOAT_INT, MPI_C_COMPLEX,
          MPI_OFFSET, MPI_SHORT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_C_DOUBLE_COMPLEX,
          MPI_LONG_DOUBLE_INT, MPI_C_LONG_DOUBLE_COMPLEX, MPI_2INTEGER, MPI_2REAL,
          MPI_2DOUBLE_PRECISION})
      EXPECT_EQ(MPI_Send(&value, 0, type, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_SUCCESS) << type;
  });
}

TEST(Types, OnlyCommittedTypesCanBeSent) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int data[2] = {0, 0};
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Request request;
    EXPECT_EQ(MPI_Send(data, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MPI_Type_contiguous(2, MPI_INT, &type);
    EXPECT_EQ(MPI_Isend(data, 1, type, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    MPI_Type_commit(&type);
    EXPECT_EQ(MPI_Isend(data, 1, type, 0, 0, MPI_COMM_WORLD, &request), MPI_SUCCESS);
    MPI_Recv(data, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Datatype freed = type;
    MPI_Type_free(&type);
    EXPECT_EQ(MPI_Type_commit(&freed), MPI_ERR_TYPE);
    MPI_Datatype basic = MPI_INT;
    EXPECT_EQ(MPI_Type_free(&basic), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
  });
}

TEST(Types, ARegularTypeNeedsLittleMemoryHoweverManyBlocksItHas) {
  run_everywhere(1, [] {
    MPI_Datatype four, huge, again;
    MPI_Type_contiguous(4, MPI_INT, &four);
    MPI_Type_vector(0x3fffffff, 1, 3, four, &huge);  // its list of blocks would need gigabytes
    MPI_Type_create_resized(huge, 16, -1024, &again);
    MPI_Count size = 0, lower = 0, extent = 0, elements = 0;
    MPI_Type_size_x(again, &size);
    EXPECT_EQ(size, 16ll * 0x3fffffff);
    EXPECT_EQ(size_of_type(again), MPI_UNDEFINED);
    MPI_Type_get_extent_x(again, &lower, &extent);
    EXPECT_EQ(lower, 16);
    EXPECT_EQ(extent, -1024);
    MPI_Type_get_true_extent_x(again, &lower, &extent);
    EXPECT_EQ(lower, 0);
    EXPECT_EQ(extent, 48ll * 0x3ffffffe + 16);
    MPI_Type_commit(&again);
    MPI_Status status;
    MPI_Status_set_elements_x(&status, again, 4ll * 0x3fffffff);
    MPI_Get_elements_x(&status, again, &elements);
    EXPECT_EQ(elements, 4ll * 0x3fffffff);
    int count = 0;
    MPI_Get_elements(&status, again, &count);
    EXPECT_EQ(count, MPI_UNDEFINED);
    for (MPI_Datatype* const type : {&four, &huge, &again}) MPI_Type_free(type);
  });
}

TEST(Types, AChainOfAThousandTypesIsFreedWithItsLast) {
  auto const chain_of = [](int length) {
    MPI_Datatype type = MPI_INT;
    for (int i = 0; i < length; ++i) {
      MPI_Datatype next;
      int const one = 1;
      MPI_Aint const place = 4;
      MPI_Type_create_struct(1, &one, &place, &type, &next);
      if (type != MPI_INT) MPI_Type_free(&type);
      type = next;
    }
    EXPECT_EQ(bounds_of(type), (std::pair<long, long>{4 * length, 4}));
    MPI_Type_commit(&type);
    char packed[4];
    int position = 0;
    std::vector<int> numbers(1001);
    numbers[static_cast<std::size_t>(length)] = 77;
    MPI_Pack(numbers.data(), 1, type, packed, 4, &position, MPI_COMM_SELF);
    EXPECT_EQ(packed[0], 77);
    MPI_Type_free(&type);
  };
  program_result const brief = run_on_threads(1, [&] { chain_of(1); });
  program_result const result = run_on_threads(1, [&] { chain_of(1000); });
  EXPECT_EQ(result.wrong_frees, 0u);
  EXPECT_EQ(result.allocations, brief.allocations);  // tables of the rank
}

TEST(Types, BoundsThatTheProgramSetsAreKept) {
  run_everywhere(1, [] {
    using bounds = std::pair<long, long>;
    MPI_Datatype shifted, made;
    MPI_Type_create_resized(MPI_INT, 4, 16, &shifted);
    int lengths[] = {1, 1, 1};
    MPI_Aint places[] = {0, 8, 40};
    MPI_Datatype types[] = {MPI_INT, shifted, MPI_CHAR};
    MPI_Type_create_struct(3, lengths, places, types, &made);
    EXPECT_EQ(bounds_of(made), (bounds{12, 16}));  // those of the part that has some
    MPI_Type_free(&made);
    MPI_Type_free(&shifted);
    places[0] = -3;
    types[0] = MPI_LB;
    types[1] = MPI_BYTE;
    types[2] = MPI_UB;
    MPI_Type_struct(3, lengths, places, types, &made);
    EXPECT_EQ(bounds_of(made), (bounds{-3, 43}));
    MPI_Aint upper = 0;
    MPI_Type_ub(made, &upper);
    EXPECT_EQ(upper, 40);
    EXPECT_EQ(size_of_type(made), 1);
    MPI_Type_free(&made);
  });
}

TEST(Types, HaveNames) {
  run_everywhere(1, [] {
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    auto const name_of = [&](MPI_Datatype type) {
      MPI_Type_get_name(type, name, &length);
      EXPECT_EQ(static_cast<std::size_t>(length), std::string(name).size());
      return std::string(name);
    };
    MPI_Datatype made = vector_of(2, 1, 2, MPI_INT);
    EXPECT_EQ(name_of(MPI_LONG_DOUBLE_INT), "MPI_LONG_DOUBLE_INT");
    EXPECT_EQ(name_of(made), "");
    MPI_Type_set_name(made, "pair");
    MPI_Type_set_name(MPI_INT, std::string(100, 'i').c_str());
    EXPECT_EQ(name_of(made), "pair");
    EXPECT_EQ(name_of(MPI_INT), std::string(MPI_MAX_OBJECT_NAME - 1, 'i'));
    EXPECT_EQ(name_of(MPI_FLOAT), "MPI_FLOAT");
    MPI_Type_free(&made);
  });
}

TEST(Types, PairsOfFortranAreTwoNumbersOfOneType) {
  run_everywhere(1, [] {
    for (auto const& [type, bytes_of_number] : {std::pair{MPI_2INTEGER, 4}, std::pair{MPI_2REAL, 4},
                                                std::pair{MPI_2DOUBLE_PRECISION, 8}}) {
      MPI_Status status{};
      int bytes = 0, numbers = 0, pairs = 0;
      MPI_Status_set_elements(&status, type, 3);  // a pair and a half
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      MPI_Get_elements(&status, type, &numbers);
      MPI_Get_count(&status, type, &pairs);
      EXPECT_EQ(bytes, 3 * bytes_of_number);
      EXPECT_EQ(numbers, 3);
      EXPECT_EQ(pairs, MPI_UNDEFINED);
    }
  });
}

TEST(Types, External32HasTheMostSignificantByteFirst) {
  run_everywhere(1, [] {
    auto const packed = [](auto value, MPI_Datatype type) {
      std::vector<unsigned char> bytes(64);
      MPI_Aint position = 0, back = 0;
      MPI_Pack_external("external32", &value, 1, type, bytes.data(), 64, &position);
      decltype(value) again{};
      MPI_Unpack_external("external32", bytes.data(), position, &back, &again, 1, type);
      EXPECT_EQ(again, value);
      bytes.resize(static_cast<std::size_t>(position));
      return bytes;
    };
    using bytes = std::vector<unsigned char>;
    EXPECT_EQ(packed(0x01020304, MPI_INT), (bytes{1, 2, 3, 4}));
    EXPECT_EQ(packed(std::array{1, 2}, MPI_2INTEGER), (bytes{0, 0, 0, 1, 0, 0, 0, 2}));
    EXPECT_EQ(packed(std::array{1.0f, 2.0f}, MPI_2REAL), (bytes{63, 128, 0, 0, 64, 0, 0, 0}));
    EXPECT_EQ(packed(std::array{1.0, 2.0}, MPI_2DOUBLE_PRECISION),
              (bytes{63, 240, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(packed(-2l, MPI_LONG), (bytes{255, 255, 255, 254}));
    EXPECT_EQ(packed(0x80000000ul, MPI_UNSIGNED_LONG), (bytes{128, 0, 0, 0}));
    EXPECT_EQ(packed(1.0, MPI_DOUBLE), (bytes{0x3f, 0xf0, 0, 0, 0, 0, 0, 0}));
    bytes one(16), half(16);
    one[0] = 0x3f, one[1] = 0xff;
    half[0] = 0xbf, half[1] = 0xfe, half[2] = 0x80;
    EXPECT_EQ(packed(1.0l, MPI_LONG_DOUBLE), one);
    EXPECT_EQ(packed(-0.75l, MPI_LONG_DOUBLE), half);
    using limits = std::numeric_limits<long double>;
    for (long double const value : {0.0l, 0.1l, -3e4000l, limits::max(), limits::min(),
                                    limits::denorm_min(), limits::min() * 0.3l, limits::infinity()})
      EXPECT_EQ(packed(value, MPI_LONG_DOUBLE).size(), 16u);
  });
}

TEST(Types, ArgumentsThatMakeNoTypeAreRefused) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Datatype made = 123;
    int const lengths[] = {1, -1}, places[] = {0, 1};
    MPI_Aint const addresses[] = {0, 1};
    MPI_Datatype const types[] = {MPI_INT, MPI_DATATYPE_NULL};
    EXPECT_EQ(MPI_Type_vector(1, -1, 1, MPI_INT, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_create_hvector(-1, 1, 1, MPI_INT, &made), MPI_ERR_COUNT);
    EXPECT_EQ(MPI_Type_indexed(2, lengths, places, MPI_INT, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_create_hindexed(1, lengths, addresses, MPI_LB, &made), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Type_create_indexed_block(1, -2, places, MPI_INT, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_create_struct(2, places, addresses, types, &made), MPI_ERR_TYPE);
    EXPECT_EQ(MPI_Type_create_resized(0x10000, 0, 4, &made), MPI_ERR_TYPE);
    int const sizes[] = {4}, parts[] = {3}, starts[] = {2}, counts[] = {3}, blocks[] = {1};
    int const block = MPI_DISTRIBUTE_BLOCK;
    EXPECT_EQ(MPI_Type_create_subarray(1, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &made),
              MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_create_subarray(1, sizes, parts, places, 7, MPI_INT, &made), MPI_ERR_ARG);
    EXPECT_EQ(
        MPI_Type_create_darray(3, 3, 1, sizes, &block, blocks, counts, MPI_ORDER_C, MPI_INT, &made),
        MPI_ERR_ARG);
    EXPECT_EQ(
        MPI_Type_create_darray(3, 0, 1, sizes, &block, blocks, counts, MPI_ORDER_C, MPI_INT, &made),
        MPI_ERR_ARG);  // three blocks of 1 are less than 4 elements
    MPI_Datatype large;
    MPI_Type_contiguous(0x7fffffff, MPI_DOUBLE, &large);
    EXPECT_EQ(MPI_Type_contiguous(0x7fffffff, large, &made), MPI_ERR_ARG);
    MPI_Type_free(&large);
    EXPECT_EQ(made, 123);
    char bytes[8];
    int position = 6, value = 0;
    EXPECT_EQ(MPI_Pack(&value, 1, MPI_INT, bytes, 8, &position, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    EXPECT_EQ(MPI_Unpack(bytes, 8, &position, &value, 1, MPI_INT, MPI_COMM_WORLD),
              MPI_ERR_TRUNCATE);
    EXPECT_EQ(position, 6);
    MPI_Aint place = 0;
    EXPECT_EQ(MPI_Pack_external("native", &value, 1, MPI_INT, bytes, 8, &place), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Type_get_contents(MPI_INT, 9, 9, 9, &value, &place, &made), MPI_ERR_TYPE);
  });
}

}  // namespace types_test
}  // namespace quarry::test

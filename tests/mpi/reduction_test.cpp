// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <set>
#include <vector>

namespace quarry::test {
namespace reduction_test {

/// Reduces the numbers of all ranks in the order of ranks.
template <class T, class Combine>
T fold(T (*of_rank)(int), Combine const& combine) {
  T result = of_rank(0);
  for (int rank = 1; rank < size_of(MPI_COMM_WORLD); ++rank)
    result = static_cast<T>(combine(result, of_rank(rank)));
  return result;
}

template <class T>
T all_reduced(T own, MPI_Datatype type, MPI_Op op) {
  T result{};
  EXPECT_EQ(MPI_Allreduce(&own, &result, 1, type, op, MPI_COMM_WORLD), MPI_SUCCESS);
  return result;
}

/// Checks the operations that all numbers have.
template <class T>
void check_numbers(MPI_Datatype type) {
  auto* const of_rank = +[](int rank) { return static_cast<T>((rank * 7 + 3) % 5 + 1); };
  T const own = of_rank(rank_in(MPI_COMM_WORLD));
  EXPECT_EQ(all_reduced(own, type, MPI_SUM), fold(of_rank, [](T a, T b) { return a + b; }));
  EXPECT_EQ(all_reduced(own, type, MPI_PROD), fold(of_rank, [](T a, T b) { return a * b; }));
  EXPECT_EQ(all_reduced(own, type, MPI_MIN), fold(of_rank, [](T a, T b) { return a < b ? a : b; }));
  EXPECT_EQ(all_reduced(own, type, MPI_MAX), fold(of_rank, [](T a, T b) { return a < b ? b : a; }));
}

/// Checks the operations that only integers have.
template <class T>
void check_bits(MPI_Datatype type) {
  auto* const of_rank = +[](int rank) { return static_cast<T>(0x35 ^ (rank * 29)); };
  T const own = of_rank(rank_in(MPI_COMM_WORLD));
  EXPECT_EQ(all_reduced(own, type, MPI_BAND), fold(of_rank, [](T a, T b) { return a & b; }));
  EXPECT_EQ(all_reduced(own, type, MPI_BOR), fold(of_rank, [](T a, T b) { return a | b; }));
  EXPECT_EQ(all_reduced(own, type, MPI_BXOR), fold(of_rank, [](T a, T b) { return a ^ b; }));
  auto* const truth = +[](int rank) { return static_cast<T>(rank % 3 == 0 ? 4 : 0); };
  T const own_truth = truth(rank_in(MPI_COMM_WORLD));
  int const size = size_of(MPI_COMM_WORLD), trues = (size + 2) / 3;
  EXPECT_EQ(all_reduced(own_truth, type, MPI_LAND) != 0, trues == size);
  EXPECT_EQ(all_reduced(own_truth, type, MPI_LOR) != 0, trues != 0);
  if (size > 1) {
    EXPECT_EQ(all_reduced(own_truth, type, MPI_LXOR), trues % 2);
  }
}

TEST(Reduction, EachOperationReducesEachTypeAsCDoes) {
  run_in_worlds([] {
    check_numbers<signed char>(MPI_SIGNED_CHAR);
    check_numbers<unsigned short>(MPI_UNSIGNED_SHORT);
    check_numbers<int>(MPI_INT);
    check_numbers<unsigned>(MPI_UNSIGNED);
    check_numbers<long>(MPI_LONG);
    check_numbers<std::uint64_t>(MPI_UINT64_T);
    check_numbers<float>(MPI_FLOAT);
    check_numbers<double>(MPI_DOUBLE);
    check_bits<unsigned char>(MPI_BYTE);
    check_bits<short>(MPI_SHORT);
    check_bits<int>(MPI_INT);
    check_bits<unsigned long>(MPI_UNSIGNED_LONG);
  });
}

template <class T, class Place>
struct located {
  T value;
  Place place;
};

template <class T, class Place = int>
void check_location(MPI_Datatype type) {
  int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  located<T, Place> const sent{static_cast<T>(own % 3), static_cast<Place>(100 + own)};
  located<T, Place> least{}, greatest{};
  MPI_Allreduce(&sent, &least, 1, type, MPI_MINLOC, MPI_COMM_WORLD);
  MPI_Reduce(&sent, &greatest, 1, type, MPI_MAXLOC, size - 1, MPI_COMM_WORLD);
  EXPECT_EQ(least.value, T{0});
  EXPECT_EQ(least.place, 100) << "the lowest place wins a tie";
  if (own != size - 1) return;
  int const greatest_rank = size > 2 ? 2 : size - 1;
  EXPECT_EQ(greatest.value, static_cast<T>(greatest_rank));
  EXPECT_EQ(greatest.place, 100 + greatest_rank);
}

TEST(Reduction, MinlocAndMaxlocFindTheLowestPlace) {
  run_in_worlds([] {
    check_location<int>(MPI_2INT);
    check_location<float>(MPI_FLOAT_INT);
    check_location<double>(MPI_DOUBLE_INT);
    check_location<long>(MPI_LONG_INT);
    check_location<short>(MPI_SHORT_INT);
    check_location<int>(MPI_2INTEGER);
    check_location<float, float>(MPI_2REAL);
    check_location<double, double>(MPI_2DOUBLE_PRECISION);
  });
}

/// Reduces elements that lie `shift` bytes behind where they should, by operations that
/// reduce out of the program's own buffers, and compares with those of elements in their places.
template <class T>
void check_shifted(MPI_Datatype type, MPI_Op op, std::size_t shift, T (*element)(int, int)) {
  constexpr int count = 5;
  int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
  constexpr std::size_t length = count * sizeof(T);
  alignas(T) T sent[count], expected[count];
  std::memset(static_cast<void*>(sent), 0, length);  // the gaps of pairs, too
  for (int i = 0; i < count; ++i) sent[i] = element(own, i);
  std::memcpy(static_cast<void*>(expected), sent, length);
  std::vector<char> shifted(length + 64), result(length + 64);
  auto const in_place = [&](std::vector<char>& buffer) {
    std::size_t const first =
        alignof(T) - reinterpret_cast<std::uintptr_t>(buffer.data()) % alignof(T);
    return buffer.data() + first + shift;
  };
  char* const from = in_place(shifted);
  char* const to = in_place(result);
  std::memcpy(from, sent, length);
  auto const expect_equal = [&] {
    T got[count];
    std::memcpy(static_cast<void*>(got), to, length);
    for (int i = 0; i < count; ++i) EXPECT_TRUE(got[i] == expected[i]) << i << ", shift " << shift;
    EXPECT_EQ(std::memcmp(from, sent, length), 0);
  };
  T next[count];
  for (int i = 0; i < count; ++i) next[i] = element(own + 1, i);
  std::memcpy(static_cast<void*>(expected), next, length);
  std::memcpy(to, next, length);
  MPI_Reduce_local(sent, expected, count, type, op);
  MPI_Reduce_local(from, to, count, type, op);
  expect_equal();

  MPI_Request request;
  MPI_Allreduce(sent, expected, count, type, op, MPI_COMM_WORLD);
  MPI_Iallreduce(from, to, count, type, op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect_equal();
  std::vector<int> counts(static_cast<std::size_t>(size), 0);
  counts[0] = count;
  MPI_Reduce_scatter(from, to, counts.data(), type, op, MPI_COMM_WORLD);
  if (own == 0) expect_equal();
  MPI_Scan(sent, expected, count, type, op, MPI_COMM_WORLD);
  MPI_Scan(from, to, count, type, op, MPI_COMM_WORLD);
  expect_equal();
}

template <class T, class Place>
bool operator==(located<T, Place> const& one, located<T, Place> const& other) {
  return one.value == other.value && one.place == other.place;
}

TEST(Reduction, ElementsMayLieAnywhere) {
  run_in_worlds([] {
    for (std::size_t const shift : {0, 1, 4, 8}) {
      check_shifted<int>(MPI_INT, MPI_SUM, shift, [](int rank, int i) { return 100 * rank + i; });
      check_shifted<double>(MPI_DOUBLE, MPI_MAX, shift,
                            [](int rank, int i) { return rank * 0.5 - i; });
      check_shifted<long double>(MPI_LONG_DOUBLE, MPI_SUM, shift, [](int rank, int i) {
        return static_cast<long double>(rank + i);
      });
      check_shifted<std::complex<double>>(
          MPI_C_DOUBLE_COMPLEX, MPI_PROD, shift,
          [](int rank, int i) { return std::complex<double>(rank % 2 + 1, i); });
      check_shifted<located<long double, int>>(
          MPI_LONG_DOUBLE_INT, MPI_MAXLOC, shift, [](int rank, int i) {
            return located<long double, int>{static_cast<long double>(-rank * i), rank};
          });
    }
  });
}

/// The composition of two maps x -> factor * x + offset, which does not commute.
struct linear_map {
  int factor;
  int offset;
};

linear_map compose(linear_map const& first, linear_map const& second) {
  return {first.factor * second.factor % 1009,
          (second.factor * first.offset + second.offset) % 1009};
}
void compose_all(void* input, void* in_out, int* count, MPI_Datatype* type) {
  int size = 0;
  MPI_Type_size(*type, &size);
  EXPECT_EQ(size, static_cast<int>(sizeof(linear_map)));
  auto const* const first = static_cast<linear_map const*>(input);
  auto* const second = static_cast<linear_map*>(in_out);
  for (int i = 0; i < *count; ++i) second[i] = compose(first[i], second[i]);
}

TEST(Reduction, OperationsOfTheProgramAreAppliedInTheOrderOfRanks) {
  run_in_worlds([] {
    constexpr int count = 9;
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(compose_all, 0, &op);
    linear_map sent[count], all[count], up_to_own[count], below_own[count], at_root[count];
    for (int i = 0; i < count; ++i) sent[i] = {own + 2 + i, own * 5 + i};
    MPI_Allreduce(sent, all, count, type, op, MPI_COMM_WORLD);
    MPI_Scan(sent, up_to_own, count, type, op, MPI_COMM_WORLD);
    MPI_Exscan(sent, below_own, count, type, op, MPI_COMM_WORLD);
    MPI_Reduce(sent, at_root, count, type, op, size / 2, MPI_COMM_WORLD);
    for (int i = 0; i < count; ++i) {
      linear_map expected{2 + i, i};
      for (int rank = 0; rank < size; ++rank) {
        if (rank == own && rank > 0) {
          EXPECT_EQ(below_own[i].factor, expected.factor);
          EXPECT_EQ(below_own[i].offset, expected.offset);
        }
        if (rank > 0) expected = compose(expected, {rank + 2 + i, rank * 5 + i});
        if (rank == own) {
          EXPECT_EQ(up_to_own[i].factor, expected.factor);
          EXPECT_EQ(up_to_own[i].offset, expected.offset);
        }
      }
      EXPECT_EQ(all[i].factor, expected.factor);
      EXPECT_EQ(all[i].offset, expected.offset);
      if (own == size / 2) {
        EXPECT_EQ(at_root[i].offset, expected.offset);
      }
    }
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    EXPECT_EQ(op, MPI_OP_NULL);
    EXPECT_EQ(type, MPI_DATATYPE_NULL);
  });
}

void add_columns(void* input, void* in_out, int* count, MPI_Datatype* type) {
  MPI_Aint lower = 0, extent = 0;
  MPI_Type_get_extent(*type, &lower, &extent);
  for (int i = 0; i < *count; ++i) {
    for (int row = 0; row < 3; ++row) {
      auto const place = static_cast<std::size_t>(i * extent / 4 + row * 2);
      static_cast<int*>(in_out)[place] += static_cast<int const*>(input)[place];
    }
  }
}

TEST(Reduction, TypesWithGapsLeaveTheGapsOfTheResultUnchanged) {
  run_in_worlds([] {
    int const own = rank_in(MPI_COMM_WORLD), size = size_of(MPI_COMM_WORLD);
    MPI_Datatype column = MPI_DATATYPE_NULL;
    MPI_Type_vector(3, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(add_columns, 1, &op);
    int const sent[5] = {own, 50, own + 1, 50, own + 2};
    for (bool const is_for_all : {false, true}) {
      int received[5] = {-1, -2, -3, -4, -5};
      if (is_for_all) {
        MPI_Allreduce(sent, received, 1, column, op, MPI_COMM_WORLD);
      } else {
        MPI_Reduce(sent, received, 1, column, op, 0, MPI_COMM_WORLD);
      }
      if (!is_for_all && own != 0) continue;
      int const sum = size * (size - 1) / 2;
      int const expected[5] = {sum, -2, sum + size, -4, sum + 2 * size};
      for (int i = 0; i < 5; ++i) EXPECT_EQ(received[i], expected[i]) << i;
    }
    MPI_Op_free(&op);
    MPI_Type_free(&column);
  });
}

TEST(Reduction, AnOperationRefusesTypesThatItIsNotDefinedFor) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    double number = 1, result = 0;
    EXPECT_EQ(MPI_Allreduce(&number, &result, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    EXPECT_EQ(MPI_Reduce(&number, &result, 1, MPI_DOUBLE, MPI_MINLOC, 0, MPI_COMM_WORLD),
              MPI_ERR_OP);
    EXPECT_EQ(MPI_Scan(&number, &result, 1, MPI_DOUBLE, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
  });
}

TEST(Reduction, OperationsForOneSidedCommunicationAreRefused) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    double number[2] = {1, 2}, result[2] = {0, 0};
    for (MPI_Op const op : {MPI_REPLACE, MPI_NO_OP}) {
      for (MPI_Datatype const type : {MPI_INT, MPI_DOUBLE, MPI_BYTE, MPI_C_COMPLEX, MPI_2INT}) {
        EXPECT_EQ(MPI_Allreduce(number, result, 1, type, op, MPI_COMM_WORLD), MPI_ERR_OP);
        EXPECT_EQ(MPI_Reduce(number, result, 1, type, op, 0, MPI_COMM_WORLD), MPI_ERR_OP);
        EXPECT_EQ(MPI_Scan(number, result, 1, type, op, MPI_COMM_WORLD), MPI_ERR_OP);
        EXPECT_EQ(MPI_Exscan(number, result, 1, type, op, MPI_COMM_WORLD), MPI_ERR_OP);
      }
    }
  });
}

/// As MPI's table says, except that bytes and characters are numbers, as with other MPIs.
TEST(Reduction, EachTypeAcceptsItsOperationsAndNoOthers) {
  std::set<MPI_Op> const order{MPI_MAX, MPI_MIN}, sums{MPI_SUM, MPI_PROD},
      logical{MPI_LAND, MPI_LOR, MPI_LXOR}, bits{MPI_BAND, MPI_BOR, MPI_BXOR},
      places{MPI_MINLOC, MPI_MAXLOC};
  auto const join = [](std::initializer_list<std::set<MPI_Op>> parts) {
    std::set<MPI_Op> all;
    for (auto const& part : parts) all.insert(part.begin(), part.end());
    return all;
  };
  std::map<MPI_Datatype, std::set<MPI_Op>> accepted;
  for (MPI_Datatype const type :
       {MPI_INT, MPI_SIGNED_CHAR, MPI_CHAR, MPI_BYTE, MPI_UNSIGNED_LONG, MPI_AINT, MPI_INTEGER})
    accepted[type] = join({order, sums, logical, bits});
  for (MPI_Datatype const type :
       {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION})
    accepted[type] = join({order, sums});
  for (MPI_Datatype const type : {MPI_C_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
                                  MPI_COMPLEX, MPI_DOUBLE_COMPLEX})
    accepted[type] = sums;
  for (MPI_Datatype const type :
       {MPI_2INT, MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
        MPI_2INTEGER, MPI_2REAL, MPI_2DOUBLE_PRECISION})
    accepted[type] = places;
  accepted[MPI_C_BOOL] = accepted[MPI_LOGICAL] = logical;
  accepted[MPI_WCHAR] = accepted[MPI_CHARACTER] = accepted[MPI_PACKED] = {};
  run_everywhere(1, [&accepted] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (auto const& [type, operations] : accepted) {
      for (MPI_Op op = MPI_OP_NULL; op <= MPI_NO_OP + 1; ++op) {
        alignas(16) char number[32] = {}, result[32] = {};
        EXPECT_EQ(MPI_Allreduce(number, result, 1, type, op, MPI_COMM_WORLD),
                  operations.count(op) != 0 ? MPI_SUCCESS : MPI_ERR_OP)
            << "type " << type << ", operation " << op;
      }
    }
  });
}

/// A struct of whose numbers a type leaves out the first one, and a type of another struct without
/// the gap at its end.
struct partial {
  int left_out;
  int whole;
  double real;
};
struct packed {
  double real;
  char letter;
};

std::atomic<int> unaligned{0};

void add_structs(void* input, void* in_out, int* count, MPI_Datatype* type) {
  for (void const* const address : {input, in_out})
    unaligned += reinterpret_cast<std::uintptr_t>(address) % alignof(double) != 0;
  int size = 0;
  MPI_Type_size(*type, &size);
  EXPECT_EQ(*count, 1);
  double left = 0, right = 0;
  std::size_t const offset = size == 9 ? offsetof(packed, real) : offsetof(partial, real);
  std::memcpy(&left, static_cast<char const*>(input) + offset, sizeof(left));
  std::memcpy(&right, static_cast<char const*>(in_out) + offset, sizeof(right));
  right += left;
  std::memcpy(static_cast<char*>(in_out) + offset, &right, sizeof(right));
}

template <class T>
void check_aligned(MPI_Datatype type, MPI_Op op) {
  int const size = size_of(MPI_COMM_WORLD), own = rank_in(MPI_COMM_WORLD);
  T mine{}, result{};
  mine.real = 1;
  MPI_Request request;
  MPI_Allreduce(&mine, &result, 1, type, op, MPI_COMM_WORLD);
  EXPECT_EQ(result.real, size);
  MPI_Scan(&mine, &result, 1, type, op, MPI_COMM_WORLD);
  EXPECT_EQ(result.real, own + 1);
  MPI_Iallreduce(&mine, &result, 1, type, op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(result.real, size);
  MPI_Iscan(&mine, &result, 1, type, op, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT_EQ(result.real, own + 1);
}

TEST(Reduction, OperationsOfTheProgramGetStructsAtTheirAlignment) {
  unaligned = 0;
  run_in_worlds([] {
    int const ones[] = {1, 1};
    MPI_Aint const in_partial[] = {offsetof(partial, whole), offsetof(partial, real)};
    MPI_Aint const in_packed[] = {offsetof(packed, real), offsetof(packed, letter)};
    MPI_Datatype const of_partial[] = {MPI_INT, MPI_DOUBLE}, of_packed[] = {MPI_DOUBLE, MPI_CHAR};
    MPI_Datatype partials, packeds, padded;
    MPI_Type_create_struct(2, ones, in_partial, of_partial, &partials);
    MPI_Type_create_struct(2, ones, in_packed, of_packed, &padded);
    MPI_Type_create_resized(padded, 0, 9, &packeds);
    MPI_Type_commit(&partials);
    MPI_Type_commit(&packeds);
    MPI_Op add;
    MPI_Op_create(add_structs, 1, &add);
    check_aligned<partial>(partials, add);
    check_aligned<packed>(packeds, add);
    MPI_Op_free(&add);
    for (MPI_Datatype* type : {&partials, &packeds, &padded}) MPI_Type_free(type);
  });
  EXPECT_EQ(unaligned, 0);
}

}  // namespace reduction_test
}  // namespace quarry::test

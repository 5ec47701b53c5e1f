// SPDX-License-Identifier: Apache-2.0
// Types of all constructors against a list of basic types and places.
#include "mpi/support/type_model.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace quarry::test {
namespace random_types_test {

/// A buffer that a type can reach into on both sides of its address.
struct reachable {
  std::vector<unsigned char> bytes;
  long origin;  // the place of the address in the buffer

  explicit reachable(std::vector<type_model::entry> const& entries) {
    long low = 0, high = 0;
    for (auto const& each : entries) {
      low = std::min(low, each.place);
      high = std::max(high, each.place + each.size);
    }
    origin = -low + 16;
    bytes.resize(static_cast<std::size_t>(high + origin + 16));
  }
  [[nodiscard]] unsigned char* address() { return bytes.data() + origin; }
  [[nodiscard]] unsigned char& at(long place) {
    return bytes[static_cast<std::size_t>(origin + place)];
  }
};

/// What the library says of the type.
void check_facts(type_model const& model) {
  int size = -1;
  MPI_Aint lower = -1, extent = -1, true_lower = -1, true_extent = -1;
  MPI_Type_size(model.type, &size);
  MPI_Type_get_extent(model.type, &lower, &extent);
  MPI_Type_get_true_extent(model.type, &true_lower, &true_extent);
  EXPECT_EQ(size, model.size());
  EXPECT_EQ(lower, model.lower());
  EXPECT_EQ(extent, model.extent());
  EXPECT_EQ(true_lower, model.true_bounds().low);
  EXPECT_EQ(true_extent, model.true_bounds().high - model.true_bounds().low);
}

void check_packing(type_model const& model, int count, random_types& numbers) {
  std::vector<type_model::entry> const entries = model.elements(count);
  reachable buffer{entries};
  for (auto& byte : buffer.bytes) byte = static_cast<unsigned char>(numbers.below(256));
  std::vector<unsigned char> expected;
  for (auto const& each : entries)
    for (int i = 0; i < each.size; ++i) expected.push_back(buffer.at(each.place + i));
  int packed_size = -1, position = 0;
  MPI_Pack_size(count, model.type, MPI_COMM_SELF, &packed_size);
  ASSERT_EQ(packed_size, static_cast<int>(expected.size()));
  std::vector<unsigned char> packed(expected.size() + 1, 77);
  MPI_Pack(buffer.address(), count, model.type, packed.data(), packed_size, &position,
           MPI_COMM_SELF);
  EXPECT_EQ(position, packed_size);
  EXPECT_EQ(packed.back(), 77);
  packed.pop_back();
  ASSERT_EQ(packed, expected);
  if (overlaps(entries)) return;  // MPI forbids to receive them

  reachable target{entries};
  for (auto& byte : target.bytes) byte = 0xa5;
  reachable wanted{target};
  position = 0;
  MPI_Unpack(packed.data(), packed_size, &position, target.address(), count, model.type,
             MPI_COMM_SELF);
  std::size_t next = 0;
  for (auto const& each : entries)
    for (int i = 0; i < each.size; ++i) wanted.at(each.place + i) = packed[next++];
  ASSERT_EQ(target.bytes, wanted.bytes);

  MPI_Aint external_size = -1, place = 0;
  MPI_Pack_external_size("external32", count, model.type, &external_size);
  std::vector<unsigned char> external(static_cast<std::size_t>(external_size) + 1, 77);
  MPI_Pack_external("external32", target.address(), count, model.type, external.data(),
                    external_size, &place);
  EXPECT_EQ(place, external_size);
  EXPECT_EQ(external.back(), 77);
  for (auto& byte : target.bytes) byte = 0xa5;
  place = 0;
  MPI_Unpack_external("external32", external.data(), external_size, &place, target.address(), count,
                      model.type);
  ASSERT_EQ(target.bytes, wanted.bytes);
}

/// A message can be shorter than the receive: it ends within an element.
void check_short_message(type_model const& model, int count, random_types& numbers) {
  std::vector<type_model::entry> const entries = model.elements(count);
  if (entries.empty() || overlaps(entries)) return;
  int const basic_elements = numbers.below(static_cast<int>(entries.size()) + 1);
  int const size = std::accumulate(entries.begin(), entries.begin() + basic_elements, 0,
                                   [](int sum, auto const& each) { return sum + each.size; });
  std::vector<unsigned char> sent(static_cast<std::size_t>(size));
  for (auto& byte : sent) byte = static_cast<unsigned char>(numbers.below(256));
  reachable target{entries}, wanted{entries};
  std::size_t next = 0;
  for (int k = 0; k < basic_elements; ++k)
    for (int i = 0; i < entries[static_cast<std::size_t>(k)].size; ++i)
      wanted.at(entries[static_cast<std::size_t>(k)].place + i) = sent[next++];
  MPI_Status status;
  MPI_Sendrecv(sent.data(), size, MPI_BYTE, 0, 0, target.address(), count, model.type, 0, 0,
               MPI_COMM_SELF, &status);
  EXPECT_EQ(target.bytes, wanted.bytes);
  int found = -1, whole = -1;
  MPI_Get_elements(&status, model.type, &found);
  EXPECT_EQ(found, basic_elements);
  MPI_Get_count(&status, model.type, &whole);
  int const each = static_cast<int>(model.entries.size());
  EXPECT_EQ(whole, basic_elements % each == 0 ? basic_elements / each : MPI_UNDEFINED);
  MPI_Status_set_elements(&status, model.type, basic_elements);
  MPI_Get_elements(&status, MPI_BYTE, &found);
  EXPECT_EQ(found, size);
}

/// Makes the type again from what the library says of it.
MPI_Datatype made_again(MPI_Datatype type) {
  int ints = -1, addresses = -1, types = -1, combiner = -1;
  MPI_Type_get_envelope(type, &ints, &addresses, &types, &combiner);
  if (combiner == MPI_COMBINER_NAMED) return type;
  std::vector<int> i(static_cast<std::size_t>(ints) + 1);
  std::vector<MPI_Aint> a(static_cast<std::size_t>(addresses) + 1);
  std::vector<MPI_Datatype> t(static_cast<std::size_t>(types) + 1);
  MPI_Type_get_contents(type, ints, addresses, types, i.data(), a.data(), t.data());
  std::vector<MPI_Datatype> parts;
  for (int k = 0; k < types; ++k) parts.push_back(made_again(t[static_cast<std::size_t>(k)]));
  for (int k = 0; k < types; ++k)
    if (t[static_cast<std::size_t>(k)] >= 0x10000) MPI_Type_free(&t[static_cast<std::size_t>(k)]);
  MPI_Datatype made = MPI_DATATYPE_NULL;
  int* const n = i.data();
  switch (combiner) {
    case MPI_COMBINER_DUP:
      MPI_Type_dup(parts[0], &made);
      break;
    case MPI_COMBINER_CONTIGUOUS:
      MPI_Type_contiguous(n[0], parts[0], &made);
      break;
    case MPI_COMBINER_VECTOR:
      MPI_Type_vector(n[0], n[1], n[2], parts[0], &made);
      break;
    case MPI_COMBINER_HVECTOR:
      MPI_Type_create_hvector(n[0], n[1], a[0], parts[0], &made);
      break;
    case MPI_COMBINER_INDEXED:
      MPI_Type_indexed(n[0], n + 1, n + 1 + n[0], parts[0], &made);
      break;
    case MPI_COMBINER_HINDEXED:
      MPI_Type_create_hindexed(n[0], n + 1, a.data(), parts[0], &made);
      break;
    case MPI_COMBINER_INDEXED_BLOCK:
      MPI_Type_create_indexed_block(n[0], n[1], n + 2, parts[0], &made);
      break;
    case MPI_COMBINER_HINDEXED_BLOCK:
      MPI_Type_create_hindexed_block(n[0], n[1], a.data(), parts[0], &made);
      break;
    case MPI_COMBINER_STRUCT:
      MPI_Type_create_struct(n[0], n + 1, a.data(), parts.data(), &made);
      break;
    case MPI_COMBINER_RESIZED:
      MPI_Type_create_resized(parts[0], a[0], a[1], &made);
      break;
    case MPI_COMBINER_SUBARRAY:
      MPI_Type_create_subarray(n[0], n + 1, n + 1 + n[0], n + 1 + 2 * n[0], n[1 + 3 * n[0]],
                               parts[0], &made);
      break;
    case MPI_COMBINER_DARRAY:
      MPI_Type_create_darray(n[0], n[1], n[2], n + 3, n + 3 + n[2], n + 3 + 2 * n[2],
                             n + 3 + 3 * n[2], n[3 + 4 * n[2]], parts[0], &made);
      break;
    default:
      ADD_FAILURE() << "combiner " << combiner;
  }
  for (MPI_Datatype& part : parts)
    if (part >= 0x10000) MPI_Type_free(&part);
  return made;
}

void check_everything(int rounds, int depth) {
  for (int seed = 1; seed <= rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_types numbers{static_cast<std::uint64_t>(seed)};
    type_model model = numbers.make(depth);
    if (numbers.below(3) == 0) {  // the same from its description
      MPI_Datatype const again = made_again(model.type);
      random_types::release(model);
      model.type = again;
    }
    MPI_Type_commit(&model.type);
    int const count = numbers.below(4);
    check_facts(model);
    check_packing(model, count, numbers);
    check_short_message(model, count, numbers);
    random_types::release(model);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(RandomTypes, AreThoseOfAListOfBasicTypes) {
  program_result const result = run_on_threads(1, [] { check_everything(4000, 4); });
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.wrong_frees, 0u);
}

}  // namespace random_types_test
}  // namespace quarry::test

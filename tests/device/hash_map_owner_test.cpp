// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/hash_map_owner.hpp"

#include "support/backends.hpp"

#include <map>
#include <memory>
#include <vector>

namespace quarry {

using namespace detail;
namespace hash_map_owner_test {

using namespace test;

using key = std::uint64_t;
using value = std::uint32_t;

template <class Backend>
struct run_on {
  template <class Kernel>
  void operator()(simt::grid lanes, Kernel const& kernel) const {
    Backend{seed}.run({std::min(lanes.blocks, 2u), 64},
                      kernel);  // few lanes: emulation cannot run many
  }
  std::uint64_t seed = 1;
};
template <class Backend>
using owned_map = hash_map<key, value, run_on<Backend>>;

template <class Backend>
class HashMapOwner : public testing::Test {
 protected:
  static constexpr backend backend_kind =
      std::string_view{Backend::name} == "cuda" ? backend::cuda : backend::cpu;

  /// The entries of the map under these keys.
  static std::map<key, value> found_in(owned_map<Backend>& map, std::vector<key> const& keys) {
    std::vector<value> values(keys.size(), 99);
    auto const is_found = std::make_unique<bool[]>(keys.size());
    auto const count = map.find(keys, values, std::span<bool>{is_found.get(), keys.size()});
    std::map<key, value> result;
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (is_found[i]) {
        result[keys[i]] = values[i];
        ++found;
      } else {
        EXPECT_EQ(values[i], 99u) << "the value of a missing key stays as it is";
      }
    }
    EXPECT_EQ(count, found);
    return result;
  }
};
TYPED_TEST_SUITE(HashMapOwner, backends, backend_names);

TYPED_TEST(HashMapOwner, FindsExactlyTheInsertedKeys) {
  owned_map<TypeParam> map{{}, this->backend_kind, 100};
  EXPECT_EQ(map.capacity(), 128u);
  std::vector<key> const keys{1, 2, 3};
  std::vector<value> const values{10, 20, 30};
  auto const counts = map.insert(keys, values);
  EXPECT_EQ(counts.inserted, 3u);
  EXPECT_EQ(counts.duplicates + counts.table_full, 0u);
  EXPECT_EQ(this->found_in(map, {1, 2, 3, 4}), (std::map<key, value>{{1, 10}, {2, 20}, {3, 30}}));
}

TYPED_TEST(HashMapOwner, CountsDuplicatesAndKeepsTheFirstValues) {
  owned_map<TypeParam> map{{}, this->backend_kind, 16};
  (void)map.insert(std::vector<key>{1, 2}, std::vector<value>{10, 20});
  auto const counts = map.insert(std::vector<key>{2, 3}, std::vector<value>{21, 30});
  EXPECT_EQ(counts.inserted, 1u);
  EXPECT_EQ(counts.duplicates, 1u);
  EXPECT_EQ(this->found_in(map, {1, 2, 3}), (std::map<key, value>{{1, 10}, {2, 20}, {3, 30}}));
}

TYPED_TEST(HashMapOwner, CountsTheKeysThatAFullTableRefusesAndKeepsTheOthers) {
  owned_map<TypeParam> map{{}, this->backend_kind, 8};
  std::vector<key> keys;
  for (key key_value = 0; key_value < 20; ++key_value) keys.push_back(key_value);
  auto const counts = map.insert(keys, std::vector<value>(20, 7));
  EXPECT_EQ(counts.inserted, 8u);
  EXPECT_EQ(counts.table_full, 12u);
  EXPECT_EQ(this->found_in(map, keys).size(), 8u);
}

TYPED_TEST(HashMapOwner, IsEmptyAndReusableAfterClear) {
  owned_map<TypeParam> map{{}, this->backend_kind, 8};
  std::vector<key> const keys{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(map.insert(keys, std::vector<value>(8, 1)).inserted, 8u);
  map.clear();
  EXPECT_TRUE(this->found_in(map, keys).empty());
  std::vector<key> const new_keys{11, 12, 13, 14, 15, 16, 17, 18};
  EXPECT_EQ(map.insert(new_keys, std::vector<value>(8, 2)).inserted, 8u);
  EXPECT_EQ(this->found_in(map, new_keys).size(), 8u);
}

TYPED_TEST(HashMapOwner, SharesNothingWithAnotherMap) {
  auto first = std::make_unique<owned_map<TypeParam>>(run_on<TypeParam>{}, this->backend_kind, 16u);
  owned_map<TypeParam> second{{}, this->backend_kind, 16};
  (void)first->insert(std::vector<key>{1}, std::vector<value>{10});
  (void)second.insert(std::vector<key>{1, 2}, std::vector<value>{11, 22});
  EXPECT_EQ(this->found_in(*first, {1, 2}), (std::map<key, value>{{1, 10}}));
  first.reset();
  EXPECT_EQ(this->found_in(second, {1, 2}), (std::map<key, value>{{1, 11}, {2, 22}}));
}

TYPED_TEST(HashMapOwner, TakesArraysThatKernelsCanAccess) {
  owned_map<TypeParam> map{{}, this->backend_kind, 16};
  typename TypeParam::template array<key> keys(3);
  typename TypeParam::template array<value> values(3);
  typename TypeParam::template array<value> results(3);
  for (std::size_t i = 0; i < 3; ++i) {
    keys[i] = i + 1;
    values[i] = static_cast<value>(i);
  }
  kernel_memory is_found{this->backend_kind, 3};
  EXPECT_EQ(map.insert(keys.data(), values.data(), 3).inserted, 3u);
  EXPECT_EQ(map.find(keys.data(), results.data(), static_cast<bool*>(is_found.data()), 3), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i], values[i]);
}

TYPED_TEST(HashMapOwner, RefusesBadArgumentsAndChangesNothing) {
  EXPECT_THROW((owned_map<TypeParam>{{}, this->backend_kind, 0}), bad_argument);
  EXPECT_THROW((owned_map<TypeParam>{{}, this->backend_kind, (1u << 31) + 1}), bad_argument);
  owned_map<TypeParam> map{{}, this->backend_kind, 8};
  EXPECT_THROW((void)map.insert(std::vector<key>{1, 2}, std::vector<value>{1}), bad_argument);
  std::vector<value> values(2);
  bool found[1] = {};
  EXPECT_THROW((void)map.find(std::vector<key>{1, 2}, values, found), bad_argument);
  EXPECT_EQ(map.insert(std::vector<key>{}, std::vector<value>{}).inserted, 0u);
  EXPECT_TRUE(this->found_in(map, {1, 2}).empty());
}

TYPED_TEST(HashMapOwner, AgreesWithANaiveMap) {
  for (std::uint64_t const seed : TypeParam::seeds()) {
    dice random{seed};
    owned_map<TypeParam> map{run_on<TypeParam>{seed}, this->backend_kind, 512};
    std::map<key, value> naive;
    for (int round = 0; round < 3; ++round) {
      std::vector<key> keys(random.below(100));
      std::vector<value> values;
      std::uint64_t fresh = 0;
      for (key& key_value : keys) {
        key_value = random.below(150);
        values.push_back(static_cast<value>(key_value * 3));  // equal keys have equal values
        fresh += naive.emplace(key_value, values.back()).second;
      }
      auto const counts = map.insert(keys, values);
      ASSERT_EQ(counts.inserted, fresh) << "seed " << seed;
      ASSERT_EQ(counts.duplicates, keys.size() - fresh) << "seed " << seed;
    }
    std::vector<key> all(150);
    for (key key_value = 0; key_value < all.size(); ++key_value) all[key_value] = key_value;
    ASSERT_EQ(this->found_in(map, all), naive) << "seed " << seed;
  }
}

}  // namespace hash_map_owner_test
}  // namespace quarry

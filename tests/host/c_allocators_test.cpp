// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/c_api.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace quarry::test {
namespace c_allocators_test {

bool says(char const* words) {
  return std::string{quarry_last_error()}.find(words) != std::string::npos;
}

struct CAllocators : testing::Test {
  CAllocators() {
    EXPECT_EQ(quarry_allocator_make("HOST", "host", &host), QUARRY_OK);
    EXPECT_EQ(quarry_allocator_make("fields", "pool('HOST', first_block=64KiB)", &fields),
              QUARRY_OK);
  }
  ~CAllocators() override {
    (void)quarry_allocator_destroy("fields", 1);
    EXPECT_EQ(quarry_allocator_destroy("HOST", 1), QUARRY_OK);
  }
  quarry_allocator* host = nullptr;
  quarry_allocator* fields = nullptr;
};

TEST_F(CAllocators, AreFoundByNameAliasAndAddress) {
  quarry_allocator* found = nullptr;
  EXPECT_EQ(quarry_allocator_find("fields", &found), QUARRY_OK);
  EXPECT_EQ(found, fields);
  EXPECT_EQ(quarry_allocator_add_alias("energy", "fields"), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_find("energy", &found), QUARRY_OK);
  EXPECT_EQ(found, fields);
  EXPECT_EQ(quarry_allocator_remove_alias("energy"), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_find("energy", &found), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(found, nullptr);
  EXPECT_TRUE(says("there is no allocator 'energy'. There are 'HOST', 'fields'."));
  void* a = nullptr;
  EXPECT_EQ(quarry_allocator_allocate(fields, 100, &a), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_of(static_cast<char*>(a) + 99, &found), QUARRY_OK);
  EXPECT_EQ(found, fields);
  int local = 0;
  EXPECT_EQ(quarry_allocator_of(&local, &found), QUARRY_BAD_ARGUMENT);
}

TEST_F(CAllocators, AllocateFreeAndCount) {
  void* a = nullptr;
  uint64_t size = 0;
  uint32_t id = 0, other_id = 0;
  quarry_allocator_counts counts;
  ASSERT_EQ(quarry_allocator_allocate(fields, 100, &a), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_size_of(fields, a, &size), QUARRY_OK);
  EXPECT_EQ(size, 100u);
  EXPECT_EQ(quarry_allocator_size_of(host, a, &size), QUARRY_NOT_IN_USE)
      << "for HOST the address is a block";
  EXPECT_EQ(quarry_allocator_get_counts(fields, &counts), QUARRY_OK);
  EXPECT_EQ(counts.allocated, 100u);
  EXPECT_EQ(counts.reserved, 65536u);
  EXPECT_EQ(counts.allocations_in_use, 1u);
  EXPECT_EQ(quarry_allocator_id(fields, &id), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_id(host, &other_id), QUARRY_OK);
  EXPECT_NE(id, other_id);
  quarry_record record;
  EXPECT_EQ(quarry_find(a, &record), QUARRY_OK);
  EXPECT_EQ(record.allocator, id);
  EXPECT_EQ(quarry_allocator_label(fields, a, "density"), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_label(host, a, "density"), QUARRY_NOT_IN_USE);
  EXPECT_EQ(quarry_allocator_label(fields, a, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_deallocate(fields, a), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_deallocate(fields, a), QUARRY_NOT_IN_USE);
  EXPECT_EQ(quarry_allocator_deallocate(fields, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_release(fields), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_coalesce(fields, 131072), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_get_counts(fields, &counts), QUARRY_OK);
  EXPECT_EQ(counts.reserved, 131072u);
  EXPECT_EQ(counts.invalid_frees, 1u);
}

TEST_F(CAllocators, FreeReallocateAndMoveMemoryByItsAddress) {
  void* a = nullptr;
  quarry_allocator* found = nullptr;
  ASSERT_EQ(quarry_allocator_allocate(fields, 100, &a), QUARRY_OK);
  std::memset(a, 5, 100);
  ASSERT_EQ(quarry_reallocate(a, 1000, &a), QUARRY_OK);
  ASSERT_EQ(quarry_move(a, host, &a), QUARRY_OK);
  EXPECT_EQ(static_cast<char*>(a)[99], 5);
  EXPECT_EQ(quarry_allocator_of(a, &found), QUARRY_OK);
  EXPECT_EQ(found, host);
  EXPECT_EQ(quarry_deallocate(static_cast<char*>(a) + 16), QUARRY_BAD_ARGUMENT);
  EXPECT_TRUE(says("lies 16 bytes after")) << quarry_last_error();
  EXPECT_EQ(quarry_deallocate(a), QUARRY_OK);
  EXPECT_EQ(quarry_deallocate(a), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_deallocate(nullptr), QUARRY_OK);
  void* memory = a;
  EXPECT_EQ(quarry_reallocate(nullptr, 10, &memory), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(memory, nullptr);
}

TEST_F(CAllocators, ReallocateAllocatesForNullMemory) {
  void* a = nullptr;
  quarry_allocator* owner = nullptr;
  ASSERT_EQ(quarry_allocator_reallocate(fields, nullptr, 100, &a), QUARRY_OK);
  std::memset(a, 5, 100);
  ASSERT_EQ(quarry_allocator_reallocate(host, a, 100'000, &a), QUARRY_OK);
  EXPECT_EQ(static_cast<char*>(a)[99], 5);
  EXPECT_EQ(quarry_allocator_of(a, &owner), QUARRY_OK);
  EXPECT_EQ(owner, fields) << "the memory stays with its allocator";
  EXPECT_EQ(quarry_deallocate(a), QUARRY_OK);
  void* memory = a;
  EXPECT_EQ(quarry_allocator_reallocate(fields, a, 10, &memory), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(quarry_allocator_reallocate(fields, nullptr, 10, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_reallocate(nullptr, nullptr, 10, &memory), QUARRY_BAD_ARGUMENT);
}

TEST_F(CAllocators, RefuseHandlesOfOtherKindsAndDestroyedHandles) {
  void* a = nullptr;
  uint32_t id = 0;
  quarry_pool* pool = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK);
  auto* const wrong = reinterpret_cast<quarry_allocator*>(pool);
  EXPECT_EQ(quarry_allocator_allocate(wrong, 10, &a), QUARRY_BAD_ARGUMENT);
  EXPECT_TRUE(says("is a pool, not an allocator")) << quarry_last_error();
  EXPECT_EQ(quarry_allocator_deallocate(wrong, &a), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_deallocate(wrong, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_allocate(reinterpret_cast<quarry_pool*>(fields), 10, &a),
            QUARRY_BAD_ARGUMENT);
  EXPECT_TRUE(says("is an allocator, not a pool")) << quarry_last_error();
  EXPECT_EQ(quarry_pool_destroy(reinterpret_cast<quarry_pool*>(fields)), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_id(nullptr, &id), QUARRY_BAD_ARGUMENT);
  EXPECT_TRUE(says("the allocator is null")) << quarry_last_error();
  EXPECT_EQ(quarry_pool_destroy(pool), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_destroy("fields", 0), QUARRY_OK);
  EXPECT_EQ(quarry_allocator_allocate(fields, 10, &a), QUARRY_DESTROYED);
  EXPECT_EQ(quarry_allocator_deallocate(fields, &a), QUARRY_DESTROYED);
  EXPECT_EQ(quarry_allocator_release(fields), QUARRY_DESTROYED);
}

TEST_F(CAllocators, RefuseNullAndNamesInUse) {
  quarry_allocator* made = fields;
  EXPECT_EQ(quarry_allocator_make("fields", "host", &made), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(quarry_allocator_make("x", "hots", &made), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_make(nullptr, "host", &made), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_make("x", nullptr, &made), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_make("x", "host", nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_find(nullptr, &made), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_find("fields", nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_add_alias(nullptr, "fields"), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_add_alias("x", nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_remove_alias(nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_destroy(nullptr, 0), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_allocate(fields, 10, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_size_of(fields, &made, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_get_counts(fields, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_id(fields, nullptr), QUARRY_BAD_ARGUMENT);
  void* a = nullptr;
  ASSERT_EQ(quarry_allocator_allocate(fields, 10, &a), QUARRY_OK);
  EXPECT_EQ(quarry_reallocate(a, 10, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_move(a, host, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_allocator_destroy("fields", 0), QUARRY_BAD_ARGUMENT);
  EXPECT_TRUE(says("1 allocations of 10 bytes")) << quarry_last_error();
  EXPECT_EQ(quarry_deallocate(a), QUARRY_OK);
}

}  // namespace c_allocators_test
}  // namespace quarry::test

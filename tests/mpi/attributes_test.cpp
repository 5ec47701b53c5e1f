// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <string>

namespace quarry::test {
namespace attributes_test {

/// What the functions of a key have seen.
struct seen {
  std::string calls;
  int copy_error = MPI_SUCCESS;
  int delete_error = MPI_SUCCESS;
};
int copy(MPI_Comm, int, void* state, void* value, void* result, int* flag) {
  auto& log = *static_cast<seen*>(state);
  log.calls += 'c';
  log.calls += static_cast<char>('0' + *static_cast<int*>(value));
  *static_cast<void**>(result) = value;
  *flag = *static_cast<int*>(value) != 9;
  return log.copy_error;
}
int discard(MPI_Comm, int, void* value, void* state) {
  auto& log = *static_cast<seen*>(state);
  log.calls += 'd';
  log.calls += static_cast<char>('0' + *static_cast<int*>(value));
  return log.delete_error;
}

TEST(Attributes, AreCopiedFromTheOldestAndDeletedFromTheYoungest) {
  run_everywhere(2, [] {
    seen log;
    int keys[3], values[] = {1, 2, 9};
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    for (int i = 0; i < 3; ++i) {
      MPI_Comm_create_keyval(copy, discard, &keys[i], &log);
      MPI_Comm_set_attr(first, keys[i], &values[i]);
    }
    MPI_Comm_free_keyval(&keys[1]);  // its attribute stays
    EXPECT_EQ(keys[1], MPI_KEYVAL_INVALID);
    MPI_Comm_dup(first, &second);
    EXPECT_EQ(log.calls, "c1c2c9");
    void* value = nullptr;
    int flag = -1;
    MPI_Comm_get_attr(second, keys[0], &value, &flag);
    EXPECT_TRUE(flag == 1 && value == &values[0]);
    MPI_Comm_get_attr(second, keys[2], &value, &flag);
    EXPECT_EQ(flag, 0) << "its copy function said so";
    log.calls.clear();
    MPI_Comm_set_attr(second, keys[0], &values[1]);  // the old value is deleted
    MPI_Comm_delete_attr(second, keys[0]);
    EXPECT_EQ(log.calls, "d1d2");
    log.calls.clear();
    MPI_Comm_free(&second);
    MPI_Comm_free(&first);
    EXPECT_EQ(log.calls, "d2d9d2d1");
  });
}

TEST(Attributes, AFunctionThatFailsKeepsTheObject) {
  run_everywhere(2, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    seen log;
    int key, value = 3;
    MPI_Comm first, second = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_create_keyval(copy, discard, &key, &log);
    MPI_Comm_set_attr(first, key, &value);
    log.copy_error = MPI_ERR_OTHER;
    EXPECT_EQ(MPI_Comm_dup(first, &second), MPI_ERR_OTHER);
    EXPECT_EQ(second, MPI_COMM_NULL);
    log.delete_error = MPI_ERR_OTHER;
    EXPECT_EQ(MPI_Comm_free(&first), MPI_ERR_OTHER);
    int flag = 0;
    void* found = nullptr;
    MPI_Comm_get_attr(first, key, &found, &flag);
    EXPECT_EQ(flag, 1);
    log.delete_error = log.copy_error = MPI_SUCCESS;
    EXPECT_EQ(MPI_Comm_free(&first), MPI_SUCCESS);
    EXPECT_EQ(MPI_Comm_get_attr(MPI_COMM_WORLD, 77, &found, &flag), MPI_ERR_KEYVAL);
    MPI_Comm_free_keyval(&key);
  });
}

/// Removes its own attribute when it is called first.
int remove_own(MPI_Comm communicator, int key, void*, void* state) {
  int& calls = *static_cast<int*>(state);
  return ++calls == 1 ? MPI_Comm_delete_attr(communicator, key) : MPI_SUCCESS;
}

TEST(Attributes, ADeleteFunctionMayRemoveTheAttribute) {
  run_everywhere(2, [] {
    int calls = 0, key, values[] = {1, 2}, flag = 0;
    void* found = nullptr;
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, remove_own, &key, &calls);
    MPI_Comm_set_attr(copy, key, &values[0]);
    MPI_Comm_set_attr(copy, key, &values[1]);  // the old attribute removes itself
    EXPECT_EQ(calls, 2);
    MPI_Comm_get_attr(copy, key, &found, &flag);
    EXPECT_TRUE(flag == 1 && found == &values[1]);
    MPI_Comm_free(&copy);
    MPI_Comm_free_keyval(&key);
  });
}

TEST(Attributes, MpiHasSomeOfItsOwn) {
  run_everywhere(3, [] {
    int* value = nullptr;
    int flag = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    EXPECT_TRUE(flag == 1 && *value == 0x7fffffff);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
    EXPECT_TRUE(flag == 1 && *value == 3);
  });
}

TEST(Information, KeepsTheOrderOfItsKeys) {
  run_everywhere(1, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info info, copy;
    MPI_Info_create(&info);
    for (char const* key : {"b", "a", "c"}) MPI_Info_set(info, key, "old");
    MPI_Info_set(info, "a", "a longer value");
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "b");
    int count = 0, length = 0, flag = 0;
    char text[MPI_MAX_INFO_VAL + 1];
    MPI_Info_get_nkeys(copy, &count);
    EXPECT_EQ(count, 3);
    MPI_Info_get_nthkey(info, 0, text);
    EXPECT_STREQ(text, "a");
    MPI_Info_get_valuelen(copy, "a", &length, &flag);
    EXPECT_TRUE(flag == 1 && length == 14);
    MPI_Info_get(copy, "a", 4, text, &flag);
    EXPECT_STREQ(text, "a lo");
    int room = 3;
    MPI_Info_get_string(copy, "a", &room, text, &flag);
    EXPECT_STREQ(text, "a ");
    EXPECT_EQ(room, 15);
    MPI_Info_get(info, "b", 4, text, &flag);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(MPI_Info_delete(info, "b"), MPI_ERR_INFO_NOKEY);
    EXPECT_EQ(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    EXPECT_EQ(MPI_Info_set(info, std::string(256, 'k').c_str(), "x"), MPI_ERR_INFO_KEY);
    EXPECT_EQ(MPI_Info_set(info, "k", std::string(1025, 'v').c_str()), MPI_ERR_INFO_VALUE);
    EXPECT_EQ(MPI_Info_get_nthkey(info, 2, text), MPI_ERR_ARG);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_set_info(MPI_COMM_WORLD, info);
    MPI_Info_free(&info);
    EXPECT_EQ(MPI_Info_set(info, "k", "x"), MPI_ERR_INFO);
    MPI_Comm_get_info(MPI_COMM_WORLD, &info);
    MPI_Info_get_nkeys(info, &count);
    EXPECT_EQ(count, 1) << "only the hint that MPI defines";
    for (MPI_Info* each : {&info, &copy}) MPI_Info_free(each);
  });
}

}  // namespace attributes_test
}  // namespace quarry::test

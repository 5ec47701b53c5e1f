// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/c_extension.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace quarry::test {
namespace c_extension_test {

using c_api::add_object;
using c_api::handle_kind;
using c_api::remove_object;
using c_api::use_object;

quarry_status increase(void* handle, handle_kind kind = handle_kind::opencl_heap) {
  return c_api::guarded([&] {
    return use_object(handle, kind, "increase", [](void* object) {
      ++*static_cast<std::atomic<int>*>(object);
      return QUARRY_OK;
    });
  });
}
quarry_status remove(void* handle) {
  return c_api::guarded([&] {
    (void)remove_object(handle, handle_kind::opencl_heap, "remove");
    return QUARRY_OK;
  });
}

TEST(CExtension, AHandleFindsItsObjectUntilItIsRemoved) {
  std::atomic<int> object{0};
  void* const handle = add_object(handle_kind::opencl_heap, &object);
  EXPECT_NE(handle, &object);
  EXPECT_EQ(increase(handle), QUARRY_OK);
  EXPECT_EQ(remove_object(handle, handle_kind::opencl_heap, "remove"), &object);
  EXPECT_EQ(increase(handle), QUARRY_DESTROYED);
  EXPECT_EQ(remove(handle), QUARRY_DESTROYED);
  EXPECT_TRUE(std::string{quarry_last_error()}.starts_with("remove: the OpenCL heap 0x"))
      << quarry_last_error();
  EXPECT_EQ(object, 1);
}

TEST(CExtension, HandlesOfTheCApiAndOfOtherLibrariesAreDistinguished) {
  std::atomic<int> object{0};
  void* const handle = add_object(handle_kind::opencl_heap, &object);
  auto* const as_pool = static_cast<quarry_pool*>(handle);
  EXPECT_EQ(quarry_pool_release(as_pool), QUARRY_BAD_ARGUMENT);
  EXPECT_NE(std::string{quarry_last_error()}.find("is an OpenCL heap, not a pool"),
            std::string::npos)
      << quarry_last_error();
  quarry_pool* pool = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK);
  EXPECT_EQ(increase(pool), QUARRY_BAD_ARGUMENT);
  EXPECT_NE(std::string{quarry_last_error()}.find("is a pool, not an OpenCL heap"),
            std::string::npos)
      << quarry_last_error();
  EXPECT_EQ(quarry_pool_destroy(pool), QUARRY_OK);
  EXPECT_EQ(remove(handle), QUARRY_OK);
}

TEST(CExtension, RemovalWaitsForConcurrentCalls) {
  std::atomic<int> object{0};
  void* const handle = add_object(handle_kind::opencl_heap, &object);
  std::atomic<int> inside{0};
  auto const meet = [&] {  // ends if two calls are inside at once
    (void)use_object(handle, handle_kind::opencl_heap, "meet", [&](void* found) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
      std::this_thread::yield();
      ++*static_cast<std::atomic<int>*>(found);
      return QUARRY_OK;
    });
  };
  std::thread one{meet}, two{meet};
  while (inside < 2) std::this_thread::yield();
  EXPECT_EQ(remove(handle), QUARRY_OK);
  EXPECT_EQ(object, 2);
  one.join();
  two.join();
}

TEST(CExtension, AForkDoesNotWaitForCallsAndItsChildHasTheHandles) {
  std::atomic<int> object{0};
  void* const handle = add_object(handle_kind::opencl_heap, &object);
  std::atomic<bool> is_inside{false}, is_over{false};
  std::thread caller{[&] {
    (void)use_object(handle, handle_kind::opencl_heap, "wait", [&](void*) {
      is_inside = true;
      while (!is_over) std::this_thread::yield();
      return QUARRY_OK;
    });
  }};
  while (!is_inside) std::this_thread::yield();
  pid_t const child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that waits for the call, which is in no thread of its own
    bool const works = increase(handle) == QUARRY_OK && remove(handle) == QUARRY_OK;
    _exit(works && remove(handle) == QUARRY_DESTROYED ? 0 : 1);
  }
  is_over = true;
  caller.join();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(remove(handle), QUARRY_OK);
}

TEST(CExtension, EachExceptionHasAStatusAndALongTextIsCut) {
  EXPECT_EQ(c_api::guarded([]() -> quarry_status { throw bad_argument{"no"}; }),
            QUARRY_BAD_ARGUMENT);
  EXPECT_STREQ(quarry_last_error(), "no");
  EXPECT_EQ(c_api::guarded([]() -> quarry_status { throw was_destroyed{""}; }), QUARRY_DESTROYED);
  EXPECT_EQ(c_api::guarded([]() -> quarry_status { throw std::bad_alloc{}; }),
            QUARRY_OUT_OF_MEMORY);
  EXPECT_EQ(c_api::guarded([]() -> quarry_status { throw resource_failed{"a", "b"}; }),
            QUARRY_RESOURCE_FAILED);
  EXPECT_EQ(c_api::guarded([]() -> quarry_status { throw 7; }), QUARRY_INTERNAL);
  EXPECT_EQ(c_api::fail(QUARRY_INTERNAL, std::string(9999, 'x').c_str()), QUARRY_INTERNAL);
  EXPECT_EQ(quarry_last_error(), std::string(4095, 'x'));
}

}  // namespace c_extension_test
}  // namespace quarry::test

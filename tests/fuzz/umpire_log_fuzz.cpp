// SPDX-License-Identifier: Apache-2.0
// Reads any file as a log of Umpire. Link with libFuzzer, or with main.cpp.
#include "fuzz/log_session.hpp"
#include "trace/umpire_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  static constexpr std::string_view fragments[] = {
      R"({"category":"operation","name":"make_memory_resource","string_args":{"allocator_ref":"0x1"},"tags":{"allocator_name":"HOST"},"timestamp":1})"
      "\n",
      R"({"category":"operation","name":"make_allocator","string_args":{"allocator_ref":"0x2","arg0":"HOST"},"tags":{"allocator_name":"pool"},"timestamp":2})"
      "\n",
      R"({"category":"operation","name":"allocate","numeric_args":{"size":64},"string_args":{"allocator_ref":"0x1","pointer":"0x100"},"timestamp":3})"
      "\n",
      R"({"category":"operation","name":"allocate","numeric_args":{"size":8},"string_args":{"allocator_ref":"0x2","pointer":"0x108"},"timestamp":4})"
      "\n",
      R"({"category":"operation","name":"deallocate","string_args":{"allocator_ref":"0x2","pointer":"0x108"},"timestamp":5})"
      "\n",
      R"({"category":"operation","name":"deallocate","string_args":{"allocator_ref":"0x1","pointer":"0x100"},"timestamp":6})"
      "\n",
      R"({"category":"operation","name":"reallocate","numeric_args":{"size":9},"string_args":{"allocator_ref":"0x2","current_ptr":"0x108"},"timestamp":7})"
      "\n",
      R"({"category":"operation","name":"reallocate","string_args":{"allocator_ref":"0x2","new_ptr":"0x110"},"timestamp":8})"
      "\n",
      R"({"category":"metadata","name":"event","string_args":{"name":"\ud83d\ude00\u0000"},"timestamp":9})"
      "\n",
      R"({"allocator_id":"a1","name":"HOST","op":"make_allocator","seq":1,"status":"committed"})"
      "\n",
      R"({"allocator_id":"a2","args":{"parent_allocator":"a1"},"name":"pool","op":"make_allocator","seq":2,"status":"committed"})"
      "\n",
      R"({"allocation_id":"m1","allocator_id":"a2","op":"allocate","seq":3,"size":8,"status":"pending"})"
      "\n",
      R"({"allocation_id":"m2","allocator_id":"a1","op":"allocate","seq":4,"size":64,"status":"pending"})"
      "\n",
      R"({"allocation_id":"m2","allocator_id":"a1","op":"allocate","seq":4,"size":64,"status":"committed"})"
      "\n",
      R"({"allocation_id":"m2","allocator_id":"a1","op":"deallocate","seq":5,"status":"pending"})"
      "\n",
      R"({"category":"operation","name":")",
      R"(allocate","numeric_args":{"size":)",
      R"(,"string_args":{"allocator_ref":"0x1","pointer":")",
      R"("},"timestamp":10})",
      "18446744073709551616",
      "0xffffffffffffffff",
      "(nil)",
      "-1.5e+3",
      "{\"a\":",
      "[",
      "]",
      "}",
      "\"",
      "\\u00",
      "\\",
      ",",
      ":",
      "null",
      "\n",
  };
  test::check_log(trace::open_umpire_log, test::log_from(data, size, fragments), 4);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Reads any file as a log of RMM. Link with libFuzzer, or with main.cpp.
#include "fuzz/log_session.hpp"
#include "trace/rmm_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  static constexpr std::string_view fragments[] = {
      "Thread,Time,Action,Pointer,Size,Stream\n",
      "1,10:00:00.5,allocate,0x10,8,0\n",
      "2,23:59:59.999999,free,0x10,8,0x1\r\n",
      "3,00:00:01.0,allocate failure,(nil),99,2\n",
      "4,",
      "09:59:60:000001,",
      "allocate,",
      "allocate failure,",
      "free,",
      "0xffffffffffffffff,",
      "(nil),",
      "18446744073709551615,",
      "18446744073709551616,",
      "0,",
      "-1,",
      "0x2\n",
      "0\n",
      "\n",
      ",",
      "\r",
  };
  test::check_log(trace::open_rmm_log, test::log_from(data, size, fragments), 1);
  return 0;
}

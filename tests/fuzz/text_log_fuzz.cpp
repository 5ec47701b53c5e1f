// SPDX-License-Identifier: Apache-2.0
// Reads any file as the text format. Link with libFuzzer, or with main.cpp.
#include "fuzz/log_session.hpp"
#include "trace/text_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  static constexpr std::string_view fragments[] = {
      "a 1 8\n",
      "f 1\n",
      "a ",
      "f ",
      "0 ",
      "18446744073709551614",
      "18446744073709551615",
      "99999999999999999999",
      "-1 ",
      "\t",
      " ",
      "\r\n",
      "\n",
      "7",
  };
  test::check_log(trace::open_text_log, test::log_from(data, size, fragments), 1);
  return 0;
}

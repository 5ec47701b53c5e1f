// SPDX-License-Identifier: Apache-2.0
#include "formats.hpp"

#include "model_program.hpp"

#include <llvm/Analysis/ValueTracking.h>

#include <tuple>

namespace quarry::compiler {

using namespace llvm;

namespace {

struct format_argument {
  char const* function;
  unsigned index;
};

constexpr format_argument format_arguments[] = {
    {"printf", 0},  {"fprintf", 1},  {"dprintf", 1},  {"sprintf", 1},  {"snprintf", 2},
    {"vprintf", 0}, {"vfprintf", 1}, {"vdprintf", 1}, {"vsprintf", 1}, {"vsnprintf", 2},
};

}  // namespace

bool has_conversion(CallBase const& call, char conversion) {
  StringRef const name = original_name(call);
  StringRef text;
  for (auto const& [function, index] : format_arguments)
    if (name == function && index < call.arg_size())
      getConstantStringInfo(call.getArgOperand(index), text);
  for (auto [ignored, rest] = text.split('%'); !rest.empty();
       std::tie(ignored, rest) = rest.split('%')) {
    if (rest.consume_front("%")) continue;
    StringRef const letters = rest.ltrim("-+ #0'*.123456789hljztLq");
    if (letters.starts_with(StringRef{&conversion, 1})) return true;
  }
  return false;
}

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
#include "mpi_models.hpp"

#include <llvm/ADT/StringMap.h>
#include <llvm/IR/Function.h>

#include <algorithm>

namespace quarry::compiler {
namespace {

using namespace model_rows;

/// Functions that are in no table write through every pointer that they get, and return a varying
/// value.
constexpr call_model models[] = {
    // memory of the program, and what ends it
    {"malloc", uniform, memory},
    {"calloc", uniform, memory},
    {"aligned_alloc", uniform, memory},
    {"memalign", uniform, memory},
    {"valloc", uniform, memory},
    {"strdup", uniform, memory},
    {"strndup", uniform, memory},
    {"realloc", uniform, memory},
    {"free"},
    {"exit", uniform, value, -1, {}, ending::by_status},
    {"_Exit", uniform, value, -1, {}, ending::by_status},
    {"_exit", uniform, value, -1, {}, ending::by_status},
    {"abort", uniform, value, -1, {}, ending::job},
    {"__assert_fail", uniform, value, -1, {}, ending::job},
    {"longjmp", uniform, value, -1, {}, ending::jump},
    {"_longjmp", uniform, value, -1, {}, ending::jump},
    {"siglongjmp", uniform, value, -1, {}, ending::jump},
    {"setjmp", varying},
    {"_setjmp", varying},
    {"__sigsetjmp", varying},
    {"atexit"},
    // strings and memory
    {"memcpy", of_inputs, argument, -1, {array(0, of_inputs)}, ending::none, false, true},
    {"memmove", of_inputs, argument, -1, {array(0, of_inputs)}, ending::none, false, true},
    {"mempcpy", of_inputs, inside, -1, {array(0, of_inputs)}, ending::none, false, true},
    {"bzero", uniform, value, -1, {array(0, of_inputs)}},
    {"memset", of_inputs, argument, -1, {array(0, of_inputs)}},
    {"strcpy", of_inputs, argument, -1, {array(0, of_inputs)}},
    {"strncpy", of_inputs, argument, -1, {array(0, of_inputs)}},
    {"strcat", of_inputs, argument, -1, {array(0, of_inputs)}},
    {"strncat", of_inputs, argument, -1, {array(0, of_inputs)}},
    {"sprintf", of_inputs, value, -1, {array(0, of_inputs)}},
    {"snprintf", of_inputs, value, -1, {array(0, of_inputs)}},
    {"sscanf", of_inputs, value, -1, {all_from(2, of_inputs)}},
    {"__isoc99_sscanf", of_inputs, value, -1, {all_from(2, of_inputs)}},
    {"vsprintf", of_inputs, value, -1, {array(0, of_inputs)}},
    {"vsnprintf", of_inputs, value, -1, {array(0, of_inputs)}},
    {"__isoc23_sscanf", of_inputs, value, -1, {all_from(2, of_inputs)}},
    {"strftime", of_inputs, value, -1, {array(0, of_inputs)}},
    {"stpcpy", of_inputs, inside, -1, {array(0, of_inputs)}},
    {"strchr", of_inputs, inside},
    {"index", of_inputs, inside},
    {"rindex", of_inputs, inside},
    {"strchrnul", of_inputs, inside},
    {"strcasestr", of_inputs, inside},
    {"strrchr", of_inputs, inside},
    {"basename", of_inputs, inside},
    {"__xpg_basename", of_inputs, inside, -1, {array(0, of_inputs)}},
    {"dirname", of_inputs, inside, -1, {array(0, of_inputs)}},
    {"strstr", of_inputs, inside},
    {"strpbrk", of_inputs, inside},
    {"memchr", of_inputs, inside},
    {"getenv", of_inputs, environment},
    {"getopt", of_inputs, value, -1, {}, ending::none, true},
    {"getopt_long", of_inputs, value, -1, {object(4, of_inputs, word)}, ending::none, true},
    {"getopt_long_only", of_inputs, value, -1, {object(4, of_inputs, word)}, ending::none, true},
    {"__ctype_b_loc"},
    {"__ctype_tolower_loc"},
    {"__ctype_toupper_loc"},
    {"__errno_location", varying},
    {"strerror", of_inputs},
    {"setlocale", of_inputs},
    {"sysconf", of_inputs},
    {"getpagesize"},
    {"qsort", uniform, value, -1, {array(0, varying)}, ending::none, false, false, true},
    {"qsort_r",
     uniform,
     value,
     -1,
     {array(0, varying), array(4, varying)},
     ending::none,
     false,
     false,
     true},
    // output: its functions write no memory of the program
    {"printf", varying},
    {"fprintf", varying},
    {"puts", varying},
    {"putchar", varying},
    {"fputs", varying},
    {"fputc", varying},
    {"putc", varying},
    {"fwrite", varying},
    {"fflush", varying},
    {"fclose", varying},
    {"vprintf", varying},
    {"vfprintf", varying},
    {"perror"},
    {"setbuf"},
    {"setlinebuf"},
    {"setvbuf", varying},
    // input and the environment differ between ranks
    {"fgets", varying, argument, -1, {array(0, varying)}},
    {"fread", varying, value, -1, {array(0, varying)}},
    {"scanf", varying, value, -1, {all_from(1, varying)}},
    {"fscanf", varying, value, -1, {all_from(2, varying)}},
    {"__isoc99_scanf", varying, value, -1, {all_from(1, varying)}},
    {"__isoc99_fscanf", varying, value, -1, {all_from(2, varying)}},
    {"__isoc23_scanf", varying, value, -1, {all_from(1, varying)}},
    {"__isoc23_fscanf", varying, value, -1, {all_from(2, varying)}},
    {"fopen", varying},
    {"fopen64", varying},
    {"fseek", varying},
    {"fseeko", varying},
    {"ftell", varying},
    {"ftello", varying},
    {"fgetpos", varying, value, -1, {array(1, varying)}},
    {"fsetpos", varying},
    {"rewind"},
    {"clearerr"},
    {"ungetc", varying},
    {"fileno", varying},
    {"isatty", varying},
    {"access", varying},
    {"mkdir", varying},
    {"remove", varying},
    {"rename", varying},
    {"unlink", varying},
    {"fgetc", varying},
    {"getc", varying},
    {"getchar", varying},
    {"feof", varying},
    {"ferror", varying},
    {"time", varying, value, -1, {object(0, varying, 8)}},
    {"clock", varying},
    {"gettimeofday", varying, value, -1, {object(0, varying, 16)}},
    {"clock_gettime", varying, value, -1, {object(1, varying, 16)}},
    {"gethostname", varying, value, -1, {array(0, varying)}},
    {"getpid", varying},
    {"getppid", varying},
    {"getuid", varying},
    {"uname", varying, value, -1, {array(0, varying)}},
    {"getrusage", varying, value, -1, {array(1, varying)}},
    {"clock_getres", uniform, value, -1, {object(1, uniform, 16)}},
    {"timespec_get", varying, value, -1, {object(0, varying, 16)}},
    {"localtime", varying},
    {"localtime_r", varying, value, -1, {array(1, varying)}},
    {"gmtime", varying},
    {"gmtime_r", varying, value, -1, {array(1, varying)}},
    {"ctime", varying},
    {"ctime_r", varying, value, -1, {array(1, varying)}},
    {"asctime", varying},
    {"asctime_r", varying, value, -1, {array(1, varying)}},
    {"mktime", varying, value, -1, {array(0, varying)}},
    {"timegm", varying, value, -1, {array(0, varying)}},
    {"mrand48", varying},
    {"erand48", varying, value, -1, {array(0, varying)}},
    {"nrand48", varying, value, -1, {array(0, varying)}},
    {"jrand48", varying, value, -1, {array(0, varying)}},
    {"rand", varying},
    {"random", varying},
    {"drand48", varying},
    {"lrand48", varying},
    {"rand_r", varying, value, -1, {object(0, varying, word)}},
    {"srand"},
    {"srandom"},
    {"srand48"},
    {"sleep"},
    {"usleep"},
    {"nanosleep", uniform, value, -1, {object(1, varying, 16)}},
    {"sched_yield"},
};

/// Functions whose result depends on their arguments, and on the strings that these point to.
constexpr char const* pure_functions =
    " strlen strnlen strcmp strncmp strcasecmp strncasecmp strspn strcspn strcoll memcmp bcmp div "
    "ldiv lldiv difftime atoi atol atoll "
    "atof abs labs llabs toupper tolower isalpha isdigit isalnum isspace isupper islower isxdigit "
    "ispunct isprint isblank iscntrl isgraph isascii toascii sqrt sin cos tan asin acos atan atan2 "
    "sinh cosh tanh exp exp2 log log2 log10 "
    "pow fabs floor ceil round trunc fmod hypot cbrt fmin fmax rint nearbyint lround llround lrint "
    "llrint expm1 log1p copysign erf erfc tgamma lgamma ldexp asinh acosh atanh fma fdim remainder "
    "scalbn ilogb htonl htons ntohl ntohs "
    "logb nextafter sqrtf sinf cosf tanf expf logf powf fabsf floorf ceilf roundf fmodf fminf "
    "fmaxf sqrtl powl fabsl floorl ceill ";

/// Functions that also write the end of the number through their second argument.
constexpr char const* number_functions =
    " strtol strtoul strtoll strtoull strtod strtof __isoc23_strtol __isoc23_strtoul "
    "__isoc23_strtoll __isoc23_strtoull strtold strtoimax strtoumax __isoc23_strtoimax "
    "__isoc23_strtoumax ";

constexpr call_model pure_model{"", of_inputs};
constexpr call_model number_model{"",           of_inputs, value, -1,  {object(1, of_inputs, 8)},
                                  ending::none, false,     false, true};
constexpr call_model c_variable{"", uniform, variable};

constexpr allocation_model allocations[] = {
    {"malloc", 0},           {"calloc", 1, 0},        {"realloc", 1},
    {"valloc", 0},           {"aligned_alloc", 1},    {"memalign", 1},
    {"strdup", 0, -1, true}, {"strndup", 0, 1, true}, {"posix_memalign", 2},
};

bool is_in(char const* list, llvm::StringRef name) {
  return llvm::StringRef{list}.contains((" " + name + " ").str());
}

template <class Row, std::size_t Count>
Row const* find_in(Row const (&rows)[Count], llvm::StringRef name) {
  static llvm::StringMap<Row const*> const index = [&] {
    llvm::StringMap<Row const*> made;
    for (Row const& row : rows) made.try_emplace(row.name, &row);
    return made;
  }();
  auto const found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace

llvm::StringRef name_in_c(llvm::StringRef name) {
  name.consume_front("quarry_c_");
  return name;
}

llvm::StringRef without_large_counts(llvm::StringRef name) {
  if (name.starts_with("MPI_")) name.consume_back("_c");
  return name;
}

call_model const* model_of(llvm::StringRef name) {
  if (auto const* const row = find_in(models, name)) return row;
  if (auto const* const row = find_in(mpi_models, name)) return row;
  if (auto const* const row = find_in(mpi_models, without_large_counts(name))) return row;
  if (name.starts_with("address_of_")) return &c_variable;
  if (is_in(pure_functions, name)) return &pure_model;
  if (is_in(number_functions, name)) return &number_model;
  return nullptr;
}

bool keeps_pointers(call_model const& called) {
  llvm::StringRef const name = called.name;
  return name.starts_with("MPI_") && name.ends_with("_init");
}

bool uses_kept_pointers(call_model const& called) {
  return llvm::StringRef{called.name}.starts_with("MPI_Start");
}

call_model const* model_of(llvm::CallBase const& call) {
  llvm::Function const* const called = call.getCalledFunction();
  call_model const* const row =
      called == nullptr ? nullptr : model_of(name_in_c(called->getName()));
  if (row == nullptr) return nullptr;
  bool const reads_first = row->kind == returned::argument || row->kind == returned::inside;
  int most = reads_first ? 0 : -1;
  most = std::max<int>(most, row->communicator);
  for (effect const& written : row->effects)
    for (int const argument : {written.argument, written.count, written.type})
      most = std::max(most, argument);
  return most < static_cast<int>(call.arg_size()) ? row : nullptr;
}

allocation_model const* allocation_of(llvm::StringRef name) { return find_in(allocations, name); }

}  // namespace quarry::compiler

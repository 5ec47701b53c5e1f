// SPDX-License-Identifier: Apache-2.0
#include "lower.hpp"

#include "pointed_functions.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <map>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// Functions of the C library that behave the same for each rank and that the CPU's C library
/// serves directly. Everything else needs a function of the runtime.
constexpr char const* host_functions =
    " memcpy memmove memset memcmp memchr strlen strcmp strncmp strcpy strncpy strcat strncat "
    "strchr strrchr strstr strspn strcspn strpbrk strcasecmp strncasecmp abs labs llabs atoi atol "
    "atoll atof strtol strtoul strtoll strtoull strtod strtof __isoc23_strtol __isoc23_strtoul "
    "__isoc23_strtoll __isoc23_strtoull __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc "
    "tolower toupper qsort bsearch time clock gettimeofday clock_gettime sleep usleep getenv "
    "sprintf snprintf sscanf __isoc99_sscanf vsnprintf vsprintf setjmp _setjmp __sigsetjmp longjmp "
    "_longjmp siglongjmp __muldc3 __mulsc3 __divdc3 __divsc3 ";

/// The functions of <complex.h>, without the suffix of their type. On the GPU they come from
/// gpu_complex.c.
constexpr char const* complex_functions =
    " cabs carg creal cimag conj cproj cexp clog csqrt cpow csin ccos ctan csinh ccosh ctanh casin "
    "cacos catan casinh cacosh catanh ";

/// Functions that restore a stack. PTX has no way to read or write a stack pointer.
constexpr char const* jump_functions = " setjmp _setjmp __sigsetjmp longjmp _longjmp siglongjmp ";

/// Whether `name` is a word of `list`, in which each word has a space on both sides.
bool is_in(char const* list, StringRef name) {
  return StringRef{list}.contains((" " + name + " ").str());
}

bool is_math(StringRef name) {
  static std::set<std::string> const functions{
      "sqrt",   "sin",       "cos",    "tan",     "asin",  "acos",      "atan",     "atan2", "sinh",
      "cosh",   "tanh",      "exp",    "exp2",    "log",   "log2",      "log10",    "pow",   "fabs",
      "floor",  "ceil",      "round",  "trunc",   "fmod",  "hypot",     "cbrt",     "fmin",  "fmax",
      "rint",   "nearbyint", "lround", "llround", "expm1", "log1p",     "copysign", "erf",   "erfc",
      "tgamma", "lgamma",    "ldexp",  "frexp",   "modf",  "asinh",     "acosh",    "atanh", "fma",
      "fdim",   "remainder", "scalbn", "ilogb",   "logb",  "nextafter", "lrint",    "llrint"};
  if (functions.contains(name.str())) return true;
  return name.ends_with("f") && functions.contains(name.drop_back().str());
}

/// The name of the function for double if `name` is that for long double, else an empty name.
StringRef without_long(StringRef name) {
  bool const is_long = name.ends_with("l") && !is_math(name) && is_math(name.drop_back());
  return is_long ? name.drop_back() : StringRef{};
}

bool is_complex(StringRef name) {
  return is_in(complex_functions, name) || ((name.ends_with("f") || name.ends_with("l")) &&
                                            is_in(complex_functions, name.drop_back()));
}

/// On a GPU long double is double. Calls the function for double instead of `function`.
void replace_long(Function& function) {
  StringRef const name = without_long(function.getName());
  FunctionCallee same = function.getParent()->getOrInsertFunction(name, function.getFunctionType());
  function.replaceAllUsesWith(same.getCallee());
}

/// Whether the type is `char function()`, by which configure scripts and CMake ask whether a
/// function exists. Such programs are linked and never run.
bool is_probe(GlobalValue const& value) {
  auto const* const function = dyn_cast<Function>(&value);
  return function != nullptr && function->arg_empty() && function->getReturnType()->isIntegerTy(8);
}

/// A GPU's linker compares types, so that the probed function gets a body here.
void answer_probe(GlobalValue& value) {
  auto& function = cast<Function>(value);
  IRBuilder<>{BasicBlock::Create(function.getContext(), "", &function)}.CreateRet(
      ConstantInt::get(function.getReturnType(), 0));
  function.setLinkage(GlobalValue::InternalLinkage);
}

}  // namespace

void connect_to_runtime(Module& module, target machine,
                        std::set<std::string> const& runtime_functions, unsupported_list& missing) {
  auto const connect = [&](GlobalValue& value) {
    std::string const name = value.getName().str();
    bool const is_known =
        runtime_functions.contains(name) || runtime_functions.contains("quarry_c_" + name);
    if (machine == target::gpu && is_probe(value) && (is_known || is_math(name)))
      return answer_probe(value);
    if (runtime_functions.contains(name)) return;
    if (runtime_functions.contains("quarry_c_" + name)) {
      value.setName("quarry_c_" + name);
      return;
    }
    bool const is_long = !without_long(name).empty();
    if (machine == target::gpu && is_long) return replace_long(cast<Function>(value));
    bool const is_of_host =
        is_in(host_functions, name) || is_math(name) || is_long || is_complex(name);
    if (machine == target::cpu && is_of_host) return;
    if (machine == target::gpu && is_math(name)) return;  // of the CUDA toolkit's library
    add_uses(missing, name,
             is_in(jump_functions, name)
                 ? "a GPU cannot jump out of functions; --cpu-only makes a program for the CPU"
                 : reason_for(name),
             value);
  };
  for (Function& function : module)
    if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty())
      connect(function);
  for (GlobalVariable& variable : module.globals())
    if (variable.isDeclaration() && !variable.use_empty()) connect(variable);
}

namespace {

bool is_mpi_function(Function const& function) {
  return function.isDeclaration() && function.getName().starts_with("MPI_");
}

/// Functions that MPI allows before MPI_Init and after MPI_Finalize, and the clock.
constexpr char const* functions_of_any_time =
    " MPI_Init MPI_Init_thread MPI_Initialized MPI_Finalized MPI_Get_version "
    "MPI_Get_library_version MPI_Wtime MPI_Wtick MPI_Error_class MPI_Error_string "
    "MPI_Add_error_class MPI_Add_error_code MPI_Add_error_string MPI_Comm_create_errhandler "
    "MPI_Errhandler_free ";

bool is_for_any_time(StringRef name) {
  return is_in(functions_of_any_time, name) || name.starts_with("MPI_Info_");
}

/// Lets each direct call of the function check that MPI runs.
void check_time_of(Function& function) {
  Module& module = *function.getParent();
  auto* const type = FunctionType::get(Type::getVoidTy(module.getContext()), false);
  FunctionCallee const check = module.getOrInsertFunction("quarry_check_time", type);
  for (User* const user : function.users())
    if (auto* const call = dyn_cast<CallInst>(user))
      if (call->getCalledFunction() == &function) IRBuilder<>{call}.CreateCall(check);
}

}  // namespace

void check_calls(Module& module, std::set<std::string> const& runtime_functions) {
  auto const needs_mpi = [](Function const& function) {
    return is_mpi_function(function) && !is_for_any_time(function.getName());
  };
  call_through_functions(module, needs_mpi);
  for (Function& function : module)
    if (needs_mpi(function)) check_time_of(function);
  for (Function& function : module) {
    std::string const name = "quarry_check_" + function.getName().str();
    if (function.isDeclaration() && runtime_functions.contains(name)) function.setName(name);
  }
}

bool rename_main(Module& module) {
  Function* const main = module.getFunction("main");
  if (main == nullptr || main->isDeclaration()) return false;
  main->setName("quarry_mpi_program");
  main->setLinkage(GlobalValue::InternalLinkage);
  main->removeFnAttr(Attribute::NoInline);
  main->addFnAttr(Attribute::AlwaysInline);  // one frame, and one function in reports
  IRBuilder<> builder{module.getContext()};
  Type* const word = builder.getInt32Ty();
  Type* const pointer = builder.getPtrTy();
  auto* const entry = Function::Create(FunctionType::get(word, {word, pointer, pointer}, false),
                                       GlobalValue::ExternalLinkage, "quarry_mpi_main", module);
  entry->addFnAttrs(AttrBuilder{module.getContext(), main->getAttributes().getFnAttrs()});
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<Value*> arguments;
  for (unsigned i = 0; i < main->arg_size(); ++i) arguments.push_back(entry->getArg(i));
  Value* const result = builder.CreateCall(main, arguments);
  if (main->getReturnType()->isVoidTy()) {
    builder.CreateRet(builder.getInt32(0));
  } else {
    builder.CreateRet(result);
  }
  return true;
}

namespace {

/// The MPI functions to which the program has pointers, by the number of their arguments.
using pointed_functions = std::map<std::size_t, SmallVector<Function*>>;

pointed_functions pointed_mpi_functions(Module& module) {
  pointed_functions found;
  for (Function& function : module)
    if (is_mpi_function(function) && function.hasAddressTaken())
      found[function.arg_size()].push_back(&function);
  return found;
}

/// Whether the call is one of an MPI function, or of a pointer that may point to one. C allows a
/// pointer whose type has no parameters, so that the number of arguments decides.
bool may_call_mpi(CallBase const& call, pointed_functions const& pointed) {
  if (call.isIndirectCall()) return pointed.contains(call.arg_size());
  return call.getCalledFunction() != nullptr && is_mpi_function(*call.getCalledFunction());
}

/// Where to store the place of a call: before it, and for a pointer only if that points to an MPI
/// function.
Instruction* position_of_store(CallBase& call, pointed_functions const& pointed) {
  if (!call.isIndirectCall()) return &call;
  IRBuilder<> builder{&call};
  Value* is_mpi = builder.getFalse();
  for (Function* const function : pointed.at(call.arg_size()))
    is_mpi = builder.CreateOr(is_mpi, builder.CreateICmpEQ(call.getCalledOperand(), function));
  return SplitBlockAndInsertIfThen(is_mpi, &call, false);
}

}  // namespace

std::vector<std::string> record_call_places(Module& module, target machine) {
  std::vector<std::string> places{""};
  std::map<std::string, std::uint32_t> numbers;
  pointed_functions const pointed = pointed_mpi_functions(module);
  SmallVector<CallBase*> calls;
  for (Function& function : module)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<CallBase>(&instruction))
        if (may_call_mpi(*call, pointed)) calls.push_back(call);
  for (CallBase* call : calls) {
    std::string const place = place_of(*call);
    auto const [position, is_new] = numbers.try_emplace(place, places.size());
    if (is_new) places.push_back(place);
    Value* const record = record_of_rank(*call->getFunction(), machine);
    IRBuilder<> builder{position_of_store(*call, pointed)};
    builder.CreateStore(builder.getInt32(position->second), record);
  }
  return places;
}

void allow_early_end(Module& module) {
  for (Function& function : module) {
    if (!function.isIntrinsic()) function.removeFnAttr(Attribute::WillReturn);
    function.removeFnAttr(Attribute::OptimizeNone);
    function.removeFnAttr("target-cpu");
    function.removeFnAttr("target-features");
    function.removeFnAttr("tune-cpu");
  }
}

}  // namespace quarry::compiler

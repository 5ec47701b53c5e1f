// SPDX-License-Identifier: Apache-2.0
#include "c_prototypes.hpp"

#include <llvm/IR/IRBuilder.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// A function's result and parameters: v void, i int, l long, d double, p a pointer. Without a
/// declaration Clang knows the types of other functions, such as printf and strlen.
struct prototype {
  char const* name;
  char const* types;
};
constexpr prototype prototypes[] = {
    {"time", "lp"},     {"clock", "l"},       {"gettimeofday", "ipp"}, {"sleep", "ii"},
    {"usleep", "ii"},   {"nanosleep", "ipp"}, {"rand", "i"},           {"srand", "vi"},
    {"random", "l"},    {"srandom", "vi"},    {"drand48", "d"},        {"srand48", "vl"},
    {"lrand48", "l"},   {"atoi", "ip"},       {"atol", "lp"},          {"atof", "dp"},
    {"getopt", "iipp"}, {"getpid", "i"},      {"gethostname", "ipl"},  {"qsort", "vpllp"},
    {"fclose", "ip"},   {"fflush", "ip"},     {"fgetc", "ip"},         {"getchar", "i"},
    {"remove", "ip"},   {"unlink", "ip"},     {"access", "ipi"},       {"atexit", "ip"},
    {"isatty", "ii"},   {"sysconf", "li"},    {"tolower", "ii"},       {"toupper", "ii"},
    {"isdigit", "ii"},  {"isalpha", "ii"},    {"isspace", "ii"},       {"isupper", "ii"},
    {"islower", "ii"},  {"isalnum", "ii"},    {"_exit", "vi"},         {"abs", "ii"},
    {"labs", "ll"},     {"rand_r", "ip"},     {"perror", "vp"},        {"rewind", "vp"},
    {"ftell", "lp"},    {"fseek", "ipli"},    {"feof", "ip"},          {"clock_gettime", "iip"}};

Type* type_of(char letter, LLVMContext& context) {
  switch (letter) {
    case 'v':
      return Type::getVoidTy(context);
    case 'i':
      return Type::getInt32Ty(context);
    case 'l':
      return Type::getInt64Ty(context);
    case 'd':
      return Type::getDoubleTy(context);
    default:
      return PointerType::get(context, 0);
  }
}

/// Converts a value that a caller of another type passes or expects; 0 if no conversion exists.
Value* converted(IRBuilder<>& builder, Value* value, Type* type) {
  Type* const from = value->getType();
  if (from == type) return value;
  if (from->isIntegerTy() && type->isIntegerTy()) return builder.CreateSExtOrTrunc(value, type);
  if (from->isIntegerTy() && type->isPointerTy()) return builder.CreateIntToPtr(value, type);
  if (from->isPointerTy() && type->isIntegerTy()) return builder.CreatePtrToInt(value, type);
  if (from->isDoubleTy() && type->isIntegerTy()) return builder.CreateFPToSI(value, type);
  if (from->isIntegerTy() && type->isDoubleTy()) return builder.CreateSIToFP(value, type);
  return Constant::getNullValue(type);
}

/// Replaces a call by one of the function's own type.
void replace_call(CallBase& call, Function& function) {
  IRBuilder<> builder{&call};
  SmallVector<Value*> arguments;
  for (unsigned i = 0; i < function.arg_size(); ++i) {
    Type* const type = function.getFunctionType()->getParamType(i);
    arguments.push_back(i < call.arg_size() ? converted(builder, call.getArgOperand(i), type)
                                            : static_cast<Value*>(Constant::getNullValue(type)));
  }
  CallInst* const replacement = builder.CreateCall(&function, arguments);
  if (!call.getType()->isVoidTy() && !call.use_empty())
    call.replaceAllUsesWith(replacement->getType()->isVoidTy()
                                ? Constant::getNullValue(call.getType())
                                : converted(builder, replacement, call.getType()));
  call.eraseFromParent();
}

void correct(Module& module, Function& old, FunctionType* type) {
  Function* const function = Function::Create(type, GlobalValue::ExternalLinkage, "", module);
  function->takeName(&old);
  for (User* const user : make_early_inc_range(old.users())) {
    auto* const call = dyn_cast<CallBase>(user);
    if (call != nullptr && call->getCalledOperand() == &old && isa<CallInst>(call))
      replace_call(*call, *function);
  }
  old.replaceAllUsesWith(function);
  old.eraseFromParent();
}

}  // namespace

void correct_prototypes(Module& module) {
  LLVMContext& context = module.getContext();
  for (auto const& known : prototypes) {
    Function* const function = module.getFunction(known.name);
    if (function == nullptr || !function->isDeclaration()) continue;
    SmallVector<Type*> parameters;
    for (char const* letter = known.types + 1; *letter != 0; ++letter)
      parameters.push_back(type_of(*letter, context));
    auto* const type = FunctionType::get(type_of(known.types[0], context), parameters, false);
    if (function->getFunctionType() != type) correct(module, *function, type);
  }
}

}  // namespace quarry::compiler

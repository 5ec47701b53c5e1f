// SPDX-License-Identifier: Apache-2.0
#include "call_types.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// `value` as the type that a function expects, as a machine would pass it in a register.
Value* converted(IRBuilder<>& builder, Value* value, Type* type) {
  Type* const given = value->getType();
  if (given == type) return value;
  if (given->isIntegerTy() && type->isIntegerTy()) return builder.CreateSExtOrTrunc(value, type);
  if (given->isDoubleTy() && type->isIntegerTy(64)) return builder.CreateBitCast(value, type);
  if (given->isIntegerTy(64) && type->isDoubleTy()) return builder.CreateBitCast(value, type);
  if (given->isFloatingPointTy() && type->isFloatingPointTy())
    return builder.CreateFPCast(value, type);
  if (given->isIntegerTy() && type->isPointerTy())
    return builder.CreateIntToPtr(builder.CreateSExt(value, builder.getInt64Ty()), type);
  if (given->isPointerTy() && type->isIntegerTy()) return builder.CreatePtrToInt(value, type);
  return Constant::getNullValue(type);
}

/// The size in which PTX passes a value of the type.
unsigned bits_of(Type* type, DataLayout const& sizes) {
  if (type->isVoidTy()) return 0;
  return std::max(32u, static_cast<unsigned>(sizes.getTypeSizeInBits(type).getFixedValue()));
}

bool fits(FunctionType* type, call_type const& wanted, DataLayout const& sizes) {
  bool fits = type->isVarArg() == wanted.is_variadic &&
              type->getNumParams() == wanted.parameter_bits.size() &&
              bits_of(type->getReturnType(), sizes) == wanted.result_bits;
  for (unsigned i = 0; fits && i < type->getNumParams(); ++i)
    fits = bits_of(type->getParamType(i), sizes) == wanted.parameter_bits[i];
  return fits;
}

/// Replaces a declaration by one with the sizes of `wanted`. Calls stay as they are.
void redeclare(Function& function, call_type const& wanted) {
  Module& module = *function.getParent();
  LLVMContext& context = module.getContext();
  auto const integer = [&](unsigned bits) { return IntegerType::get(context, bits); };
  SmallVector<Type*> parameters;
  for (unsigned const bits : wanted.parameter_bits) parameters.push_back(integer(bits));
  Type* const given = function.getReturnType();
  Type* result = Type::getVoidTy(context);
  if (wanted.result_bits != 0)
    result = bits_of(given, module.getDataLayout()) == wanted.result_bits
                 ? given
                 : integer(wanted.result_bits);
  auto* const declared = Function::Create(FunctionType::get(result, parameters, wanted.is_variadic),
                                          GlobalValue::ExternalLinkage, "", module);
  declared->takeName(&function);
  function.replaceAllUsesWith(declared);
  function.eraseFromParent();
}

void convert(CallInst* call) {
  auto* const called = cast<Function>(call->getCalledOperand());
  IRBuilder<> builder{call};
  SmallVector<Value*> arguments;
  for (Argument const& wanted : called->args())
    arguments.push_back(
        wanted.getArgNo() < call->arg_size()
            ? converted(builder, call->getArgOperand(wanted.getArgNo()), wanted.getType())
            : Constant::getNullValue(wanted.getType()));
  if (called->isVarArg())
    for (auto i = static_cast<unsigned>(called->arg_size()); i < call->arg_size(); ++i)
      arguments.push_back(call->getArgOperand(i));
  Value* result = builder.CreateCall(called, arguments);
  if (!call->getType()->isVoidTy()) {
    result = result->getType()->isVoidTy() ? Constant::getNullValue(call->getType())
                                           : converted(builder, result, call->getType());
    call->replaceAllUsesWith(result);
  }
  call->eraseFromParent();
}

/// The name of the function that takes a va_list: vprintf of printf.
std::string name_with_list(std::string const& name) {
  std::size_t const prefix = name.starts_with("__isoc") ? name.find('_', 2) + 1 : 0;
  return name.substr(0, prefix) + 'v' + name.substr(prefix);
}

}  // namespace

std::map<std::string, call_type> read_call_types(std::string const& path) {
  static std::regex const header{
      R"(^\.visible \.func( +\(\.param \.b(\d+) [^)]*\))? quarry_c_(\w+)\()"};
  static std::regex const parameter{R"(^\s*\.param \.b(\d+) quarry_c_\w+_param_\d+,?$)"};
  std::map<std::string, call_type> types;
  std::set<std::string> irregular;
  std::string name;
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    std::smatch found;
    if (std::regex_search(line, found, header)) {
      name = found[3];
      types[name].result_bits = found[2].matched ? static_cast<unsigned>(std::stoul(found[2])) : 0;
    } else if (std::regex_match(line, found, parameter)) {
      types[name].parameter_bits.push_back(static_cast<unsigned>(std::stoul(found[1])));
    } else {
      irregular.insert(name);  // a structure
    }
  }
  for (std::string const& each : irregular) types.erase(each);
  for (auto& [each, type] : types) {
    // printf has the parameters of vprintf, of which the last is the list of arguments
    type.is_variadic = types.contains(name_with_list(each)) && !type.parameter_bits.empty();
    if (type.is_variadic) type.parameter_bits.pop_back();
  }
  return types;
}

void match_calls(Module& module, std::map<std::string, call_type> const& types) {
  for (Function& function : make_early_inc_range(module)) {
    auto const found = types.find(function.getName().str());
    if (function.isDeclaration() && !function.isIntrinsic() && found != types.end() &&
        !fits(function.getFunctionType(), found->second, module.getDataLayout()))
      redeclare(function, found->second);
  }
  SmallVector<CallInst*> calls;
  for (Function& function : module) {
    for (Instruction& instruction : instructions(function)) {
      auto* const call = dyn_cast<CallInst>(&instruction);
      if (call == nullptr || call->getCalledFunction() != nullptr) continue;
      auto const* const called = dyn_cast<Function>(call->getCalledOperand());
      if (called != nullptr) calls.push_back(call);
    }
  }
  for (CallInst* call : calls) convert(call);
}

}  // namespace quarry::compiler

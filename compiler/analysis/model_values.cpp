// SPDX-License-Identifier: Apache-2.0
#include "model_values.hpp"

#include "call_models.hpp"
#include "formats.hpp"
#include "model_program.hpp"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include <optional>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr char const* name_kind = "quarry.name";

char const* word_of(model value) {
  switch (value) {
    case model::varying:
      return "varying";
    case model::of_inputs:
      return "of_inputs";
    case model::of_world:
      return "of_world";
    case model::collective:
      return "collective";
    case model::of_part:
      return "of_part";
    default:
      return "uniform";
  }
}

std::optional<std::uint64_t> constant_of(Value const* value) {
  auto const* const constant = dyn_cast<ConstantInt>(value);
  if (constant == nullptr || constant->isNegative()) return std::nullopt;
  return constant->getZExtValue();
}

/// A local variable, and where a pointer points in it.
struct place {
  AllocaInst* variable;
  std::uint64_t offset;
  std::uint64_t size;  // of the variable
};

std::optional<place> place_in_local(Value* pointer, DataLayout const& layout) {
  APInt offset{layout.getIndexTypeSizeInBits(pointer->getType()), 0};
  auto* const variable = dyn_cast<AllocaInst>(
      pointer->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true));
  if (variable == nullptr || offset.isNegative()) return std::nullopt;
  auto const size = variable->getAllocationSize(layout);
  if (!size || size->isScalable() || offset.getZExtValue() >= size->getFixedValue())
    return std::nullopt;
  return place{variable, offset.getZExtValue(), size->getFixedValue()};
}

bool has_array(Type const* type) {
  if (type->isArrayTy()) return true;
  for (Type const* const part : type->subtypes())
    if (has_array(part)) return true;
  return false;
}

/// The type of the value that is written: the variable's type if all of it is written, else a
/// number of that many bytes. Null if no such type exists. An array becomes one number, because
/// a store of an array is split into stores of its elements, which hide no larger element.
Type* type_of(place const& where, std::uint64_t bytes) {
  LLVMContext& context = where.variable->getContext();
  Type* const whole = where.variable->getAllocatedType();
  constexpr std::uint64_t max_fields = 1024;  // bytes of a structure that becomes values
  if (where.offset == 0 && bytes == where.size && bytes <= max_fields &&
      !where.variable->isArrayAllocation())
    return has_array(whole) ? Type::getIntNTy(context, static_cast<unsigned>(8 * bytes)) : whole;
  if (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)
    return Type::getIntNTy(context, static_cast<unsigned>(8 * bytes));
  return nullptr;
}

/// The arguments on which the written value depends, by the model.
SmallVector<Value*> inputs_of(CallBase const& call, call_model const& row, effect const& written) {
  SmallVector<Value*> inputs;
  switch (written.value) {
    case model::of_world:
      inputs.push_back(call.getArgOperand(row.communicator));
      break;
    case model::collective:
      inputs.push_back(call.getArgOperand(row.communicator));
      for (std::int8_t const argument : {written.count, written.type})
        if (argument >= 0) inputs.push_back(call.getArgOperand(argument));
      break;
    case model::of_part:
      for (unsigned i = 0; i < 2; ++i) inputs.push_back(call.getArgOperand(i));
      break;
    case model::of_inputs:
      for (Use const& argument : call.args()) inputs.push_back(argument.get());
      break;
    default:
      break;
  }
  return inputs;
}

/// Replaces the write by a value, if the variable and the bytes are known.
bool replace_write(CallBase& call, call_model const& row, effect const& written,
                   unsigned argument) {
  Module& module = *call.getModule();
  DataLayout const& layout = module.getDataLayout();
  Value* const pointer = call.getArgOperand(argument);
  auto const where = place_in_local(pointer, layout);
  if (!where) return false;
  auto bytes = bytes_written(call, written);
  bool const is_partial = !bytes && written.value == model::of_inputs &&
                          where->variable->getAllocatedType()->isSingleValueType();
  if (is_partial) bytes = where->size;  // sscanf writes the whole variable or nothing
  if (!bytes || *bytes == 0 || where->offset + *bytes > where->size) return false;
  Type* const type = type_of(*where, *bytes);
  if (type == nullptr) return false;
  auto inputs = inputs_of(call, row, written);
  IRBuilder<> builder{call.getNextNode()};
  builder.SetCurrentDebugLocation(call.getDebugLoc());
  for (Value*& input : inputs)
    if (input == pointer) input = builder.CreateLoad(type, pointer);
  auto const callee =
      module.getOrInsertFunction(std::string{model_prefix} + word_of(written.value) + "." +
                                     std::to_string(module.getFunctionList().size()),
                                 FunctionType::get(type, /*isVarArg=*/true));
  CallInst* const value = builder.CreateCall(callee, inputs);
  set_original_name(*value, original_name(call));
  builder.CreateStore(value, pointer);
  call.setArgOperand(argument, ConstantPointerNull::get(cast<PointerType>(pointer->getType())));
  return true;
}

/// Whether what the call returns and writes is independent of the bytes that its pointers show.
bool ignores_contents(call_model const& row) {
  bool ignores = row.result != model::of_inputs && row.kind == returned::value;
  for (effect const& written : row.effects) {
    bool const has_counts = written.value == model::collective && written.count < 0;
    ignores = ignores && written.value != model::of_inputs && !has_counts;
  }
  return ignores;
}

void make_values_of(CallBase& call) {
  auto const* const row = model_of(call);
  if (row == nullptr || keeps_pointers(*row)) return;
  SmallVector<bool> is_written(call.arg_size(), false);
  for (effect const& written : row->effects) {
    if (written.argument < 0) continue;
    unsigned const first = static_cast<unsigned>(written.argument);
    unsigned const last = written.is_rest ? call.arg_size() : std::min(first + 1, call.arg_size());
    for (unsigned i = first; i < last; ++i) {
      is_written[i] = true;
      if (call.getArgOperand(i)->getType()->isPointerTy()) replace_write(call, *row, written, i);
    }
  }
  if (!ignores_contents(*row) || row->makes_number || has_conversion(call, 'n')) return;
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    Value* const argument = call.getArgOperand(i);
    if (!is_written[i] && isa<PointerType>(argument->getType()) && !isa<Constant>(argument) &&
        allocation_of(row->name) == nullptr)
      call.setArgOperand(i, ConstantPointerNull::get(cast<PointerType>(argument->getType())));
  }
}

}  // namespace

// The bytes of `count` elements of a basic type of mpi.h, whose bits 8 and above are its size.
std::optional<std::uint64_t> bytes_written(CallBase const& call, effect const& written) {
  if (written.bytes != 0) return written.bytes;
  if (written.count < 0 || written.type < 0 || written.ranks != of_ranks::none) return std::nullopt;
  auto const count = constant_of(call.getArgOperand(written.count));
  auto const type = constant_of(call.getArgOperand(written.type));
  if (!count || !type || *type < 0x100 || (*type & 0x80) != 0) return std::nullopt;
  return *count * (*type >> 8);
}

llvm::StringRef original_name(CallBase const& call) {
  if (MDNode const* const node = call.getMetadata(name_kind))
    return cast<MDString>(node->getOperand(0))->getString();
  Function const* const called = call.getCalledFunction();
  return called == nullptr ? StringRef{} : name_in_c(called->getName());
}

void set_original_name(CallBase& call, StringRef name) {
  LLVMContext& context = call.getContext();
  call.setMetadata(name_kind, MDTuple::get(context, MDString::get(context, name)));
}

void make_values(Module& model) {
  SmallVector<CallBase*> calls;
  for (Function& function : model)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<CallBase>(&instruction);
          call != nullptr && call->getCalledFunction() != nullptr &&
          call->getCalledFunction()->isDeclaration() && !call->getCalledFunction()->isIntrinsic() &&
          !call->getCalledFunction()->getName().starts_with(model_prefix))
        calls.push_back(call);
  for (CallBase* const call : calls) make_values_of(*call);
}

}  // namespace quarry::compiler

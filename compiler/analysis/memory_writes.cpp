// SPDX-License-Identifier: Apache-2.0
// What instructions read and write, after memory_objects has found where pointers can point.
#include "formats.hpp"
#include "memory_objects.hpp"
#include "model_program.hpp"

#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>

namespace quarry::compiler {

using namespace llvm;

bool memory_objects::is_getopt_variable(unsigned object) const {
  auto const* const function = dyn_cast_or_null<Function>(objects_[object].origin);
  return object == options_ ||
         (function != nullptr && name_in_c(function->getName()).starts_with("address_of_opt"));
}

std::vector<object_write> memory_objects::accessed(Value const* pointer, std::uint64_t size) const {
  std::vector<object_write> result;
  for (pointee const& each : pointees_of(pointer).known()) {
    byte_range range = each.place;
    range.size = size;
    result.push_back({each.object, range, nullptr});
  }
  return result;
}

std::vector<object_write> memory_objects::writes_of(Instruction& instruction, bool& unknown) const {
  std::vector<object_write> result;
  auto const add = [&](Value const* pointer, std::uint64_t size) {
    unknown = unknown || pointees_of(pointer).is_unknown();
    for (object_write write : accessed(pointer, size)) {
      write.writer = &instruction;
      result.push_back(write);
    }
  };
  if (auto* const writer = dyn_cast<StoreInst>(&instruction)) {
    add(writer->getPointerOperand(),
        layout_.getTypeStoreSize(writer->getValueOperand()->getType()).getFixedValue());
    return result;
  }
  if (auto* const exchange = dyn_cast<AtomicRMWInst>(&instruction)) {
    add(exchange->getPointerOperand(),
        layout_.getTypeStoreSize(exchange->getType()).getFixedValue());
    return result;
  }
  if (auto* const exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
    add(exchange->getPointerOperand(),
        layout_.getTypeStoreSize(exchange->getNewValOperand()->getType()).getFixedValue());
    return result;
  }
  auto* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr) return result;
  if (auto* const memory = dyn_cast<MemIntrinsic>(call)) {
    auto const* const size = dyn_cast<ConstantInt>(memory->getLength());
    add(memory->getRawDest(), size == nullptr ? 0 : size->getZExtValue());
    return result;
  }
  if (isa<VAStartInst, VACopyInst>(call)) {
    for (object_write write : accessed(call->getArgOperand(0), 0))
      result.push_back({write.object, everything, &instruction});
    return result;
  }
  Function const* const called = call->getCalledFunction();
  if (called == nullptr && !call->isInlineAsm() && !is_resolved(*call)) {
    unknown = true;
    for (Use const& argument : call->args())
      if (argument->getType()->isPointerTy()) add(argument.get(), 0);
    return result;
  }
  if (called == nullptr || !called->isDeclaration() || isa<IntrinsicInst>(call) ||
      called->getName().starts_with(model_prefix))
    return result;
  call_model const* const row = model_of(*call);
  if (row == nullptr) {
    unknown = true;
    for (Use const& argument : call->args())
      if (argument->getType()->isPointerTy()) add(argument.get(), 0);
    return result;
  }
  for (effect const& written : row->effects) {
    if (written.argument < 0) continue;
    auto const first = static_cast<unsigned>(written.argument);
    unsigned const last = written.is_rest ? call->arg_size() : first + 1;
    for (unsigned i = first; i < std::min(last, call->arg_size()); ++i)
      if (call->getArgOperand(i)->getType()->isPointerTy())
        add(call->getArgOperand(i), written.bytes);
    if (written.type < 0) continue;
    // Elements of a type that the program made can lie before the pointer, as those of a rank whose
    // place is negative. If the type has absolute addresses, the pointer is null (MPI_BOTTOM).
    bool const is_basic =
        isa<ConstantInt>(call->getArgOperand(static_cast<unsigned>(written.type)));
    if (is_basic && written.ranks != of_ranks::at_places) continue;
    for (object_write& each : result) each.range = everything;
    unknown = unknown || isa<ConstantPointerNull>(call->getArgOperand(first));
  }
  unknown = unknown || uses_kept_pointers(*row);
  if (has_conversion(*call, 'n')) {
    unknown = true;  // perhaps through a list of arguments
    for (Use const& argument : call->args())
      if (argument->getType()->isPointerTy()) add(argument.get(), 0);
  }
  if (allocation_model const* const copy = allocation_of(row->name); copy && copy->copies_text)
    add(call, 0);
  if (row->has_state)
    for (unsigned i = 0; i < objects_.size(); ++i)
      if (is_getopt_variable(i)) result.push_back({i, everything, &instruction});
  return result;
}

}  // namespace quarry::compiler

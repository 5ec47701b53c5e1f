// SPDX-License-Identifier: Apache-2.0
#include "memory_objects.hpp"

#include "model_program.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Operator.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// Whether a structure, array or vector can contain pointers.
bool contains_pointers(Type const* type) {
  if (type->isSingleValueType() && !type->isVectorTy()) return holds_pointers(type);
  for (Type const* const part : type->subtypes())
    if (contains_pointers(part)) return true;
  return false;
}

}  // namespace

bool holds_pointers(Type const* type) { return type->isPointerTy() || type->isIntegerTy(64); }

bool is_for_differences(PtrToIntInst const& number) {
  for (User const* const user : number.users()) {
    auto const* const operation = dyn_cast<BinaryOperator>(user);
    if (operation == nullptr || operation->getOpcode() != Instruction::Sub ||
        !isa<PtrToIntInst>(operation->getOperand(0)) ||
        !isa<PtrToIntInst>(operation->getOperand(1)))
      return false;
  }
  return true;
}

memory_objects::memory_objects(Module& model) : model_{model}, layout_{model.getDataLayout()} {
  environment_ = new_object(nullptr);
  lists_ = new_object(nullptr);
  options_ = new_object(nullptr);
  pointees strings;
  strings.add({environment_, {0, 1, 1}});
  store(lists_, everything, strings);
  for (GlobalVariable const& variable : model.globals()) new_object(&variable);
  for (Function const& function : model)
    if (function.hasAddressTaken()) new_object(&function);
  for (GlobalVariable const& variable : model.globals())
    add_initial_contents(variable, object_of_.lookup(&variable));
  for (Function& function : model) {
    if (function.isDeclaration()) continue;
    bool const is_root = function.getName() == root_name;
    for (Argument& argument : function.args()) {
      if (!argument.getType()->isPointerTy()) continue;
      if (is_root) pointees_[&argument].add({lists_, {}});
    }
    for (Instruction& instruction : instructions(function))
      if (isa<AllocaInst>(instruction)) pointees_[&instruction].add({new_object(&instruction), {}});
  }
  run_to_fixpoint();
  is_settled_ = true;
  run_to_fixpoint();
}

void memory_objects::run_to_fixpoint() {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Function& function : model_)
      for (Instruction& instruction : instructions(function)) is_changed |= visit(instruction);
    for (; !woken_.empty(); woken_.pop_front()) {
      is_awake_.erase(woken_.front());
      visit(*woken_.front());
    }
  }
}

unsigned memory_objects::new_object(Value const* origin) {
  objects_.emplace_back().origin = origin;
  auto const number = static_cast<unsigned>(objects_.size() - 1);
  if (origin != nullptr) object_of_[origin] = number;
  return number;
}

void memory_objects::add_initial_contents(GlobalVariable const& variable, unsigned object) {
  if (!variable.hasInitializer()) {
    objects_[object].is_escaped = true;
    return;
  }
  add_contents(*variable.getInitializer(), object, 0);
}

bool memory_objects::add_contents(Constant const& contents, unsigned object, std::int64_t place) {
  bool is_changed = false;
  auto const add = [&](auto const& self, Constant const* constant, std::int64_t offset) -> void {
    if (constant->getType()->isPointerTy()) {
      is_changed |= store(object, {offset, 0, 8}, constant_pointees(constant));
    } else if (isa<ConstantExpr>(constant)) {  // the number of an address
      pointees const targets = constant_pointees(constant);
      is_changed |= store(object, {offset, 0, 8}, targets) | escape(targets);
    } else if (auto const* parts = dyn_cast<ConstantAggregate>(constant)) {
      auto* const structure = dyn_cast<StructType>(constant->getType());
      for (unsigned i = 0; i < parts->getNumOperands(); ++i) {
        std::uint64_t const at =
            structure != nullptr
                ? layout_.getStructLayout(structure)->getElementOffset(i).getFixedValue()
                : i * layout_.getTypeAllocSize(parts->getOperand(i)->getType()).getFixedValue();
        self(self, parts->getOperand(i), offset + static_cast<std::int64_t>(at));
      }
    }
  };
  add(add, &contents, place);
  return is_changed;
}

pointees memory_objects::moved(pointees const& base, GEPOperator const& step) const {
  unsigned const width = layout_.getIndexTypeSizeInBits(step.getType());
  APInt offset{width, 0};
  MapVector<Value*, APInt> variable;
  std::uint64_t stride = 0;
  bool const is_known = step.collectOffset(layout_, width, variable, offset);
  for (auto const& [index, scale] : variable) stride = std::gcd(stride, scale.abs().getZExtValue());
  if (!is_known) stride = 1;
  pointees result;
  if (base.is_unknown()) result.add_unknown();
  for (pointee const& each : base.known()) {
    std::uint64_t const period = std::gcd(stride, each.place.stride);
    result.add(
        {each.object, {reduced(each.place.offset + offset.getSExtValue(), period), period, 0}});
  }
  return result;
}

pointees memory_objects::constant_pointees(Constant const* constant) const {
  pointees result;
  if (auto const found = object_of_.find(constant); found != object_of_.end()) {
    result.add({found->second, {}});
  } else if (auto const* step = dyn_cast<GEPOperator>(constant)) {
    return moved(constant_pointees(cast<Constant>(step->getPointerOperand())), *step);
  } else if (auto const* expression = dyn_cast<ConstantExpr>(constant)) {
    if (expression->isCast() && expression->getOperand(0)->getType()->isPointerTy())
      return constant_pointees(expression->getOperand(0));
    bool const is_number = expression->getOpcode() == Instruction::IntToPtr &&
                           isa<ConstantInt>(expression->getOperand(0));  // as MPI_IN_PLACE
    if (!is_number) result.add_unknown();
  }
  return result;
}

pointees const& memory_objects::pointees_of(Value const* pointer) const {
  if (auto const found = pointees_.find(pointer); found != pointees_.end()) return found->second;
  if (auto const* constant = dyn_cast<Constant>(pointer))
    return pointees_.try_emplace(pointer, constant_pointees(constant)).first->second;
  static pointees const nothing;
  return nothing;
}

bool memory_objects::add_pointees(Value const* pointer, pointees more) {
  if (!pointees_[pointer].add(more)) return false;
  for (User const* const user : pointer->users()) wake(*user);
  return true;
}

pointees memory_objects::inside(pointees const& base) {
  pointees result;
  for (pointee const& each : base.known()) result.add({each.object, everything});
  if (base.is_unknown()) result.add_unknown();
  return result;
}

/// Where a pointer can point that a library function makes of its arguments, as strtol does.
pointees memory_objects::inside_arguments(CallBase const& call) const {
  pointees result;
  for (Use const& argument : call.args())
    if (argument->getType()->isPointerTy()) result.add(inside(pointees_of(argument.get())));
  if (is_settled_ && result.known().empty()) result.add_unknown();  // a message brought it
  return result;
}

bool memory_objects::is_resolved(CallBase const& call) const {
  pointees const targets = pointees_of(call.getCalledOperand());
  return !targets.is_unknown() && !targets.known().empty() &&
         llvm::all_of(targets.known(), [&](pointee const& each) {
           auto const* const function = dyn_cast_or_null<Function>(origin(each.object));
           return function != nullptr && !function->isDeclaration();
         });
}

bool memory_objects::call_defined(CallBase& call, Function const& called) {
  bool is_changed = false;
  for (unsigned i = 0; i < call.arg_size(); ++i) {
    if (!holds_pointers(call.getArgOperand(i)->getType())) continue;
    pointees const targets = pointees_of(call.getArgOperand(i));
    if (i < called.arg_size() && called.getArg(i)->getType()->isPointerTy())
      is_changed |= add_pointees(called.getArg(i), targets);
    else
      is_changed |= escape(targets);  // a variable argument, or a number that is not followed
  }
  if (!call.getType()->isPointerTy()) return is_changed;
  return is_changed | add_pointees(&call, pointees{returned_[&called]});
}

/// A call through a pointer.
bool memory_objects::visit_indirect_call(CallBase& call) {
  pointees const targets = pointees_of(call.getCalledOperand());
  bool is_changed = false;
  for (pointee const& each : targets.known())
    if (auto const* const function = dyn_cast_or_null<Function>(origin(each.object));
        function != nullptr && !function->isDeclaration())
      is_changed |= call_defined(call, *function);
  bool const is_open = is_settled_ || targets.is_unknown() || !targets.known().empty();
  if (!is_open || is_resolved(call)) return is_changed;
  for (Use const& argument : call.args())
    if (holds_pointers(argument->getType()))
      is_changed |= escape(pointees{pointees_of(argument.get())});
  return is_changed | (call.getType()->isPointerTy() && pointees_[&call].add_unknown());
}

unsigned memory_objects::object_made_by(Value const* origin) {
  auto const found = object_of_.find(origin);
  if (found != object_of_.end()) return found->second;
  if (!isa<CallBase>(origin)) return new_object(origin);
  if (++allocations_ <= max_allocations) return new_object(origin);
  if (others_ == 0) others_ = new_object(nullptr);
  return object_of_[origin] = others_;
}

bool memory_objects::visit_call(CallBase& call) {
  bool is_changed = false;
  Function* const called = call.getCalledFunction();
  bool const gives_pointer = call.getType()->isPointerTy();
  if (called == nullptr) return visit_indirect_call(call);
  if (!called->isDeclaration()) return call_defined(call, *called);
  call_model const* const row = model_of(call);
  bool passes_function = row != nullptr && row->calls_back;
  for (Use const& argument : call.args())
    for (pointee const& each : pointees_of(argument.get()).known())
      passes_function |= isa_and_nonnull<Function>(origin(each.object));
  bool const is_model = called->getName().starts_with(model_prefix);
  if (is_model && gives_pointer) return add_pointees(&call, inside_arguments(call));
  if (row != nullptr && row->copies)
    is_changed |= copy_contents(call.getArgOperand(0), call.getArgOperand(1));
  if (row != nullptr && row->points_inside && call.arg_size() > 1)
    is_changed |= store(pointees{pointees_of(call.getArgOperand(1))},
                        inside(pointees_of(call.getArgOperand(0))));
  if (row != nullptr && row->makes_number && call.arg_size() != 0)
    is_changed |= escape(pointees{pointees_of(call.getArgOperand(0))});
  bool const is_kept = row != nullptr && keeps_pointers(*row);
  if ((row == nullptr && !is_model) || passes_function || is_kept)
    for (Use const& argument : call.args())
      if (argument->getType()->isPointerTy())
        is_changed |= escape(pointees{pointees_of(argument.get())});
  if (is_model || !gives_pointer) return is_changed;
  pointees result;
  switch (row == nullptr ? returned::value : row->kind) {
    case returned::memory:
    case returned::variable: {
      Value const* const origin =
          row->kind == returned::memory ? &call : static_cast<Value*>(called);
      result.add({object_made_by(origin), {}});
      if (row->kind == returned::variable) {  // such as optarg
        pointees text;
        text.add({environment_, everything});
        store(result, text);
      } else if (name_in_c(called->getName()) == "realloc") {
        result.add(pointees_of(call.getArgOperand(0)));  // the same object has grown
      }
      break;
    }
    case returned::argument:
      result.add(pointees_of(call.getArgOperand(0)));
      break;
    case returned::inside:
      result = inside(pointees_of(call.getArgOperand(0)));
      break;
    case returned::environment:
      result.add({environment_, {}});
      break;
    case returned::value:
      if (row == nullptr) result.add_unknown();
      break;
  }
  return is_changed | add_pointees(&call, result);
}

/// A number can point to where the pointers point of which its operands are parts.
bool memory_objects::add_parts(Instruction const& number) {
  bool const is_number = number.getType()->isFloatingPointTy() ||
                         (number.getType()->isIntegerTy() && !number.getType()->isIntegerTy(1));
  bool is_changed = false;
  if (!is_number || isa<CallBase>(number)) return false;
  for (Use const& operand : number.operands())
    if (auto const found = pointees_.find(operand.get());
        found != pointees_.end() && !operand->getType()->isPointerTy())
      is_changed |= add_pointees(&number, inside(pointees{found->second}));
  return is_changed;
}

bool memory_objects::visit(Instruction& instruction) {
  if (instruction.mayReadFromMemory())
    for (Use const& operand : instruction.operands())
      for (pointee const& each : pointees_of(operand.get()).known())
        objects_[each.object].readers.insert(&instruction);
  auto const add_to_result = [&](pointees more) {
    return add_pointees(&instruction, std::move(more));
  };
  if (auto* const copy = dyn_cast<MemTransferInst>(&instruction))
    return copy_contents(copy->getRawDest(), copy->getRawSource());
  pointees unknown;
  unknown.add_unknown();
  if (isa<VAStartInst, VACopyInst>(instruction))  // the list has pointers to the arguments
    return store(inside(pointees_of(instruction.getOperand(0))), unknown);
  if (isa<IntrinsicInst>(instruction) && !holds_pointers(instruction.getType())) return false;
  if (auto* const call = dyn_cast<CallBase>(&instruction)) return visit_call(*call);
  if (auto* const writer = dyn_cast<StoreInst>(&instruction)) {
    Value const* const value = writer->getValueOperand();
    pointees const where{pointees_of(writer->getPointerOperand())};
    if (holds_pointers(value->getType())) return store(where, pointees{pointees_of(value)});
    if (!contains_pointers(value->getType())) {
      pointees const parts{pointees_of(value)};
      return !parts.known().empty() &&
             store(where, parts, layout_.getTypeStoreSize(value->getType()).getFixedValue());
    }
    auto const* const constant = dyn_cast<Constant>(value);
    if (constant == nullptr) return store(where, unknown);
    bool is_changed = false;
    for (pointee const& each : where.known())
      is_changed |= each.place.stride == 0 ? add_contents(*constant, each.object, each.place.offset)
                                           : store(each.object, everything, unknown);
    return is_changed;
  }
  if (auto* const number = dyn_cast<PtrToIntInst>(&instruction)) {
    if (is_for_differences(*number)) return false;
    pointees targets{pointees_of(number->getPointerOperand())};
    bool const is_new = escape(targets);
    targets.add_unknown();  // not all that happens to numbers is followed
    return add_to_result(targets) | is_new;
  }
  if (auto* const exchange = dyn_cast<AtomicRMWInst>(&instruction))
    return store(pointees{pointees_of(exchange->getPointerOperand())},
                 pointees{pointees_of(exchange->getValOperand())}) |
           escape(load_all(pointees_of(exchange->getPointerOperand()))) |
           (exchange->getType()->isPointerTy() && add_to_result(unknown));
  if (auto* const exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
    return store(pointees{pointees_of(exchange->getPointerOperand())},
                 pointees{pointees_of(exchange->getNewValOperand())}) |
           escape(load_all(pointees_of(exchange->getPointerOperand())));
  if (auto* const end = dyn_cast<ReturnInst>(&instruction)) {
    Value const* const value = end->getReturnValue();
    if (value == nullptr || !holds_pointers(value->getType())) return false;
    auto const object = object_of_.find(instruction.getFunction());
    bool const is_lost = object != object_of_.end() && is_escaped(object->second);
    return returned_[instruction.getFunction()].add(pointees{pointees_of(value)}) |
           (is_lost && escape(pointees{pointees_of(value)}));
  }
  // Parts of structures and vectors are not followed.
  if (isa<InsertValueInst, InsertElementInst, TruncInst>(instruction)) {
    bool is_changed = false;
    for (Use const& operand : instruction.operands())
      if (holds_pointers(operand->getType()))
        is_changed |= escape(pointees{pointees_of(operand.get())});
    return is_changed | add_parts(instruction);
  }
  if (auto const* const reader = dyn_cast<LoadInst>(&instruction);
      reader != nullptr && !holds_pointers(reader->getType())) {
    if (contains_pointers(reader->getType()))
      return escape(load_all(pointees_of(reader->getPointerOperand())));
    pointees const parts = load(*reader);
    return !parts.known().empty() && (escape(parts) | add_to_result(parts));
  }
  if (isa<AllocaInst>(instruction)) return false;
  if (!holds_pointers(instruction.getType())) return add_parts(instruction);
  if (auto* const reader = dyn_cast<LoadInst>(&instruction)) return add_to_result(load(*reader));
  if (auto* const step = dyn_cast<GetElementPtrInst>(&instruction))
    return add_to_result(moved(pointees_of(step->getPointerOperand()), *cast<GEPOperator>(step)));
  bool is_changed = false;
  bool const passes_on = isa<PHINode, SelectInst, FreezeInst>(instruction) ||
                         (isa<CastInst>(instruction) && !isa<IntToPtrInst>(instruction));
  if (auto* const number = dyn_cast<IntToPtrInst>(&instruction)) {
    pointees const targets = pointees_of(number->getOperand(0));
    return add_to_result(is_settled_ && targets.known().empty() ? unknown : targets);
  }
  if (!passes_on && instruction.getType()->isIntegerTy()) {
    for (Use const& operand : instruction.operands())
      if (operand->getType()->isIntegerTy(64))
        is_changed |= escape(pointees{pointees_of(operand.get())});
    return is_changed | add_parts(instruction);
  }
  if (!passes_on) return pointees_[&instruction].add_unknown();  // extractvalue, va_arg
  for (Use const& operand : instruction.operands())
    if (holds_pointers(operand->getType())) is_changed |= add_to_result(pointees_of(operand.get()));
  return is_changed | add_parts(instruction);
}

}  // namespace quarry::compiler

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

/// A set has at most this many places of one object; more are joined to one with a stride.
constexpr std::size_t max_places = 8;
constexpr std::size_t max_contents = 64;

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  return a < b ? static_cast<std::uint64_t>(b - a) : static_cast<std::uint64_t>(a - b);
}

/// The offset of a range with a stride, below the stride.
std::int64_t reduced(std::int64_t offset, std::uint64_t stride) {
  if (stride == 0) return offset;
  auto const period = static_cast<std::int64_t>(stride);
  return ((offset % period) + period) % period;
}

bool covers(byte_range const& wide, byte_range const& narrow) {
  if (wide.stride == 0) return narrow.stride == 0 && wide.offset == narrow.offset;
  return narrow.stride % wide.stride == 0 &&
         distance(wide.offset, narrow.offset) % wide.stride == 0;
}

byte_range joined(byte_range const& a, byte_range const& b) {
  std::uint64_t const stride =
      std::gcd(std::gcd(a.stride, b.stride), distance(a.offset, b.offset));
  return {reduced(a.offset, stride), stride, std::max(a.size, b.size)};
}

bool holds_pointers(Type const* type) { return type->isPointerTy(); }

}  // namespace

bool byte_range::overlaps(byte_range const& other) const {
  constexpr std::uint64_t endless = std::uint64_t{1} << 40;
  std::uint64_t const own_size = size == 0 ? endless : size;
  std::uint64_t const other_size = other.size == 0 ? endless : other.size;
  std::uint64_t const period = std::gcd(stride, other.stride);
  if (period == 0)
    return offset < other.offset ? distance(offset, other.offset) < own_size
                                 : distance(offset, other.offset) < other_size;
  auto const gap = static_cast<std::uint64_t>(reduced(other.offset - offset, period));
  return gap < own_size || period - gap < other_size;
}

bool pointees::add(pointee const& added) {
  if (is_unknown_) return false;
  std::size_t same = 0;
  for (pointee const& each : known_) {
    if (each.object != added.object) continue;
    if (covers(each.place, added.place)) return false;
    ++same;
  }
  if (same + 1 < max_places) {
    known_.push_back(added);
    return true;
  }
  pointee all = added;
  for (pointee const& each : known_)
    if (each.object == added.object) all.place = joined(all.place, each.place);
  std::erase_if(known_, [&](pointee const& each) { return each.object == added.object; });
  known_.push_back(all);
  return true;
}

bool pointees::add(pointees const& others) {
  if (others.is_unknown_) return add_unknown();
  bool is_changed = false;
  for (pointee const& each : others.known_) is_changed |= add(each);
  return is_changed;
}

bool pointees::add_unknown() {
  if (is_unknown_) return false;
  is_unknown_ = true;
  return true;
}

memory_objects::memory_objects(Module& model) : model_{model}, layout_{model.getDataLayout()} {
  environment_ = new_object(nullptr);
  lists_ = new_object(nullptr);
  pointees strings;
  strings.add({environment_, {0, 1, 1}});
  store(lists_, everything, strings);
  for (GlobalVariable const& variable : model.globals()) new_object(&variable);
  for (GlobalVariable const& variable : model.globals())
    add_initial_contents(variable, object_of_.lookup(&variable));
  for (Function& function : model) {
    if (function.isDeclaration()) continue;
    bool const is_root = function.getName() == root_name;
    for (Argument& argument : function.args()) {
      if (!argument.getType()->isPointerTy()) continue;
      if (is_root) pointees_[&argument].add({lists_, {}});
      if (!is_root && function.hasAddressTaken()) pointees_[&argument].add_unknown();
    }
    for (Instruction& instruction : instructions(function))
      if (isa<AllocaInst>(instruction)) pointees_[&instruction].add({new_object(&instruction), {}});
  }
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Function& function : model)
      for (Instruction& instruction : instructions(function)) is_changed |= visit(instruction);
  }
}

unsigned memory_objects::new_object(Value const* origin) {
  objects_.push_back({origin, {}, false});
  auto const number = static_cast<unsigned>(objects_.size() - 1);
  if (origin != nullptr) object_of_[origin] = number;
  return number;
}

void memory_objects::add_initial_contents(GlobalVariable const& variable, unsigned object) {
  if (!variable.hasInitializer()) {
    objects_[object].is_escaped = true;
    return;
  }
  auto const add = [&](auto const& self, Constant const* constant, std::int64_t offset) -> void {
    if (constant->getType()->isPointerTy()) {
      store(object, {offset, 0, 8}, constant_pointees(constant));
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
  add(add, variable.getInitializer(), 0);
}

pointees memory_objects::moved(pointees const& base, GEPOperator const& step) const {
  unsigned const width = layout_.getIndexTypeSizeInBits(step.getType());
  APInt offset{width, 0};
  MapVector<Value*, APInt> variable;
  std::uint64_t stride = 0;
  bool const is_known = step.collectOffset(layout_, width, variable, offset);
  for (auto const& [index, scale] : variable)
    stride = std::gcd(stride, scale.abs().getZExtValue());
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

bool memory_objects::store(unsigned object, byte_range range, pointees const& value) {
  auto& contents = objects_[object].contents;
  for (held_pointer& each : contents)
    if (each.range == range) return each.targets.add(value);
  if (contents.size() >= max_contents) {
    held_pointer all{everything, {}};
    for (held_pointer const& each : contents) all.targets.add(each.targets);
    all.targets.add(value);
    contents = {all};
    return true;
  }
  if (value.known().empty() && !value.is_unknown()) return false;
  if (contents.size() == 1 && contents[0].range == everything)
    return contents[0].targets.add(value);
  contents.push_back({range, value});
  return true;
}

bool memory_objects::store(pointees const& where, pointees const& value) {
  bool is_changed = false;
  for (pointee const& each : where.known()) {
    byte_range range = each.place;
    range.size = 8;
    is_changed |= store(each.object, range, value);
    if (objects_[each.object].is_escaped) is_changed |= escape(value);
  }
  if (where.is_unknown()) is_changed |= escape(value);
  return is_changed;
}

pointees memory_objects::load(pointees const& where) const {
  pointees result;
  if (where.is_unknown()) result.add_unknown();
  for (pointee const& each : where.known()) {
    byte_range range = each.place;
    range.size = 8;
    for (held_pointer const& content : objects_[each.object].contents)
      if (content.range.overlaps(range)) result.add(content.targets);
    if (objects_[each.object].is_escaped) result.add_unknown();
  }
  return result;
}

bool memory_objects::escape(pointees const& escaped) {
  bool is_changed = false;
  for (pointee const& each : escaped.known()) {
    object_facts& reached = objects_[each.object];
    if (reached.is_escaped) continue;
    reached.is_escaped = true;
    is_changed = true;
    auto const contents = reached.contents;
    for (held_pointer const& content : contents) escape(content.targets);
  }
  return is_changed;
}

bool memory_objects::give(Value const* pointer, pointees more) {
  return pointees_[pointer].add(more);
}

bool memory_objects::copy_contents(Value const* to, Value const* from) {
  bool is_changed = false;
  pointees const targets = pointees_of(to);
  pointees const sources = pointees_of(from);
  for (pointee const& source : sources.known()) {
    auto const contents = objects_[source.object].contents;
    for (held_pointer const& content : contents) {
      for (pointee const& target : targets.known()) {
        bool const is_exact = source.place.stride == 0 && target.place.stride == 0;
        byte_range range = content.range;
        range.offset += target.place.offset - source.place.offset;
        is_changed |= store(target.object, is_exact ? range : everything, content.targets);
      }
    }
  }
  if (sources.is_unknown()) {
    pointees unknown;
    unknown.add_unknown();
    for (pointee const& target : targets.known())
      is_changed |= store(target.object, everything, unknown);
  }
  return is_changed;
}

bool memory_objects::visit_call(CallBase& call) {
  bool is_changed = false;
  Function* const called = call.getCalledFunction();
  bool const gives_pointer = call.getType()->isPointerTy();
  if (called != nullptr && !called->isDeclaration()) {
    for (unsigned i = 0; i < std::min<std::size_t>(call.arg_size(), called->arg_size()); ++i)
      if (call.getArgOperand(i)->getType()->isPointerTy())
        is_changed |= give(called->getArg(i), pointees_of(call.getArgOperand(i)));
    return gives_pointer ? is_changed | give(&call, returned_[called]) : is_changed;
  }
  call_model const* const row = called == nullptr ? nullptr : model_of(name_in_c(called->getName()));
  bool passes_function = false;
  for (Use const& argument : call.args())
    passes_function |= isa<Function>(argument->stripPointerCasts());
  bool const is_model = called != nullptr && called->getName().starts_with(model_prefix);
  if ((row == nullptr && !is_model) || passes_function)
    for (Use const& argument : call.args())
      if (argument->getType()->isPointerTy())
        is_changed |= escape(pointees{pointees_of(argument.get())});
  if (is_model || !gives_pointer) return is_changed;
  pointees result;
  switch (row == nullptr ? returned::value : row->kind) {
    case returned::memory:
    case returned::variable: {
      Value const* const origin = row->kind == returned::memory ? &call : static_cast<Value*>(called);
      auto const found = object_of_.find(origin);
      result.add({found == object_of_.end() ? new_object(origin) : found->second, {}});
      if (row->kind == returned::variable) {  // such as optarg
        pointees text;
        text.add({environment_, everything});
        store(result, text);
      } else if (name_in_c(called->getName()) == "realloc") {
        copy_contents(&call, call.getArgOperand(0));
      }
      break;
    }
    case returned::argument: result.add(pointees_of(call.getArgOperand(0))); break;
    case returned::inside:
      for (pointee const& each : pointees_of(call.getArgOperand(0)).known())
        result.add({each.object, everything});
      if (pointees_of(call.getArgOperand(0)).is_unknown()) result.add_unknown();
      break;
    case returned::environment: result.add({environment_, {}}); break;
    case returned::value:
      if (row == nullptr) result.add_unknown();
      break;
  }
  return is_changed | give(&call, result);
}

bool memory_objects::visit(Instruction& instruction) {
  auto const take = [&](pointees more) { return give(&instruction, std::move(more)); };
  if (auto* const copy = dyn_cast<MemTransferInst>(&instruction))
    return copy_contents(copy->getRawDest(), copy->getRawSource());
  if (isa<IntrinsicInst>(instruction) && !holds_pointers(instruction.getType())) return false;
  if (auto* const call = dyn_cast<CallBase>(&instruction)) return visit_call(*call);
  if (auto* const writer = dyn_cast<StoreInst>(&instruction)) {
    if (!holds_pointers(writer->getValueOperand()->getType())) return false;
    return store(pointees{pointees_of(writer->getPointerOperand())},
                 pointees{pointees_of(writer->getValueOperand())});
  }
  if (auto* const number = dyn_cast<PtrToIntInst>(&instruction))
    return escape(pointees{pointees_of(number->getPointerOperand())});
  if (auto* const end = dyn_cast<ReturnInst>(&instruction)) {
    Value const* const value = end->getReturnValue();
    if (value == nullptr || !holds_pointers(value->getType())) return false;
    return returned_[instruction.getFunction()].add(pointees{pointees_of(value)});
  }
  if (!holds_pointers(instruction.getType()) || isa<AllocaInst>(instruction)) return false;
  if (auto* const reader = dyn_cast<LoadInst>(&instruction))
    return take(load(pointees_of(reader->getPointerOperand())));
  if (auto* const step = dyn_cast<GetElementPtrInst>(&instruction))
    return take(moved(pointees_of(step->getPointerOperand()), *cast<GEPOperator>(step)));
  bool is_changed = false;
  bool const passes_on = isa<PHINode, SelectInst, FreezeInst>(instruction) ||
                         (isa<CastInst>(instruction) && !isa<IntToPtrInst>(instruction));
  if (!passes_on) return pointees_[&instruction].add_unknown();  // inttoptr, extractvalue, va_arg
  for (Use const& operand : instruction.operands())
    if (holds_pointers(operand->getType())) is_changed |= take(pointees_of(operand.get()));
  return is_changed;
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
  auto* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr) return result;
  if (auto* const memory = dyn_cast<MemIntrinsic>(call)) {
    auto const* const size = dyn_cast<ConstantInt>(memory->getLength());
    add(memory->getRawDest(), size == nullptr ? 0 : size->getZExtValue());
    return result;
  }
  Function const* const called = call->getCalledFunction();
  if (called == nullptr || !called->isDeclaration() || isa<IntrinsicInst>(call) ||
      called->getName().starts_with(model_prefix))
    return result;
  call_model const* const row = model_of(name_in_c(called->getName()));
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
  }
  return result;
}

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
// The pointers that objects hold: how instructions store, load, copy and lose them.
#include "memory_objects.hpp"

#include <llvm/IR/Instructions.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// An object keeps this many ranges that hold pointers; more become one for the whole object.
constexpr std::size_t max_contents = 64;

}  // namespace

void memory_objects::wake(Value const& user) {
  auto* const instruction = dyn_cast<Instruction>(const_cast<Value*>(&user));
  if (instruction != nullptr && is_awake_.insert(instruction).second) woken_.push_back(instruction);
}

void memory_objects::wake_readers(unsigned object) {
  for (Instruction const* const reader : objects_[object].readers) wake(*reader);
}

bool memory_objects::store(unsigned object, byte_range range, pointees const& value) {
  if (!hold(object, range, value)) return false;
  wake_readers(object);
  return true;
}

bool memory_objects::hold(unsigned object, byte_range range, pointees const& value) {
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

bool memory_objects::store(pointees const& where, pointees const& value, std::uint64_t size) {
  bool is_changed = false;
  for (pointee const& each : where.known()) {
    byte_range range = each.place;
    range.size = size;
    is_changed |= store(each.object, range, value);
    if (objects_[each.object].is_escaped) is_changed |= escape(value);
  }
  if (where.is_unknown()) is_changed |= escape(value);
  return is_changed;
}

pointees memory_objects::load(pointees const& where, std::uint64_t size) const {
  pointees result;
  if (where.is_unknown()) result.add_unknown();
  for (pointee const& each : where.known()) {
    byte_range range = each.place;
    range.size = size;
    for (held_pointer const& content : objects_[each.object].contents)
      if (content.range.overlaps(range)) result.add(content.targets);
    if (objects_[each.object].is_escaped) result.add_unknown();
  }
  return result;
}

/// Where a value can point that the program reads. If it is a part of a pointer, or a number in
/// which one lies: where that pointer can point.
pointees memory_objects::load(LoadInst const& reader) const {
  pointees const& where = pointees_of(reader.getPointerOperand());
  if (!holds_pointers(reader.getType())) {
    auto const size = layout_.getTypeStoreSize(reader.getType()).getFixedValue();
    return may_hold_pointer(reader.getPointerOperand(), size) ? inside(load(where, size))
                                                              : pointees{};
  }
  pointees result = load(where, pointer_size);
  bool const is_lost = reader.getType()->isPointerTy() && result.known().empty();
  if (is_settled_ && is_lost && !where.known().empty()) result.add_unknown();
  return result;
}

pointees memory_objects::load_all(pointees const& where) const {
  pointees result;
  for (pointee const& each : where.known())
    for (held_pointer const& content : objects_[each.object].contents) result.add(content.targets);
  return result;
}

bool memory_objects::may_hold_pointer(Value const* address, std::uint64_t size) const {
  for (object_write const& read : accessed(address, size)) {
    // Arrays like argv have nothing else, and a variable like optind is a pointer or a number.
    bool const is_known = read.object == lists_ || isa_and_nonnull<Function>(origin(read.object));
    for (held_pointer const& held : objects_[read.object].contents)
      if (held.range.overlaps(read.range) && !is_known) return true;
  }
  return false;
}

bool memory_objects::escape(pointees const& escaped) {
  bool is_changed = false;
  for (pointee const& each : escaped.known()) {
    object_facts& reached = objects_[each.object];
    if (reached.is_escaped) continue;
    reached.is_escaped = true;
    wake_readers(each.object);
    is_changed = true;
    if (auto const* const function = dyn_cast_or_null<Function>(reached.origin))
      for (Argument const& argument : function->args())  // anybody can call it
        if (argument.getType()->isPointerTy()) pointees_[&argument].add_unknown();
    auto const contents = reached.contents;
    for (held_pointer const& content : contents) escape(content.targets);
  }
  return is_changed;
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
  if (targets.is_unknown()) is_changed |= escape(load_all(sources));
  if (sources.is_unknown()) {
    pointees unknown;
    unknown.add_unknown();
    for (pointee const& target : targets.known())
      is_changed |= store(target.object, everything, unknown);
  }
  return is_changed;
}

}  // namespace quarry::compiler

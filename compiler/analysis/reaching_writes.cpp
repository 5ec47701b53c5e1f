// SPDX-License-Identifier: Apache-2.0
#include "reaching_writes.hpp"

#include "model_program.hpp"
#include "model_values.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// A search that visits more blocks than this gives up: the write reaches the reader.
constexpr unsigned max_visited_blocks = 10'000;

/// The variable or allocation that a pointer points into, and where; the offset is negative if it
/// is not known.
std::pair<Value const*, std::int64_t> base_of(Value const* pointer, DataLayout const& layout) {
  APInt offset{layout.getIndexTypeSizeInBits(pointer->getType()), 0};
  auto const* const base =
      pointer->stripAndAccumulateConstantOffsets(layout, offset, /*AllowNonInbounds=*/true);
  return {base, offset.getSExtValue()};
}

/// Whether two instructions of a block store parts of one value.
bool stores_next_part(Instruction const& first, Instruction const& second) {
  auto const* const a = dyn_cast<StoreInst>(&first);
  auto const* const b = dyn_cast<StoreInst>(&second);
  if (a == nullptr || b == nullptr || a->getParent() != b->getParent()) return false;
  auto const* const part = dyn_cast<ExtractValueInst>(a->getValueOperand());
  auto const* const next = dyn_cast<ExtractValueInst>(b->getValueOperand());
  return part != nullptr && next != nullptr &&
         part->getAggregateOperand() == next->getAggregateOperand();
}

/// The number of bytes of a variable; 0 if it is not known.
std::uint64_t size_of(Value const* variable, DataLayout const& layout) {
  if (auto const* const local = dyn_cast_or_null<AllocaInst>(variable)) {
    auto const size = local->getAllocationSize(layout);
    return size && !size->isScalable() ? size->getFixedValue() : 0;
  }
  auto const* const global = dyn_cast_or_null<GlobalVariable>(variable);
  return global == nullptr ? 0 : layout.getTypeAllocSize(global->getValueType()).getFixedValue();
}

}  // namespace

reaching_writes::reaching_writes(Module const& model, memory_objects const& memory)
    : layout_{model.getDataLayout()}, memory_{memory}, root_{model.getFunction(root_name)} {
  if (root_ == nullptr) return;
  cycles_.compute(const_cast<Function&>(*root_));
  for (Instruction const& instruction : instructions(*root_)) add_overwrites(instruction);
}

void reaching_writes::add_overwrites(Instruction const& instruction) {
  if (auto const* const writer = dyn_cast<StoreInst>(&instruction))
    return add_overwrite(
        instruction, writer->getPointerOperand(),
        layout_.getTypeStoreSize(writer->getValueOperand()->getType()).getFixedValue());
  auto const* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr) return;
  if (auto const* const memory = dyn_cast<MemIntrinsic>(call)) {
    if (auto const* const size = dyn_cast<ConstantInt>(memory->getLength()))
      add_overwrite(instruction, memory->getRawDest(), size->getZExtValue());
    return;
  }
  Function const* const called = call->getCalledFunction();
  if (called == nullptr || !called->isDeclaration()) return;
  call_model const* const row = model_of(*call);
  if (row == nullptr) return;
  for (effect const& written : row->effects) {
    bool const is_certain = written.value == model::uniform || written.value == model::of_world ||
                            written.value == model::collective;
    if (written.argument < 0 || !is_certain || written.is_rest) continue;
    if (auto const bytes = bytes_written(*call, written))
      add_overwrite(instruction, call->getArgOperand(static_cast<unsigned>(written.argument)),
                    *bytes);
  }
}

void reaching_writes::add_overwrite(Instruction const& writer, Value const* pointer,
                                    std::uint64_t bytes) {
  auto const [base, offset] = base_of(pointer, layout_);
  if (bytes == 0 || !isa<AllocaInst, GlobalVariable, CallBase>(base)) return;
  auto& known = overwrites_[base];
  byte_range range{offset, 0, bytes};
  if (!known.empty() && stores_next_part(*known.back().writer, writer) &&
      known.back().range.offset + static_cast<std::int64_t>(known.back().range.size) == offset)
    range = {known.back().range.offset, 0, known.back().range.size + bytes};
  known.push_back({0, range, const_cast<Instruction*>(&writer)});
}

bool reaching_writes::has_one_instance(unsigned object, Value const* pointer) const {
  Value const* const origin = memory_.origin(object);
  if (origin == nullptr) return false;
  if (isa<GlobalVariable>(origin)) return true;
  auto const* const made = dyn_cast<Instruction>(origin);
  if (made == nullptr || made->getFunction() != root_) return false;
  if (auto const* const local = dyn_cast<AllocaInst>(made)) return local->isStaticAlloca();
  return cycles_.getCycle(made->getParent()) == nullptr ||
         base_of(pointer, layout_).first == origin;
}

Instruction const* reaching_writes::find(Instruction const& reader, Value const* pointer,
                                         object_write const& reads,
                                         ArrayRef<Instruction const*> writers,
                                         function_ref<bool(Instruction const&)> hides) const {
  if (writers.empty()) return nullptr;
  Instruction const* const first = writers.front();
  Value const* const origin = memory_.origin(reads.object);
  auto const found = overwrites_.find(origin);
  bool const is_allocation = isa_and_nonnull<CallBase>(origin);
  if (reader.getFunction() != root_ || !has_one_instance(reads.object, pointer)) return first;
  std::int64_t const begin = reads.range.offset;
  std::uint64_t const whole = size_of(origin, layout_);
  std::uint64_t size = reads.range.size;
  if (whole > 0 && begin >= 0 && static_cast<std::uint64_t>(begin) < whole)
    size = size == 0 ? whole - static_cast<std::uint64_t>(begin)
                     : std::min(size, whole - static_cast<std::uint64_t>(begin));
  // What ends a path backwards: a writer, an overwrite, or where the allocation is made.
  SmallPtrSet<Instruction const*, 16> seen{writers.begin(), writers.end()};
  DenseMap<BasicBlock const*, std::vector<Instruction const*>> ends;
  for (Instruction const* const writer : writers) {
    if (writer->getFunction() != root_) return writer;
    ends[writer->getParent()].push_back(writer);
  }
  if (found != overwrites_.end() && reads.range.stride == 0 && size != 0)
    for (object_write const& each : found->second)
      if (each.range.offset <= begin &&
          begin + static_cast<std::int64_t>(size) <=
              each.range.offset + static_cast<std::int64_t>(each.range.size) &&
          !seen.contains(each.writer) && hides(*each.writer))
        ends[each.writer->getParent()].push_back(each.writer);
  if (is_allocation) {
    auto const* const made = cast<Instruction>(origin);
    ends[made->getParent()].push_back(made);
  }
  /// The last end of the block before an instruction; before its end if there is none.
  auto const last_end = [&](BasicBlock const& block, Instruction const* before) {
    Instruction const* last = nullptr;
    auto const here = ends.find(&block);
    if (here == ends.end()) return last;
    for (Instruction const* const each : here->second)
      if ((before == nullptr || each->comesBefore(before)) &&
          (last == nullptr || last->comesBefore(each)))
        last = each;
    return last;
  };
  SmallVector<BasicBlock const*> open;
  SmallPtrSet<BasicBlock const*, 32> done;
  auto const go_on_before = [&](BasicBlock const& block) {
    for (BasicBlock const* const before : predecessors(&block))
      if (done.insert(before).second) open.push_back(before);
  };
  if (Instruction const* const end = last_end(*reader.getParent(), &reader))
    return seen.contains(end) ? end : nullptr;
  go_on_before(*reader.getParent());
  while (!open.empty()) {
    if (done.size() > max_visited_blocks) return first;
    BasicBlock const* const block = open.pop_back_val();
    Instruction const* const end = last_end(*block, nullptr);
    if (end == nullptr)
      go_on_before(*block);
    else if (seen.contains(end))
      return end;
  }
  return nullptr;
}

}  // namespace quarry::compiler

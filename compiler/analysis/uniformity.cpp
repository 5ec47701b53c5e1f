// SPDX-License-Identifier: Apache-2.0
#include "uniformity.hpp"

#include "formats.hpp"
#include "model_program.hpp"

#include <llvm/Analysis/ConstantFolding.h>
#include <llvm/Analysis/CycleAnalysis.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TargetTransformInfoImpl.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PassInstrumentation.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// An object keeps at most this many varying ranges; more make all of it varying.
constexpr std::size_t max_ranges = 64;

/// Tells LLVM's analysis which values vary by themselves, and which calls are uniform although
/// their operands vary.
class variation_info : public TargetTransformInfoImplCRTPBase<variation_info> {
 public:
  variation_info(DataLayout const& layout, SmallPtrSetImpl<Value const*> const& sources)
      : TargetTransformInfoImplCRTPBase{layout}, sources_{&sources} {}
  bool hasBranchDivergence(Function const* = nullptr) const { return true; }
  bool isSourceOfDivergence(Value const* value) const { return sources_->contains(value); }
  bool isAlwaysUniform(Value const* value) const {
    auto const* const call = dyn_cast<CallBase>(value);
    if (call == nullptr || sources_->contains(value)) return false;
    Function const* const called = call->getCalledFunction();
    if (called == nullptr || !called->isDeclaration()) return false;
    if (called->getName().starts_with(model_prefix)) return true;
    auto const* const row = model_of(*call);
    return row != nullptr && row->result != model::of_inputs;
  }

 private:
  SmallPtrSetImpl<Value const*> const* sources_;
};

/// Whether errors of MPI no longer end the program after this instruction.
bool keeps_errors(Instruction const& instruction) {
  auto const* const call = dyn_cast<CallBase>(&instruction);
  if (call == nullptr || call->getCalledFunction() == nullptr || call->arg_size() != 2)
    return false;
  StringRef const name = name_in_c(call->getCalledFunction()->getName());
  auto const* const handler = dyn_cast<ConstantInt>(call->getArgOperand(1));
  constexpr std::uint64_t errors_are_fatal = 1;  // of mpi.h
  return (name == "MPI_Comm_set_errhandler" || name == "MPI_Errhandler_set") &&
         (handler == nullptr || handler->getZExtValue() != errors_are_fatal);
}

/// Whether the bytes with which a variable begins are MPI_COMM_WORLD or no communicator.
bool begins_as_world(Value const* origin, byte_range const& place, DataLayout const& layout) {
  auto const* const variable = dyn_cast_or_null<GlobalVariable>(origin);
  if (variable == nullptr || !variable->hasInitializer() ||
      variable->getInitializer()->isNullValue())
    return true;
  if (place.stride != 0) return false;
  Type* const word = Type::getInt32Ty(variable->getContext());
  auto const* const first = dyn_cast_or_null<ConstantInt>(
      ConstantFoldLoadFromConst(const_cast<Constant*>(variable->getInitializer()), word,
                                APInt{64, static_cast<std::uint64_t>(place.offset)}, layout));
  return first != nullptr && first->getZExtValue() <= 1;
}

StringRef model_kind(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  if (called == nullptr || !called->getName().starts_with(model_prefix)) return {};
  return called->getName().drop_front(StringRef{model_prefix}.size()).split('.').first;
}

}  // namespace

struct uniformity::function_facts {
  PostDominatorTree post_dominators;
  UniformityInfo* info = nullptr;
  std::map<BasicBlock const*, Instruction const*> branches;  // over blocks that are not collective
  std::map<BasicBlock const*, Instruction const*> ends;      // where such blocks lead to
};

uniformity::uniformity(Module& model) : model_{model}, memory_{model}, reaching_{model, memory_} {
  analyses_.registerPass([] { return PassInstrumentationAnalysis{}; });
  analyses_.registerPass([] { return DominatorTreeAnalysis{}; });
  analyses_.registerPass([] { return CycleAnalysis{}; });
  analyses_.registerPass([] { return UniformityInfoAnalysis{}; });
  analyses_.registerPass([this] {
    return TargetIRAnalysis{[this](Function const&) {
      return TargetTransformInfo{variation_info{model_.getDataLayout(), sources_}};
    }};
  });
  varying_writes_.resize(memory_.count());
  all_writes_.resize(memory_.count());
  for (Function& function : model) {
    if (function.isDeclaration()) continue;
    auto facts = std::make_unique<function_facts>();
    facts->post_dominators.recalculate(function);
    facts_[&function] = std::move(facts);
    bool const is_root = function.getName() == root_name;
    if (!is_root && function.hasAddressTaken()) {
      divergent_functions_[&function] = nullptr;
      for (Argument const& argument : function.args()) sources_.insert(&argument);
    }
    for (Instruction& instruction : instructions(function)) {
      bool unknown = false;
      for (object_write const& write : memory_.writes_of(instruction, unknown))
        all_writes_[write.object].push_back(write);
      if (auto const* const number = dyn_cast<PtrToIntInst>(&instruction);
          number != nullptr && !is_for_differences(*number))
        sources_.insert(number);
      if (reads_address(instruction)) sources_.insert(&instruction);
      if (auto const* const call = dyn_cast<CallBase>(&instruction);
          call != nullptr && call->hasFnAttr(Attribute::ReturnsTwice))
        jumping_functions_.insert(&function);
      errors_return_ = errors_return_ || keeps_errors(instruction);
    }
    if (jumping_functions_.contains(&function)) divergent_functions_[&function] = nullptr;
  }
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (auto& [function, facts] : facts_) analyse(const_cast<Function&>(*function));
    for (auto& [function, facts] : facts_) is_changed |= update(const_cast<Function&>(*function));
  }
}

uniformity::~uniformity() = default;

void uniformity::analyse(Function& function) {
  function_facts& facts = *facts_[&function];
  PreservedAnalyses kept = PreservedAnalyses::all();
  kept.abandon<UniformityInfoAnalysis>();
  analyses_.invalidate(function, kept);
  facts.info = &analyses_.getResult<UniformityInfoAnalysis>(function);
  // A block is not collective if a varying branch, or one in such a block, decides whether it is
  // executed: the blocks between a successor and the branch's nearest post-dominator.
  facts.branches.clear();
  facts.ends.clear();
  SmallVector<std::pair<BasicBlock const*, Instruction const*>> open;
  for (BasicBlock const& block : function)
    if (facts.info->hasDivergentTerminator(block)) open.emplace_back(&block, block.getTerminator());
  SmallPtrSet<BasicBlock const*, 32> done;
  while (!open.empty()) {
    auto const [block, reason] = open.pop_back_val();
    if (!done.insert(block).second) continue;
    auto const* const own = facts.post_dominators.getNode(block);
    auto const* const end = own == nullptr ? nullptr : own->getIDom();
    if (end != nullptr && end->getBlock() != nullptr)
      facts.ends.try_emplace(end->getBlock(), reason);
    for (BasicBlock const* const successor : successors(block)) {
      for (auto const* node = facts.post_dominators.getNode(successor);
           node != nullptr && node != end && node->getBlock() != nullptr; node = node->getIDom()) {
        auto const [position, is_new] = facts.branches.try_emplace(node->getBlock(), reason);
        if (is_new && node->getBlock()->getTerminator()->getNumSuccessors() > 1)
          open.emplace_back(node->getBlock(), reason);
      }
    }
  }
}

bool uniformity::add_source(Value const* value, Instruction const* cause) {
  if (!sources_.insert(value).second) return false;
  causes_[value] = cause;
  return true;
}

bool uniformity::is_collective(BasicBlock const& block) const {
  return !divergent_functions_.contains(block.getParent()) &&
         !facts_.at(block.getParent())->branches.contains(&block);
}

bool uniformity::varies(Use const& use) const {
  auto const* const user = dyn_cast<Instruction>(use.getUser());
  if (user == nullptr || isa<Constant>(use.get())) return false;
  return facts_.at(user->getFunction())->info->isDivergentUse(use);
}

bool uniformity::varies(Value const* value) const {
  if (auto const* const argument = dyn_cast<Argument>(value))
    return facts_.at(argument->getParent())->info->isDivergent(value);
  auto const* const instruction = dyn_cast<Instruction>(value);
  return instruction != nullptr && facts_.at(instruction->getFunction())->info->isDivergent(value);
}

bool uniformity::has_varying_branch(BasicBlock const& block) const {
  return facts_.at(block.getParent())->info->hasDivergentTerminator(block);
}

Instruction const* uniformity::branch_over(BasicBlock const& block) const {
  auto const& branches = facts_.at(block.getParent())->branches;
  auto const found = branches.find(&block);
  return found == branches.end() ? nullptr : found->second;
}

Instruction const* uniformity::divergent_call_of(Function const& function) const {
  auto const found = divergent_functions_.find(&function);
  return found == divergent_functions_.end() ? nullptr : found->second;
}

Instruction const* uniformity::cause_of(Value const* source) const {
  auto const found = causes_.find(source);
  return found == causes_.end() ? nullptr : found->second;
}

Instruction const* uniformity::varying_write(Value const* pointer, std::uint64_t size,
                                             Instruction const& reader) const {
  for (object_write const& read : memory_.accessed(pointer, size)) {
    bool const has_any = llvm::any_of(varying_writes_[read.object], [&](object_write const& write) {
      return write.range.overlaps(read.range);
    });
    if (has_any) {
      SmallVector<Instruction const*> writers;
      for (object_write const& write : all_writes_[read.object])
        if (varying_writers_.contains(write.writer) && write.range.overlaps(read.range))
          writers.push_back(write.writer);
      auto const hides = [&](Instruction const& other) {
        return !varying_writers_.contains(&other);
      };
      if (auto const* const writer = reaching_.find(reader, pointer, read, writers, hides))
        return writer;
    }
    if (unknown_write_ != nullptr && memory_.is_escaped(read.object)) return unknown_write_;
  }
  return nullptr;
}

bool uniformity::shows_varying(Value const* pointer, std::uint64_t size,
                               Instruction const& reader) const {
  return is_unknown(pointer) || varying_write(pointer, size, reader) != nullptr;
}

bool uniformity::inputs_vary(CallBase const& call) const {
  if (has_conversion(call, 'p')) return true;
  bool const compares_bytes = original_name(call) == "memcmp" || original_name(call) == "bcmp";
  for (Use const& argument : call.args()) {
    if (varies(argument)) return true;
    if (!argument->getType()->isPointerTy()) continue;
    if (shows_varying(argument.get(), 0, call)) return true;
    auto const* const size = dyn_cast<ConstantInt>(call.getArgOperand(call.arg_size() - 1));
    if (compares_bytes &&
        memory_.may_hold_pointer(argument.get(), size == nullptr ? 0 : size->getZExtValue()))
      return true;
  }
  auto const* const row = model_of(original_name(call));
  if (row == nullptr || !row->has_state) return false;
  for (unsigned i = 0; i < memory_.count(); ++i)
    if (memory_.is_getopt_variable(i) && !varying_writes_[i].empty()) return true;
  return false;
}

Value const* uniformity::copied_communicator(CallBase const& call) const {
  StringRef const name = original_name(call);
  if (name == "MPI_Comm_dup" && !call.arg_empty()) return call.getArgOperand(0);
  bool const is_whole = name == "MPI_Comm_split" && call.arg_size() >= 2 &&
                        is_collective(*call.getParent()) && !varies(call.getArgOperandUse(1));
  return is_whole ? call.getArgOperand(0) : nullptr;
}

bool uniformity::is_world(Value const* communicator) const {
  SmallVector<Value const*> open{communicator};
  SmallPtrSet<Value const*, 8> done;
  while (!open.empty()) {
    Value const* const value = open.pop_back_val();
    if (!done.insert(value).second) continue;
    if (auto const* const number = dyn_cast<ConstantInt>(value)) {
      if (number->getZExtValue() != 1) return false;  // MPI_COMM_WORLD
    } else if (isa<PHINode, SelectInst>(value)) {
      auto const* const user = cast<User>(value);
      for (Use const& operand : user->operands())
        if (operand->getType() == value->getType()) open.push_back(operand.get());
    } else if (auto const* const call = dyn_cast<CallBase>(value)) {
      Value const* const original = copied_communicator(*call);
      if (original == nullptr) return false;
      open.push_back(original);
    } else if (auto const* const reader = dyn_cast<LoadInst>(value)) {
      if (memory_.pointees_of(reader->getPointerOperand()).is_unknown()) return false;
      for (object_write const& read : memory_.accessed(reader->getPointerOperand(), 4)) {
        if (memory_.is_escaped(read.object) ||
            !begins_as_world(memory_.origin(read.object), read.range, model_.getDataLayout()))
          return false;
        for (object_write const& write : all_writes_[read.object]) {
          if (!write.range.overlaps(read.range)) continue;
          if (auto const* const store = dyn_cast<StoreInst>(write.writer)) {
            open.push_back(store->getValueOperand());
          } else if (auto const* const copy = dyn_cast<CallBase>(write.writer);
                     copy != nullptr && copied_communicator(*copy) != nullptr) {
            open.push_back(copied_communicator(*copy));
          } else if (!isa<MemSetInst>(write.writer)) {
            return false;
          }
        }
      }
    } else if (auto const* const argument = dyn_cast<Argument>(value);
               argument != nullptr && !argument->getParent()->hasAddressTaken()) {
      for (User const* const user : argument->getParent()->users())
        open.push_back(cast<CallBase>(user)->getArgOperand(argument->getArgNo()));
    } else {
      return false;
    }
  }
  return true;
}

bool uniformity::external_write_varies(CallBase const& call) const {
  call_model const* const row = model_of(call);
  if (row == nullptr || has_conversion(call, 'n')) return true;
  if (row->has_state ||
      (allocation_of(row->name) != nullptr && allocation_of(row->name)->copies_text))
    return inputs_vary(call);
  for (effect const& written : row->effects) {
    switch (written.value) {
      case model::varying:
        return true;
      case model::of_inputs:
        if (inputs_vary(call)) return true;
        break;
      case model::of_part:
        if (copied_communicator(call) == nullptr || !is_world(call.getArgOperand(0))) return true;
        break;
      case model::of_world:
        if (!is_world(call.getArgOperand(row->communicator))) return true;
        break;
      case model::collective:
        if (!is_world(call.getArgOperand(row->communicator))) return true;
        for (std::int8_t const argument : {written.count, written.type})
          if (argument >= 0 && varies(call.getArgOperandUse(static_cast<unsigned>(argument))))
            return true;
        // The arrays of counts and places of MPI_Allgatherv.
        for (unsigned i = static_cast<unsigned>(written.argument) + 1; i < call.arg_size(); ++i) {
          Value const* const after = call.getArgOperand(i);
          if (after->getType()->isPointerTy() && shows_varying(after, 0, call)) return true;
        }
        break;
      default:
        break;
    }
  }
  return false;
}

bool uniformity::writes_varying(Instruction& instruction) const {
  if (!is_collective(*instruction.getParent())) return true;
  if (auto const* const store = dyn_cast<StoreInst>(&instruction))
    return varies(store->getOperandUse(0)) || varies(store->getOperandUse(1));
  if (isa<VAStartInst, VACopyInst>(instruction)) return true;  // the arguments may vary
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(instruction)) {
    for (Use const& operand : instruction.operands())
      if (varies(operand)) return true;
    return false;
  }
  auto& call = cast<CallBase>(instruction);
  if (auto const* const memory = dyn_cast<MemIntrinsic>(&call)) {
    for (unsigned i = 0; i < 3; ++i)
      if (varies(call.getArgOperandUse(i))) return true;
    auto const* const copy = dyn_cast<MemTransferInst>(memory);
    auto const* const size = dyn_cast<ConstantInt>(memory->getLength());
    return copy != nullptr &&
           shows_varying(copy->getRawSource(), size == nullptr ? 0 : size->getZExtValue(), *copy);
  }
  for (Use const& argument : call.args())
    if (argument->getType()->isPointerTy() && varies(argument)) return true;
  return external_write_varies(call);
}

bool uniformity::write(object_write const& written) {
  auto& ranges = varying_writes_[written.object];
  for (object_write const& each : ranges)
    if (each.range == written.range || each.range == everything) return false;
  object_write added = written;
  if (ranges.size() >= max_ranges) added.range = everything;
  ranges.push_back(added);
  return true;
}

bool uniformity::update_writes(Instruction& instruction) {
  if (varying_writers_.contains(&instruction)) return false;
  bool unknown = false;
  auto const writes = memory_.writes_of(instruction, unknown);
  if ((writes.empty() && !unknown) || !writes_varying(instruction)) return false;
  varying_writers_.insert(&instruction);
  bool is_changed = false;
  for (object_write const& each : writes) is_changed |= write(each);
  if (unknown && unknown_write_ == nullptr) {
    unknown_write_ = &instruction;
    is_changed = true;
  }
  return is_changed;
}

bool uniformity::update_model_call(CallBase& call) {
  StringRef const kind = model_kind(call);
  bool varies_now = false;
  if (kind == "varying") {
    varies_now = true;
  } else if (kind == "of_inputs") {
    varies_now = inputs_vary(call);
  } else if (kind == "of_world") {
    varies_now = !is_world(call.getArgOperand(0));
  } else if (kind == "of_part") {
    varies_now = copied_communicator(call) == nullptr || !is_world(call.getArgOperand(0));
  } else if (kind == "collective") {
    varies_now = !is_collective(*call.getParent()) || !is_world(call.getArgOperand(0));
    for (unsigned i = 1; i < call.arg_size(); ++i)
      varies_now = varies_now || varies(call.getArgOperandUse(i));
  }
  return varies_now && add_source(&call, nullptr);
}

bool uniformity::update_call(CallBase& call) {
  Function* const called = call.getCalledFunction();
  bool is_changed = false;
  if (called != nullptr && !called->isDeclaration()) {
    auto const count = std::min<std::size_t>(call.arg_size(), called->arg_size());
    for (unsigned i = 0; i < count; ++i)
      if (varies(call.getArgOperandUse(i))) is_changed |= add_source(called->getArg(i), &call);
    if (!is_collective(*call.getParent()))
      is_changed |= divergent_functions_.try_emplace(called, &call).second;
    // A varying return value, or one of several returns in varying code.
    for (BasicBlock const& block : *called) {
      auto const* const end = dyn_cast<ReturnInst>(block.getTerminator());
      if (end == nullptr || end->getReturnValue() == nullptr) continue;
      if (varies(end->getOperandUse(0)) || branch_over(block) != nullptr)
        is_changed |= add_source(&call, end);
    }
    if (jumping_functions_.contains(called)) is_changed |= add_source(&call, nullptr);
    return is_changed;
  }
  if (called == nullptr) return call.isInlineAsm() ? false : add_source(&call, nullptr);
  if (!model_kind(call).empty()) return update_model_call(call);
  call_model const* const row = model_of(call);
  bool varies_now = row == nullptr || row->result == model::varying ||
                    (errors_return_ && name_in_c(called->getName()).starts_with("MPI_"));
  if (row != nullptr && row->kind == returned::memory)
    varies_now = !is_collective(*call.getParent());  // other ranks have no such allocation
  if (row != nullptr && row->result == model::of_inputs) varies_now = inputs_vary(call);
  return varies_now && add_source(&call, nullptr);
}

bool uniformity::add_joins(Function& function) {
  function_facts const& facts = *facts_[&function];
  bool is_changed = false;
  for (auto const& [block, branch] : facts.ends)
    for (PHINode const& join : block->phis())
      if (!facts.branches.contains(block) && !join.hasConstantOrUndefValue())
        is_changed |= add_source(&join, branch);
  auto const& cycles = analyses_.getResult<CycleAnalysis>(function);
  DenseMap<Cycle const*, Instruction const*> branches;  // the first that varies, of each loop
  auto const varying_branch_of = [&](Cycle const& cycle) {
    auto const [found, is_new] = branches.try_emplace(&cycle, nullptr);
    SmallVector<BasicBlock*> exits;
    if (is_new) cycle.getExitingBlocks(exits);  // looks at all blocks of the loop
    for (auto at = exits.begin(); at != exits.end() && found->second == nullptr; ++at)
      found->second = has_varying_branch(**at) ? (*at)->getTerminator() : branch_over(**at);
    return found->second;
  };
  for (BasicBlock const& block : function)
    for (auto const* cycle = cycles.getCycle(&block); cycle != nullptr;
         cycle = cycle->getParentCycle()) {
      if (Instruction const* const branch = varying_branch_of(*cycle))
        for (Instruction const& instruction : block)
          for (User const* const user : instruction.users())
            if (!cycle->contains(cast<Instruction>(user)->getParent()))
              is_changed |= add_source(&instruction, branch);
    }
  return is_changed;
}

bool uniformity::update(Function& function) {
  bool is_changed = add_joins(function);
  for (Instruction& instruction : instructions(function)) {
    if (isa<LoadInst, AtomicRMWInst, AtomicCmpXchgInst>(instruction)) {
      Value const* const pointer = instruction.getOperand(0);
      auto const size =
          isa<LoadInst>(instruction)
              ? model_.getDataLayout().getTypeStoreSize(instruction.getType()).getFixedValue()
              : 8;
      if (!sources_.contains(&instruction) && shows_varying(pointer, size, instruction))
        is_changed |= add_source(&instruction, varying_write(pointer, size, instruction));
    } else if (auto const* const difference = dyn_cast<BinaryOperator>(&instruction)) {
      if (!sources_.contains(difference) && subtracts_addresses(*difference))
        is_changed |= add_source(difference, nullptr);
    } else if (auto const* const comparison = dyn_cast<ICmpInst>(&instruction)) {
      if (!sources_.contains(comparison) && compares_addresses(*comparison))
        is_changed |= add_source(comparison, nullptr);
    } else if (auto* const call = dyn_cast<CallBase>(&instruction);
               call != nullptr && !isa<IntrinsicInst>(call)) {
      is_changed |= update_call(*call);
    }
    if (instruction.mayWriteToMemory() || isa<CallBase>(instruction))
      is_changed |= update_writes(instruction);
  }
  return is_changed;
}

}  // namespace quarry::compiler

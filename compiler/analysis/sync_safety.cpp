// SPDX-License-Identifier: Apache-2.0
#include "sync_safety.hpp"

#include "call_models.hpp"
#include "call_waits.hpp"
#include "model_program.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace quarry::compiler {

using namespace llvm;

namespace {

/// The program's function that is called and was not inserted; null if there is none.
Function const* kept_function(CallBase const& call) {
  Function const* const called = call.getCalledFunction();
  return called == nullptr || called->isDeclaration() ? nullptr : called;
}

bool calls_back(CallBase const& call) {
  auto const* const row = model_of(call);
  return row != nullptr && row->calls_back;
}

bool is_collective_operation(call_wait const& wait) {
  return wait.waits_for == company::together || wait.waits_for == company::all;
}

}  // namespace

bool sync_safety::state::add(state const& other) {
  bool const is_changed =
      (waited == nullptr && other.waited != nullptr) || (!is_of_caller && other.is_of_caller);
  if (waited == nullptr) waited = other.waited;
  is_of_caller = is_of_caller || other.is_of_caller;
  return is_changed;
}

sync_safety::sync_safety(Module const& model, uniformity const& facts)
    : facts_{facts}, model_{model} {
  for (Function const& function : model)
    for (Instruction const& instruction : instructions(function))
      if (auto const* const call = dyn_cast<CallBase>(&instruction);
          call != nullptr && (kept_function(*call) != nullptr || calls_back(*call) ||
                              wait_of(*call).waits_for != company::none))
        calls_[call->getParent()].push_back(call);
  // An operation that returns an error need not wait for other ranks.
  has_meetings_ = !facts.has_errors() && are_aligned();
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (Function const& function : model)
      if (!function.isDeclaration()) is_changed |= update(function);
  }
}

bool sync_safety::are_aligned() const {
  for (auto const& [block, calls] : calls_) {
    for (CallBase const* const call : calls) {
      if (kept_function(*call) != nullptr) continue;
      if (call->getCalledFunction() != nullptr &&
          call->getCalledFunction()->getName() == meeting_end)
        return false;
      call_wait const wait = wait_of(*call);
      if (!is_collective_operation(wait)) continue;
      if (wait.communicator < 0) return false;
      Use const& communicator = call->getArgOperandUse(static_cast<unsigned>(wait.communicator));
      if (is_part(communicator.get())) continue;
      if (!facts_.is_collective(*block) || facts_.varies(communicator)) return false;
    }
  }
  return true;
}

/// Whether no meeting can be of the communicator: it was made by MPI_Comm_split, and not for all
/// ranks, or it is MPI_COMM_SELF or null.
bool sync_safety::is_part(Value const* communicator, unsigned depth) const {
  constexpr unsigned max_depth = 8;
  if (depth > max_depth) return false;
  if (auto const* const number = dyn_cast<ConstantInt>(communicator))
    return number->isZero() || number->equalsInt(2);  // of mpi.h
  if (isa<PHINode, SelectInst>(communicator)) {
    for (Use const& operand : cast<User>(communicator)->operands())
      if (operand->getType() == communicator->getType() && !is_part(operand, depth + 1))
        return false;
    return true;
  }
  auto const* const call = dyn_cast<CallBase>(communicator);
  if (call == nullptr || call->arg_empty()) return false;
  StringRef const name = original_name(*call);
  if (name == "MPI_Comm_dup") return is_part(call->getArgOperand(0), depth + 1);
  return name == "MPI_Comm_split" && facts_.copied_communicator(*call) == nullptr;
}

bool sync_safety::is_meeting(CallBase const& call) const {
  call_wait const wait = wait_of(call);
  if (!has_meetings_ || wait.waits_for != company::all || wait.communicator < 0) return false;
  Use const& communicator = call.getArgOperandUse(static_cast<unsigned>(wait.communicator));
  return facts_.is_collective(*call.getParent()) && !facts_.varies(communicator) &&
         facts_.is_world(communicator.get());
}

void sync_safety::apply(CallBase const& call, state& now) const {
  if (Function const* const called = kept_function(call)) {
    auto const found = summaries_.find(called);
    state const after = found == summaries_.end() ? state{} : found->second;
    now.waited = after.waited != nullptr ? after.waited : after.is_of_caller ? now.waited : nullptr;
    now.is_of_caller = now.is_of_caller && after.is_of_caller;
    return;
  }
  if (is_meeting(call)) {
    now = {};
  } else if (wait_of(call).waits_for != company::none) {
    now.waited = &call;
  } else if (now.waited == nullptr && calls_back(call)) {
    now.waited = pointer_wait_;
  }
}

Instruction const* sync_safety::resolved(state const& now, Function const& function) const {
  if (now.waited != nullptr || !now.is_of_caller) return now.waited;
  auto const found = entered_.find(&function);
  return found == entered_.end() ? nullptr : found->second;
}

bool sync_safety::update(Function const& function) {
  bool is_changed = begins_[&function.getEntryBlock()].add({nullptr, true});
  bool const is_taken = function.hasAddressTaken() && function.getName() != root_name;
  for (BasicBlock const& block : function) {
    state now = begins_[&block];
    if (auto const found = calls_.find(&block); found != calls_.end()) {
      for (CallBase const* const call : found->second) {
        Function const* const called = kept_function(*call);
        Instruction const* const waited = called == nullptr ? nullptr : resolved(now, function);
        if (waited != nullptr) is_changed |= entered_.try_emplace(called, waited).second;
        apply(*call, now);
        if (is_taken && pointer_wait_ == nullptr && now.waited != nullptr) {
          pointer_wait_ = now.waited;
          is_changed = true;
        }
      }
    }
    for (BasicBlock const* const next : successors(&block)) is_changed |= begins_[next].add(now);
    if (isa<ReturnInst>(block.getTerminator())) is_changed |= summaries_[&function].add(now);
  }
  return is_changed;
}

Instruction const* sync_safety::wait_before(Instruction const& place) const {
  BasicBlock const& block = *place.getParent();
  auto const begin = begins_.find(&block);
  state now = begin == begins_.end() ? state{} : begin->second;
  if (auto const found = calls_.find(&block); found != calls_.end())
    for (CallBase const* const call : found->second)
      if (call->comesBefore(&place)) apply(*call, now);
  return resolved(now, *block.getParent());
}

}  // namespace quarry::compiler

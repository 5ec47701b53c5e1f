// SPDX-License-Identifier: Apache-2.0
#include "array_uses.hpp"

#include "analysis/call_models.hpp"
#include "unsupported.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

bool is_free(CallInst const& call) {
  Function const* const called = call.getCalledFunction();
  return called != nullptr && called->getName() == "quarry_c_free" && call.arg_size() == 1;
}

/// An address that belongs to no array.
bool is_nowhere(Value const& value) {
  return isa<ConstantPointerNull>(value) || isa<UndefValue>(value);
}

class collector {
 public:
  explicit collector(CallInst& allocation) { add(allocation); }

  array_uses collect() {
    for (unsigned i = 0; i < found_.addresses.size() && found_.refusal.empty(); ++i) {
      Instruction& address = *found_.addresses[i];
      if (!isa<CallInst>(address)) add_operands(address);
      for (Use& use : address.uses()) add_use(use);
    }
    if (found_.refusal.empty()) check_comparisons();
    if (found_.refusal.empty()) find_width();
    if (found_.refusal.empty()) check_distances();
    return std::move(found_);
  }

 private:
  void refuse(std::string const& reason, Instruction const& at) {
    if (!found_.refusal.empty()) return;
    std::string const place = place_of(at);
    found_.refusal = reason + (place.empty() ? "" : " at " + place);
  }

  void add(Instruction& address) {
    if (!address.getType()->isPointerTy() || address.getType()->getPointerAddressSpace() != 0)
      return refuse("its address is a part of a vector", address);
    if (is_collective_allocation(address)) found_.allocations.insert(&cast<CallInst>(address));
    found_.addresses.insert(&address);
  }

  /// What the address may come from belongs to the group, too.
  void add_operands(Instruction& address) {
    for (Value* const operand : address.operands()) {
      if (!operand->getType()->isPtrOrPtrVectorTy() || is_nowhere(*operand)) continue;
      auto* const origin = dyn_cast<Instruction>(operand);
      bool const is_in_group =
          origin != nullptr && (isa<GetElementPtrInst, PHINode, SelectInst, FreezeInst>(origin) ||
                                is_collective_allocation(*origin));
      if (!is_in_group) return refuse("a variable holds either its address or another", address);
      add(*origin);
    }
  }

  void add_use(Use& use) {
    auto& user = *cast<Instruction>(use.getUser());
    if (user.isDroppable()) {
      found_.droppable.push_back(&use);
    } else if (isa<GetElementPtrInst, PHINode, SelectInst, FreezeInst>(user)) {
      add(user);
    } else if (auto* const load = dyn_cast<LoadInst>(&user)) {
      add_access(*load, load->getType(), load->isAtomic());
    } else if (auto* const store = dyn_cast<StoreInst>(&user)) {
      if (use.getOperandNo() != StoreInst::getPointerOperandIndex())
        return refuse("its address is stored", user);
      add_access(*store, store->getValueOperand()->getType(), store->isAtomic());
    } else if (auto* const comparison = dyn_cast<ICmpInst>(&user)) {
      comparisons_.push_back(comparison);
    } else if (auto* const block = dyn_cast<MemIntrinsic>(&user)) {
      if (block->isVolatile()) return refuse("it is volatile", user);
      found_.blocks.insert(block);
    } else if (auto* const call = dyn_cast<CallInst>(&user)) {
      add_call(*call);
    } else if (isa<ReturnInst>(user)) {
      refuse("its address is returned", user);
    } else if (isa<PtrToIntInst>(user)) {
      refuse("its address is used as a number", user);
    } else {
      refuse("its address is used", user);
    }
  }

  void add_call(CallInst& call) {
    if (is_free(call)) {
      found_.frees.push_back(&call);
      return;
    }
    Function const* const called = call.getCalledFunction();
    std::string const name = called == nullptr ? "a call through a pointer"
                                               : (call.getCalledFunction()->isDeclaration()
                                                      ? name_in_c(called->getName()).str()
                                                      : called->getName().str());
    refuse("its address is an argument of " + name, call);
  }

  void add_access(Instruction& access, Type* type, bool is_atomic) {
    if (is_atomic) return refuse("it is atomic", access);
    found_.accesses.push_back(&access);
    auto const size = access.getDataLayout().getTypeStoreSize(type);
    if (size.isScalable() || !isPowerOf2_64(size) || size.getFixedValue() > 16)
      return refuse("an access has " + std::to_string(size.getKnownMinValue()) + " bytes", access);
    auto const width = static_cast<unsigned>(size.getFixedValue());
    if (found_.width != 0 && found_.width != width)
      return refuse("accesses have " + std::to_string(found_.width) + " and " +
                        std::to_string(width) + " bytes, as",
                    access);
    found_.width = width;
  }

  void check_comparisons() {
    for (ICmpInst* const comparison : comparisons_)
      for (Value* const operand : comparison->operands()) {
        auto* const address = dyn_cast<Instruction>(operand);
        bool const is_known = isa<ConstantPointerNull>(operand) ||
                              (address != nullptr && found_.addresses.contains(address));
        if (!is_known) refuse("its address is compared", *comparison);
      }
  }

  void find_width() {
    if (found_.width == 0) found_.refusal = "no element is read or written";
  }

  void check_distances() {
    for (Instruction* const address : found_.addresses)
      if (auto* const element = dyn_cast<GetElementPtrInst>(address); element != nullptr)
        check_distance(*element);
    for (MemIntrinsic* const block : found_.blocks) check_block(*block);
  }

  [[nodiscard]] bool is_multiple(Value const& value, unsigned known_zeros) const {
    DataLayout const& layout = found_.allocations[0]->getDataLayout();
    return known_zeros + computeKnownBits(&value, layout).countMinTrailingZeros() >=
           Log2_32(found_.width);
  }

  void check_distance(GetElementPtrInst& element) {
    DataLayout const& layout = element.getDataLayout();
    MapVector<Value*, APInt> variable;
    APInt constant{64, 0};
    bool is_known = cast<GEPOperator>(element).collectOffset(layout, 64, variable, constant);
    is_known = is_known && constant.urem(found_.width) == 0;
    for (auto const& [index, scale] : variable)
      is_known = is_known && is_multiple(*index, scale.countr_zero());
    if (!is_known)
      refuse("its elements have " + std::to_string(found_.width) +
                 " bytes, and an address may lie inside one,",
             element);
  }

  void check_block(MemIntrinsic& block) {
    if (!is_multiple(*block.getLength(), 0))
      return refuse("elements are copied or set in part", block);
    auto* const transfer = dyn_cast<MemTransferInst>(&block);
    if (transfer == nullptr) return;
    auto const is_own = [&](Value* address) {
      auto* const instruction = dyn_cast<Instruction>(address);
      return instruction != nullptr && found_.addresses.contains(instruction);
    };
    bool const reads = is_own(transfer->getRawSource());
    bool const writes = is_own(transfer->getRawDest());
    if (reads && writes && isa<MemMoveInst>(block))
      return refuse("elements are moved within it", block);
    Align const other =
        reads ? transfer->getDestAlign().valueOrOne() : transfer->getSourceAlign().valueOrOne();
    if (!(reads && writes) && other < Align{found_.width})
      refuse("elements are copied to or from bytes that are not aligned", block);
  }

  array_uses found_;
  SmallVector<ICmpInst*> comparisons_;
};

}  // namespace

bool is_collective_allocation(Instruction const& instruction) {
  auto const* const call = dyn_cast<CallInst>(&instruction);
  Function const* const called = call == nullptr ? nullptr : call->getCalledFunction();
  return called != nullptr && called->isDeclaration() &&
         (called->getName() == "quarry_c_malloc_collective" ||
          called->getName() == "quarry_c_calloc_collective");
}

array_uses uses_of(CallInst& allocation) { return collector{allocation}.collect(); }

}  // namespace quarry::compiler

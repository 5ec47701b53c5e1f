// SPDX-License-Identifier: Apache-2.0
#include "lane_arrays.hpp"

#include "analysis/call_models.hpp"
#include "array_uses.hpp"
#include "loop_versions.hpp"
#include "unsupported.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>

namespace quarry::compiler {
namespace {

using namespace llvm;

/// Blocks of at most so many elements need no loop.
constexpr std::uint64_t max_unrolled = 8;

/// Changes the code of one group of arrays.
class interleaver {
 public:
  interleaver(Function& function, array_uses& uses, lane_array_calls wanted)
      : function_{function}, uses_{uses}, wanted_{wanted}, context_{function.getContext()} {}

  void run() {
    for (Use* const use : uses_.droppable) Value::dropDroppableUse(*use);
    bool const is_single =
        uses_.allocations.size() == 1 && dominates_all(*uses_.allocations.front());
    for (CallInst* const allocation : uses_.allocations) allocate(*allocation);
    if (is_single) single_ = distances_.begin()->second;
    for (Instruction* const address : uses_.addresses) (void)distance_of(*address);
    for (CallInst* const call : uses_.frees) free(*call);
    for (Instruction* const access : uses_.accesses) align(*access);
    for (MemIntrinsic* const block : uses_.blocks) expand(*block);
    SmallVector<GetElementPtrInst*> elements;
    for (Instruction* const address : uses_.addresses)
      if (auto* const element = dyn_cast<GetElementPtrInst>(address)) elements.push_back(element);
    for (GetElementPtrInst* const element : elements) scale(*element);
    for (auto const& [old, served] : replaced_) {
      old->replaceAllUsesWith(served);
      old->eraseFromParent();
    }
  }

  /// Adds the distances of elements, and those of contiguous arrays.
  void list_distances(usual_values& values) const {
    SmallPtrSet<Value*, 8> listed;
    for (auto const& [address, distance] : distances_)
      if (isa<Instruction>(distance) && listed.insert(distance).second)
        values.emplace_back(distance,
                            ConstantInt::get(IntegerType::get(context_, 64), uses_.width));
  }

 private:
  [[nodiscard]] Type* word() const { return Type::getInt64Ty(context_); }
  [[nodiscard]] Type* half() const { return Type::getInt32Ty(context_); }
  [[nodiscard]] Type* pointer() const { return PointerType::get(context_, 0); }

  FunctionCallee runtime(char const* name, FunctionType* type) {
    std::string const prefix =
        wanted_ == lane_array_calls::checked ? "quarry_mpi_checked_" : "quarry_mpi_";
    return function_.getParent()->getOrInsertFunction(prefix + name, type);
  }

  [[nodiscard]] bool dominates_all(CallInst const& allocation) const {
    DominatorTree const order{function_};
    return std::ranges::all_of(uses_.addresses, [&](Instruction* address) {
      return address == &allocation || order.dominates(&allocation, address);
    });
  }

  void allocate(CallInst& call) {
    IRBuilder<> entry{&*function_.getEntryBlock().getFirstInsertionPt()};
    AllocaInst* const place = entry.CreateAlloca(word(), nullptr, "distance.place");
    IRBuilder<> builder{&call};
    bool const is_clear = call.arg_size() == 2;  // calloc
    Value* const count = is_clear ? call.getArgOperand(0) : builder.getInt64(1);
    Value* const size = call.getArgOperand(is_clear ? 1 : 0);
    auto* const type =
        FunctionType::get(pointer(), {word(), word(), half(), half(), pointer()}, false);
    CallInst* const served = builder.CreateCall(
        runtime("allocate_array", type),
        {builder.CreateZExtOrTrunc(count, word()), builder.CreateZExtOrTrunc(size, word()),
         builder.getInt32(uses_.width), builder.getInt32(is_clear ? 1 : 0), place});
    served->addRetAttr(Attribute::NoAlias);
    served->addParamAttr(4, Attribute::NoCapture);
    served->addParamAttr(4, Attribute::WriteOnly);
    served->setDoesNotThrow();
    served->takeName(&call);
    distances_[&call] = builder.CreateLoad(word(), place, "distance");
    replaced_.emplace_back(&call, served);
  }

  void free(CallInst& call) {
    IRBuilder<> builder{&call};
    auto* const type = FunctionType::get(builder.getVoidTy(), {pointer(), word(), half()}, false);
    Value* const address = call.getArgOperand(0);
    builder
        .CreateCall(runtime("free_array", type),
                    {address, distance_of(*address), builder.getInt32(uses_.width)})
        ->setDoesNotThrow();
    call.eraseFromParent();
  }

  /// The bytes between adjacent elements of the array that `address` is in. If there is one
  /// allocation, before all addresses, then its last result is that of any address.
  Value* distance_of(Value& address) {
    if (!isa<Instruction>(address)) return ConstantInt::get(word(), uses_.width);  // null
    if (single_ != nullptr) return single_;
    if (auto const known = distances_.find(&address); known != distances_.end())
      return known->second;
    if (auto* const join = dyn_cast<PHINode>(&address)) {
      PHINode* const result =
          IRBuilder<>{join}.CreatePHI(word(), join->getNumIncomingValues(), "distance");
      distances_[&address] = result;  // before its operands: they may depend on it
      for (unsigned i = 0; i < join->getNumIncomingValues(); ++i)
        result->addIncoming(distance_of(*join->getIncomingValue(i)), join->getIncomingBlock(i));
      return result;
    }
    if (auto* const choice = dyn_cast<SelectInst>(&address)) {
      Value* const first = distance_of(*choice->getTrueValue());
      Value* const second = distance_of(*choice->getFalseValue());
      return distances_[&address] = IRBuilder<>{choice}.CreateSelect(choice->getCondition(), first,
                                                                     second, "distance");
    }
    Value* const distance = distance_of(*cast<Instruction>(address).getOperand(0));
    return distances_[&address] = distance;
  }

  /// The number of elements that an address moves on.
  Value* elements_of(GetElementPtrInst& element, IRBuilder<>& builder) {
    MapVector<Value*, APInt> variable;
    APInt constant{64, 0};
    cast<GEPOperator>(element).collectOffset(element.getDataLayout(), 64, variable, constant);
    unsigned const shift = Log2_32(uses_.width);
    Value* sum = nullptr;
    for (auto const& [index, scale] : variable) {
      Value* part = builder.CreateSExtOrTrunc(index, word());
      if (scale.countr_zero() >= shift) {
        part = builder.CreateMul(part, builder.getInt(scale.ashr(shift)));
      } else {
        part = builder.CreateAShr(builder.CreateMul(part, builder.getInt(scale)), shift, "", true);
      }
      sum = sum == nullptr ? part : builder.CreateAdd(sum, part);
    }
    Constant* const rest = builder.getInt(constant.ashr(shift));
    if (sum == nullptr) return rest;
    return rest->isNullValue() ? sum : builder.CreateAdd(sum, rest);
  }

  void scale(GetElementPtrInst& element) {
    IRBuilder<> builder{&element};
    bool const is_inside = element.isInBounds();
    Value* const distance = distance_of(element);
    Value* const bytes =
        builder.CreateMul(elements_of(element, builder), distance, "", false, is_inside);
    Value* const address =
        is_inside
            ? builder.CreateInBoundsGEP(builder.getInt8Ty(), element.getPointerOperand(), bytes)
            : builder.CreateGEP(builder.getInt8Ty(), element.getPointerOperand(), bytes);
    address->takeName(&element);
    element.replaceAllUsesWith(address);
    element.eraseFromParent();
  }

  /// An element has no larger alignment than its width.
  void align(Instruction& access) {
    Align const most{uses_.width};
    if (auto* const load = dyn_cast<LoadInst>(&access)) {
      load->setAlignment(std::min(load->getAlign(), most));
    } else {
      auto& store = cast<StoreInst>(access);
      store.setAlignment(std::min(store.getAlign(), most));
    }
  }

  [[nodiscard]] bool is_own(Value* address) const {
    auto* const instruction = dyn_cast<Instruction>(address);
    return instruction != nullptr && uses_.addresses.contains(instruction);
  }

  /// Element `index` of a block that begins at `start`, by the distance of elements.
  Value* place(IRBuilder<>& builder, Value* start, Value* distance, Value* index) {
    return builder.CreateGEP(builder.getInt8Ty(), start, builder.CreateMul(index, distance));
  }

  /// Makes loads and stores of elements out of a memory intrinsic.
  void expand(MemIntrinsic& block) {
    IRBuilder<> builder{&block};
    Value* const count = builder.CreateLShr(builder.CreateZExtOrTrunc(block.getLength(), word()),
                                            Log2_32(uses_.width), "", true);
    Value* const to = block.getRawDest();
    auto* const transfer = dyn_cast<MemTransferInst>(&block);
    Value* const from = transfer == nullptr ? nullptr : transfer->getRawSource();
    Value* const plain = builder.getInt64(uses_.width);
    Value* const to_distance = is_own(to) ? distance_of(*to) : plain;
    Value* const from_distance = from != nullptr && is_own(from) ? distance_of(*from) : plain;
    Type* const type = builder.getIntNTy(uses_.width * 8);
    Value* filler = nullptr;
    if (auto* const set = dyn_cast<MemSetInst>(&block)) {
      filler = builder.CreateMul(
          builder.CreateZExt(set->getValue(), type),
          ConstantInt::get(context_, APInt::getSplat(uses_.width * 8, APInt{8, 1})));
    }
    auto const copy_one = [&](IRBuilder<>& at, Value* index) {
      Value* value = filler;
      if (value == nullptr)
        value =
            at.CreateAlignedLoad(type, place(at, from, from_distance, index), Align{uses_.width});
      at.CreateAlignedStore(value, place(at, to, to_distance, index), Align{uses_.width});
    };
    auto* const known = dyn_cast<ConstantInt>(count);
    if (known != nullptr && known->getZExtValue() <= max_unrolled) {
      for (std::uint64_t i = 0; i < known->getZExtValue(); ++i)
        copy_one(builder, builder.getInt64(i));
    } else {
      Instruction* const some = SplitBlockAndInsertIfThen(
          builder.CreateICmpNE(count, builder.getInt64(0)), &block, false);
      auto const [body, index] = SplitBlockAndInsertSimpleForLoop(count, some);
      IRBuilder<> inside{body};
      copy_one(inside, index);
    }
    block.eraseFromParent();
  }

  Function& function_;
  array_uses& uses_;
  lane_array_calls wanted_;
  LLVMContext& context_;
  MapVector<Value*, Value*> distances_;  // by address
  Value* single_ = nullptr;              // the distance of all addresses
  SmallVector<std::pair<CallInst*, CallInst*>> replaced_;
};

}  // namespace

std::vector<lane_array_site> interleave_arrays(Module& module, lane_array_calls wanted) {
  std::vector<lane_array_site> sites;
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    removeUnreachableBlocks(function);  // an address there may depend on itself
    SetVector<CallInst*> allocations;
    for (Instruction& instruction : instructions(function))
      if (is_collective_allocation(instruction)) allocations.insert(&cast<CallInst>(instruction));
    usual_values distances;
    while (!allocations.empty()) {
      array_uses uses = uses_of(*allocations.front());
      for (CallInst* const each : uses.allocations) {
        lane_array_site site{place_of(*each), each->arg_size() == 2 ? "calloc" : "malloc", 0,
                             uses.refusal};
        if (site.refusal.empty()) site.width = uses.width;
        sites.push_back(std::move(site));
        allocations.remove(each);
      }
      if (!uses.refusal.empty()) continue;
      interleaver change{function, uses, wanted};
      change.run();
      change.list_distances(distances);
    }
    if (!distances.empty()) add_loop_versions(function, distances);
  }
  std::ranges::sort(sites, {}, [](auto const& site) { return std::tie(site.place, site.refusal); });
  return sites;
}

std::string text_of(std::vector<lane_array_site> const& sites) {
  std::string text;
  for (lane_array_site const& site : sites)
    text += site.call + " at " + site.place + ": " +
            (site.width != 0 ? "interleaved, elements of " + std::to_string(site.width) +
                                   (site.width == 1 ? " byte" : " bytes")
                             : "contiguous: " + site.refusal) +
            '\n';
  return text;
}

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
#include "privatize.hpp"

#include "record_layout.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/ReplaceConstant.h>

namespace quarry::compiler {
namespace {

using namespace llvm;

constexpr char const* record_name = "quarry_mpi_rank_record";

/// Whether the constant holds the address of a member of `variables`.
bool refers_to(Constant const* constant, SetVector<GlobalVariable*> const& variables) {
  if (auto const* variable = dyn_cast<GlobalVariable>(constant))
    return variables.contains(const_cast<GlobalVariable*>(variable));
  if (isa<GlobalValue>(constant)) return false;
  return any_of(constant->operands(), [&](Use const& operand) {
    auto const* const part = dyn_cast<Constant>(operand.get());
    return part != nullptr && refers_to(part, variables);
  });
}

/// Adds the variables that the constant holds addresses of.
void add_references(Constant const* constant, SetVector<GlobalVariable*>& found) {
  if (auto const* variable = dyn_cast<GlobalVariable>(constant)) {
    found.insert(const_cast<GlobalVariable*>(variable));
  } else if (!isa<GlobalValue>(constant)) {
    for (Use const& operand : constant->operands())
      if (auto const* part = dyn_cast<Constant>(operand.get())) add_references(part, found);
  }
}

/// Whether the initial value leads back to the variable, as in a ring of constant structures. PTX
/// has no forward references, so that such constants become fields, too.
bool is_in_ring(GlobalVariable* variable) {
  SetVector<GlobalVariable*> reached;
  add_references(variable->getInitializer(), reached);
  for (std::size_t i = 0; i < reached.size() && !reached.contains(variable); ++i)
    if (reached[i]->hasInitializer()) add_references(reached[i]->getInitializer(), reached);
  return reached.contains(variable);
}

/// The variables of which each rank needs a copy.
SetVector<GlobalVariable*> find_variables(Module& module) {
  SetVector<GlobalVariable*> found;
  for (GlobalVariable& variable : module.globals()) {
    bool const is_program_data =
        variable.hasInitializer() && !variable.getName().starts_with("llvm.");
    if (is_program_data && (!variable.isConstant() || is_in_ring(&variable)))
      found.insert(&variable);
  }
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (GlobalVariable& variable : module.globals()) {
      if (variable.hasInitializer() && !variable.getName().starts_with("llvm.") &&
          !found.contains(&variable) && refers_to(variable.getInitializer(), found))
        is_changed |= found.insert(&variable);
    }
  }
  return found;
}

/// The places of the fields in the record.
class record_layout {
 public:
  record_layout(Module& module, SetVector<GlobalVariable*> const& variables) {
    DataLayout const& sizes = module.getDataLayout();
    for (GlobalVariable* variable : variables) {
      Align const alignment = std::max(sizes.getPrefTypeAlign(variable->getValueType()),
                                       variable->getAlign().valueOrOne());
      bytes_ = alignTo(bytes_, alignment);
      offsets_[variable] = bytes_;
      bytes_ += sizes.getTypeAllocSize(variable->getValueType());
      largest_ = std::max(largest_, alignment);
    }
    bytes_ = alignTo(bytes_, std::max(largest_, Align{16}));
  }

  std::uint64_t offset_of(GlobalVariable* variable) const { return offsets_.lookup(variable); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  MapVector<GlobalVariable*, std::uint64_t> offsets_;
  std::uint64_t bytes_ = record_header_bytes;
  Align largest_{1};
};

/// Writes initial values of variables to a record.
class initializer {
 public:
  initializer(IRBuilder<>& builder, Value* record, record_layout const& layout,
              SetVector<GlobalVariable*> const& variables)
      : builder_{builder}, record_{record}, layout_{layout}, variables_{variables} {}

  void write(GlobalVariable* variable) {
    Constant* const value = variable->getInitializer();
    std::uint64_t const offset = layout_.offset_of(variable);
    if (value->isNullValue() || isa<UndefValue>(value)) return;  // records are zero at first
    if (!refers_to(value, variables_)) return copy(variable, value, offset);
    write_parts(value, offset);
  }

 private:
  DataLayout const& sizes() const {
    return builder_.GetInsertBlock()->getModule()->getDataLayout();
  }
  Value* at(std::uint64_t offset) {
    return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), record_, offset);
  }

  void copy(GlobalVariable* variable, Constant* value, std::uint64_t offset) {
    auto* const image =
        new GlobalVariable(*builder_.GetInsertBlock()->getModule(), value->getType(), true,
                           GlobalValue::PrivateLinkage, value, variable->getName() + ".initial");
    image->setAlignment(variable->getAlign());
    builder_.CreateMemCpy(at(offset), MaybeAlign{}, image, MaybeAlign{},
                          sizes().getTypeAllocSize(value->getType()));
  }

  void write_parts(Constant* value, std::uint64_t offset) {
    if (value->isNullValue() || isa<UndefValue>(value)) return;
    if (auto* const type = dyn_cast<StructType>(value->getType())) {
      for (unsigned i = 0; i < type->getNumElements(); ++i)
        write_parts(value->getAggregateElement(i),
                    offset + sizes().getStructLayout(type)->getElementOffset(i));
    } else if (auto* const array = dyn_cast<ArrayType>(value->getType())) {
      std::uint64_t const step = sizes().getTypeAllocSize(array->getElementType());
      for (std::uint64_t i = 0; i < array->getNumElements(); ++i)
        write_parts(value->getAggregateElement(static_cast<unsigned>(i)), offset + i * step);
    } else {
      builder_.CreateAlignedStore(value, at(offset), MaybeAlign{1});
    }
  }

  IRBuilder<>& builder_;
  Value* record_;
  record_layout const& layout_;
  SetVector<GlobalVariable*> const& variables_;
};

/// Replaces each use of `variable` in a function by the address of the field.
void replace_uses(GlobalVariable* variable, std::uint64_t offset, target machine) {
  MapVector<Function*, Value*> addresses;
  for (Use& use : make_early_inc_range(variable->uses())) {
    auto* const user = dyn_cast<Instruction>(use.getUser());
    if (user == nullptr) continue;  // an initial value of another field
    Function* const function = user->getFunction();
    Value*& address = addresses[function];
    if (address == nullptr) {
      Value* const record = record_of_rank(*function, machine);
      IRBuilder<> builder{cast<Instruction>(record)->getNextNode()};
      address =
          builder.CreateConstGEP1_64(builder.getInt8Ty(), record, offset, variable->getName());
    }
    use.set(address);
  }
}

Value* gpu_record(IRBuilder<>& builder, Module& module) {
  // mpi::launch_layout: the first three fields, and the size of the rest
  Type* const word = builder.getInt64Ty();
  auto* const layout_type = StructType::get(builder.getPtrTy(), word, builder.getInt32Ty(),
                                            builder.getInt32Ty(), ArrayType::get(word, 8));
  auto* layout = module.getNamedGlobal("quarry_mpi_layout");
  if (layout == nullptr) {
    constexpr unsigned constant_space = 4;
    layout = new GlobalVariable(module, layout_type, false, GlobalValue::ExternalLinkage, nullptr,
                                "quarry_mpi_layout", nullptr, GlobalValue::NotThreadLocal,
                                constant_space, true);
  }
  auto const read = [&](Intrinsic::ID id) { return builder.CreateIntrinsic(id, {}, {}); };
  Value* const block = builder.CreateMul(read(Intrinsic::nvvm_read_ptx_sreg_ctaid_x),
                                         read(Intrinsic::nvvm_read_ptx_sreg_ntid_x));
  Value* const thread = builder.CreateAdd(block, read(Intrinsic::nvvm_read_ptx_sreg_tid_x));
  auto const field = [&](unsigned index, Type* type) {
    auto* const loaded =
        builder.CreateLoad(type, builder.CreateStructGEP(layout_type, layout, index));
    loaded->setMetadata(LLVMContext::MD_invariant_load, MDNode::get(module.getContext(), {}));
    return loaded;
  };
  Value* const rank = builder.CreateLShr(thread, field(2, builder.getInt32Ty()));
  Value* const offset = builder.CreateMul(builder.CreateZExt(rank, builder.getInt64Ty()),
                                          field(1, builder.getInt64Ty()));
  return builder.CreateGEP(builder.getInt8Ty(), field(0, builder.getPtrTy()), offset, record_name);
}

Value* cpu_record(IRBuilder<>& builder, Module& module) {
  auto callee =
      module.getOrInsertFunction("quarry_mpi_record", FunctionType::get(builder.getPtrTy(), false));
  auto* const function = cast<Function>(callee.getCallee());
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();  // the same address in every call by one rank
  function->setWillReturn();
  return builder.CreateCall(callee, {}, record_name);
}

}  // namespace

Value* record_of_rank(Function& function, target machine) {
  for (Instruction& instruction : function.getEntryBlock())
    if (instruction.getName().starts_with(record_name)) return &instruction;
  IRBuilder<> builder{&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca()};
  Module& module = *function.getParent();
  return machine == target::gpu ? gpu_record(builder, module) : cpu_record(builder, module);
}

void privatize_globals(Module& module, target machine) {
  auto const variables = find_variables(module);
  record_layout const layout{module, variables};
  LLVMContext& context = module.getContext();

  auto* const record_type = PointerType::get(context, 0);
  auto* const init =
      Function::Create(FunctionType::get(Type::getVoidTy(context), {record_type}, false),
                       GlobalValue::ExternalLinkage, "quarry_mpi_init_record", module);
  IRBuilder<> builder{BasicBlock::Create(context, "", init)};
  initializer writer{builder, init->getArg(0), layout, variables};
  for (GlobalVariable* variable : variables) writer.write(variable);
  builder.CreateRetVoid();

  SmallVector<Constant*> constants{variables.begin(), variables.end()};
  convertUsersOfConstantsToInstructions(constants);
  // In the initial values of this function the record is the argument, not the calling rank's.
  for (GlobalVariable* variable : variables) {
    IRBuilder<> entry{&*init->getEntryBlock().begin()};
    Value* address = nullptr;
    for (Use& use : make_early_inc_range(variable->uses())) {
      auto* const user = dyn_cast<Instruction>(use.getUser());
      if (user == nullptr || user->getFunction() != init) continue;
      if (address == nullptr)
        address = entry.CreateConstGEP1_64(entry.getInt8Ty(), init->getArg(0),
                                           layout.offset_of(variable));
      use.set(address);
    }
  }
  for (GlobalVariable* variable : variables)
    replace_uses(variable, layout.offset_of(variable), machine);
  for (GlobalVariable* variable : variables) variable->setInitializer(nullptr);
  for (GlobalVariable* variable : variables) {
    variable->removeDeadConstantUsers();
    variable->replaceAllUsesWith(PoisonValue::get(variable->getType()));
    variable->eraseFromParent();
  }
  new GlobalVariable(module, builder.getInt64Ty(), true, GlobalValue::ExternalLinkage,
                     builder.getInt64(layout.bytes()), "quarry_mpi_record_bytes");
}

}  // namespace quarry::compiler

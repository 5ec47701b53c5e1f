// SPDX-License-Identifier: Apache-2.0
#include "specialise.hpp"

#include "call_models.hpp"
#include "model_program.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <map>

namespace quarry::compiler {

namespace {

using namespace llvm;

/// The contexts of a function: what follows each of its calls.
struct context {
  std::map<std::uint32_t, context> calls;  // by the number of the call in this function
  int site = -1;                           // this call is the allocation sites[site]
};

std::map<std::uint32_t, CallBase*> numbered_calls(Function& function) {
  std::map<std::uint32_t, CallBase*> calls;
  for (Instruction& instruction : instructions(function))
    if (auto* const call = dyn_cast<CallBase>(&instruction))
      if (auto const path = path_of(*call); path.size() == 1) calls[path[0]] = call;
  return calls;
}

class specialiser {
 public:
  specialiser(Module& program, std::vector<allocation_site> const& sites, allocation_calls wanted)
      : program_{program}, sites_{sites}, wanted_{wanted} {}

  void run() {
    std::map<std::uint32_t, Function*> owners;
    for (Function& function : program_)
      for (auto const& [number, call] : numbered_calls(function)) owners[number] = &function;
    std::map<Function*, context> roots;
    for (std::size_t i = 0; i < sites_.size(); ++i) {
      context* position = &roots[owners.at(sites_[i].path[0])];
      for (std::uint32_t const number : sites_[i].path) position = &position->calls[number];
      if (position->site < 0) position->site = static_cast<int>(i);  // merged sites are one call
    }
    // Copies are made of functions as they are: all of them before any root changes.
    std::vector<std::pair<CallBase*, Function*>> redirected;
    std::vector<std::pair<CallBase*, int>> served;
    for (auto const& [root, calls] : roots) plan(*root, calls, redirected, served);
    for (auto const& [call, copy] : redirected) call->setCalledFunction(copy);
    for (auto const& [call, site] : served) serve(*call, site);
  }

 private:
  /// What distinguishes a context from one in which no call has a class; empty if nothing does.
  std::string signature(context const& at) const {
    std::string text;
    if (at.site >= 0 && wanted_ == allocation_calls::recorded) return std::to_string(at.site);
    if (at.site >= 0 && wanted_ == allocation_calls::preceded_by_meetings)
      return sites_[at.site].is_sync_safe ? "m" : "";
    if (at.site >= 0) return sites_[at.site].kind == allocation_class::uniform ? "u" : "";
    for (auto const& [number, next] : at.calls) {
      std::string const part = signature(next);
      if (!part.empty()) text += std::to_string(number) + '(' + part + ')';
    }
    return text;
  }

  /// Collects what the calls of `function` become in a context. Makes the copies that it needs.
  void plan(Function& function, context const& at,
            std::vector<std::pair<CallBase*, Function*>>& redirected,
            std::vector<std::pair<CallBase*, int>>& served) {
    auto const calls = numbered_calls(function);
    for (auto const& [number, next] : at.calls) {
      auto const found = calls.find(number);
      if (found == calls.end() || signature(next).empty()) continue;
      if (next.site >= 0) {
        served.emplace_back(found->second, next.site);
      } else if (Function* const called = found->second->getCalledFunction()) {
        Function* const copy = copy_for(*called, next);
        if (copy != nullptr) redirected.emplace_back(found->second, copy);
      }
    }
  }

  /// The copy of a function for a context; null if there are too many.
  Function* copy_for(Function& original, context const& at) {
    auto& copies = copies_[&original];
    auto const [position, is_new] = copies.try_emplace(signature(at), nullptr);
    if (!is_new) return position->second;
    if (copies.size() > max_copies && wanted_ != allocation_calls::recorded) return nullptr;
    ValueToValueMapTy values;
    Function* const copy = CloneFunction(&original, values);
    copy->setName(original.getName() + ".collective");
    copy->setLinkage(GlobalValue::InternalLinkage);
    copies[signature(at)] = copy;
    std::vector<std::pair<CallBase*, Function*>> redirected;
    std::vector<std::pair<CallBase*, int>> served;
    plan(*copy, at, redirected, served);
    for (auto const& [call, target] : redirected) call->setCalledFunction(target);
    for (auto const& [call, site] : served) serve(*call, site);
    return copy;
  }

  void serve(CallBase& call, int site) {
    // The model may know which function a pointer of the program leads to.
    if (call.getCalledFunction() == nullptr) return;
    if (wanted_ == allocation_calls::recorded) return record(call, site);
    if (wanted_ == allocation_calls::preceded_by_meetings) return meet_before(call);
    Function const* const called = call.getCalledFunction();
    StringRef const name = name_in_c(called->getName());
    if (name != "malloc" && name != "calloc") return;
    call.setCalledFunction(program_.getOrInsertFunction(("quarry_c_" + name + "_collective").str(),
                                                        called->getFunctionType()));
  }

  void meet_before(CallBase& call) {
    IRBuilder<> builder{&call};
    builder.CreateCall(
        program_.getOrInsertFunction("quarry_mpi_meet_before_allocation", builder.getVoidTy()));
  }

  void record(CallBase& call, int site) {
    auto const* const model = allocation_of(name_in_c(call.getCalledFunction()->getName()));
    IRBuilder<> builder{&call};
    Type* const word = builder.getInt64Ty();
    Value* size = nullptr;
    if (model->copies_text) {
      auto const length = program_.getOrInsertFunction("strlen", word, builder.getPtrTy());
      size = builder.CreateCall(length, {call.getArgOperand(0)});
    } else {
      size = builder.CreateZExtOrTrunc(call.getArgOperand(model->size), word);
    }
    if (model->count >= 0 && !model->copies_text)
      size = builder.CreateMul(size,
                               builder.CreateZExtOrTrunc(call.getArgOperand(model->count), word));
    auto const recorder = program_.getOrInsertFunction(
        "quarry_mpi_record_allocation", builder.getVoidTy(), builder.getInt32Ty(), word);
    builder.CreateCall(recorder, {builder.getInt32(static_cast<std::uint32_t>(site)), size});
  }

  Module& program_;
  std::vector<allocation_site> const& sites_;
  allocation_calls wanted_;
  std::map<Function*, std::map<std::string, Function*>> copies_;
};

}  // namespace

void specialise(Module& program, std::vector<allocation_site> const& sites,
                allocation_calls wanted) {
  specialiser{program, sites, wanted}.run();
}

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
#include "trace_calls.hpp"

#include "analysis/call_models.hpp"
#include "pointed_functions.hpp"
#include "traced_calls.hpp"
#include "unsupported.hpp"

#include "mpi/trace_roles.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>

#include <map>

namespace quarry::compiler {

using namespace llvm;
using role = mpi::trace_role;

namespace {

constexpr traced_call other_call{"", tracing::call};
constexpr int no_peer = -2;  // MPI_PROC_NULL
constexpr int world = 1;     // MPI_COMM_WORLD

role trace_role_of(tracing kind) {
  switch (kind) {
    case tracing::send:
      return role::send;
    case tracing::receive:
      return role::receive;
    case tracing::wait:
    case tracing::test:
      return role::wait;
    case tracing::probe:
      return role::probe;
    case tracing::collective:
      return role::collective;
    case tracing::begun_send:
    case tracing::sends_later:
      return role::begun_send;
    case tracing::begun_receive:
    case tracing::receives_later:
      return role::begun_receive;
    case tracing::begun_collective:
    case tracing::collective_later:
      return role::begun_collective;
    default:
      return role::call;
  }
}

bool makes_request(tracing kind) { return kind >= tracing::begun_send && kind < tracing::start; }

/// Emits the calls around one call.
class around {
 public:
  around(CallBase& call, std::uint32_t function, std::uint32_t place)
      : call_{call},
        before_{&call},
        after_{call.getNextNode()},
        word_{before_.getInt32Ty()},
        function_{function},
        place_{place} {
    after_.SetCurrentDebugLocation(call.getDebugLoc());
  }

  void trace(traced_call const& row) {
    switch (row.kind) {
      case tracing::wait:
      case tracing::test:
        return trace_wait(row);
      case tracing::sendrecv:
        return trace_sendrecv(row);
      case tracing::begun_sendrecv:
        return trace_begun_sendrecv(row);
      case tracing::start:
        return trace_start(row);
      case tracing::request_end:
        emit(before_, "forget", nullptr, {pointer(row.request)});
        break;
      default:
        break;
    }
    Value* const record = begin(trace_role_of(row.kind), row, row.peer, row.tag);
    if (makes_request(row.kind)) {
      bool const is_persistent = row.kind >= tracing::sends_later;
      emit(after_, "end_begun", nullptr,
           {record, communicator(row), pointer(row.request), number(is_persistent ? 1 : 0),
            error()});
    } else if (row.kind == tracing::receive || row.kind == tracing::probe) {
      Value* const status = known_status(row.status, number(1));
      emit(after_, "end_receive", nullptr,
           {record, communicator(row), pointer(row.done), status, error()});
    } else if (row.kind == tracing::send || row.kind == tracing::collective) {
      emit(after_, "end_send", nullptr, {record, error()});
    } else {
      emit(after_, "end", nullptr, {record});
    }
  }

  void trace(traced_allocation const& row) {
    bool const is_free = row.size < 0 && row.old >= 0;
    Type* const size = before_.getInt64Ty();
    auto const word_of = [&](int argument, std::uint64_t otherwise) -> Value* {
      if (argument < 0) return ConstantInt::get(size, otherwise);
      return before_.CreateZExtOrTrunc(operand(argument), size);
    };
    Value* const record = emit(before_, "begin_memory", word_,
                               {number_of(is_free ? role::free : role::allocate), number(place_),
                                word_of(row.size, 0), word_of(row.count, 1), pointer(row.old)});
    Value* result = ConstantPointerNull::get(before_.getPtrTy());
    if (row.result >= 0)  // the call returns an error
      result =
          after_.CreateSelect(after_.CreateIsNull(&call_),
                              after_.CreateLoad(after_.getPtrTy(), pointer(row.result)), result);
    else if (call_.getType()->isPointerTy())
      result = &call_;
    emit(after_, "end_memory", nullptr, {record, result});
  }

 private:
  [[nodiscard]] Value* operand(int argument) const {
    return call_.getArgOperand(static_cast<unsigned>(argument));
  }

  CallInst* emit(IRBuilder<>& builder, char const* name, Type* result, ArrayRef<Value*> arguments) {
    SmallVector<Type*> types;
    for (Value* const each : arguments) types.push_back(each->getType());
    auto* const type =
        FunctionType::get(result == nullptr ? builder.getVoidTy() : result, types, false);
    FunctionCallee const callee =
        call_.getModule()->getOrInsertFunction(std::string{"quarry_mpi_trace_"} + name, type);
    return builder.CreateCall(callee, arguments);
  }

  Value* number(std::uint32_t value) { return before_.getInt32(value); }
  Value* number_of(role which) {
    return number(static_cast<std::uint32_t>(which) << 16 | function_);
  }

  /// The argument as an int, or `otherwise` if there is none.
  Value* integer(int argument, int otherwise) {
    bool const exists = argument >= 0 && static_cast<unsigned>(argument) < call_.arg_size() &&
                        operand(argument)->getType()->isIntegerTy();
    if (!exists) return number(static_cast<std::uint32_t>(otherwise));
    return before_.CreateSExtOrTrunc(operand(argument), word_);
  }

  /// What the call has returned.
  Value* error() {
    if (!call_.getType()->isIntegerTy()) return number(0);
    return after_.CreateSExtOrTrunc(&call_, word_);
  }

  Value* pointer(int argument) {
    bool const exists = argument >= 0 && static_cast<unsigned>(argument) < call_.arg_size() &&
                        operand(argument)->getType()->isPointerTy();
    return exists ? operand(argument) : ConstantPointerNull::get(before_.getPtrTy());
  }

  Value* communicator(traced_call const& row) {
    return row.communicator == traced_call::world ? number(world) : integer(row.communicator, 0);
  }

  Value* begin(role which, traced_call const& row, int peer, int tag) {
    return emit(before_, "begin", word_,
                {number_of(which), number(place_), integer(row.count, 0), integer(row.type, 0),
                 integer(peer, no_peer), integer(tag, 0), communicator(row)});
  }

  /// Lets the call write its status, which the program may ignore, where the trace can read it.
  Value* known_status(int argument, Value* count) {
    if (argument < 0 || static_cast<unsigned>(argument) >= call_.arg_size()) return pointer(-1);
    Value* const known = emit(before_, "statuses", before_.getPtrTy(), {pointer(argument), count});
    call_.setArgOperand(static_cast<unsigned>(argument), known);
    return known;
  }

  void trace_wait(traced_call const& row) {
    Value* const count = integer(row.count, 1);
    Value* const status = known_status(row.status, count);
    Value* const record =
        emit(before_, "begin_wait", word_,
             {number_of(role::wait), number(place_), count, pointer(row.request)});
    emit(after_, "end_wait", nullptr,
         {record, count, pointer(row.request), pointer(row.done), pointer(row.indices), status});
  }

  void trace_sendrecv(traced_call const& row) {
    Value* const sent = begin(role::send_part, row, row.peer, row.tag);
    Value* const status = known_status(row.status, number(1));
    Value* const arrival = begin(role::receive, row, row.received_peer, row.received_tag);
    emit(after_, "end_send", nullptr, {sent, error()});
    emit(after_, "end_receive", nullptr,
         {arrival, communicator(row), pointer(-1), status, error()});
  }

  /// The request stands for the receive.
  void trace_begun_sendrecv(traced_call const& row) {
    Value* const sent = begin(role::send_part, row, row.peer, row.tag);
    Value* const arrival = begin(role::begun_receive, row, row.received_peer, row.received_tag);
    emit(after_, "end_send", nullptr, {sent, error()});
    emit(after_, "end_begun", nullptr,
         {arrival, communicator(row), pointer(row.request), number(0), error()});
  }

  void trace_start(traced_call const& row) {
    Value* const count = integer(row.count, 1);
    Value* const record = begin(role::call, other_call, -1, -1);
    emit(after_, "end_start", nullptr, {record, count, pointer(row.request), error()});
  }

  CallBase& call_;
  IRBuilder<> before_;
  IRBuilder<> after_;
  Type* word_;
  std::uint32_t function_;
  std::uint32_t place_;
};

traced_call const* row_of(StringRef name) {
  name = without_large_counts(name);
  for (char const* const each : untraced_calls)
    if (name == each) return nullptr;
  for (traced_call const& row : traced_calls)
    if (name == row.name) return &row;
  return name.starts_with("MPI_") ? &other_call : nullptr;
}

traced_allocation const* traced_allocation_of(StringRef name) {
  if (!name.consume_front("quarry_c_")) return nullptr;
  for (traced_allocation const& row : traced_allocations)
    if (name == row.name) return &row;
  return nullptr;
}

bool is_traced(Function const& function) {
  return row_of(function.getName()) != nullptr ||
         traced_allocation_of(function.getName()) != nullptr;
}

/// The name that the program's source has.
std::string source_name(StringRef name) {
  name.consume_front("quarry_c_");
  name.consume_back("_collective");
  return name.str();
}

}  // namespace

std::vector<std::string> trace_calls(Module& module, std::vector<std::string>& places) {
  call_through_functions(module, is_traced);
  std::vector<std::string> names{""};
  std::map<std::string, std::uint32_t> functions;
  std::map<std::string, std::uint32_t> numbers;
  for (std::size_t i = 0; i < places.size(); ++i) numbers.emplace(places[i], i);
  SmallVector<CallInst*> calls;
  for (Function& function : module)
    for (Instruction& instruction : instructions(function))
      if (auto* const call = dyn_cast<CallInst>(&instruction))
        if (Function const* const called = call->getCalledFunction())
          if (called->isDeclaration()) calls.push_back(call);
  for (CallInst* const call : calls) {
    StringRef const name = call->getCalledFunction()->getName();
    traced_call const* const row = row_of(name);
    traced_allocation const* const memory = row == nullptr ? traced_allocation_of(name) : nullptr;
    if (row == nullptr && memory == nullptr) continue;
    auto const place = numbers.try_emplace(place_of(*call), places.size());
    if (place.second) places.push_back(place.first->first);
    auto const function = functions.try_emplace(source_name(name), names.size());
    if (function.second) names.push_back(function.first->first);
    around one{*call, function.first->second, place.first->second};
    if (row != nullptr) {
      one.trace(*row);
    } else {
      one.trace(*memory);
    }
  }
  return names;
}

}  // namespace quarry::compiler

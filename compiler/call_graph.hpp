// SPDX-License-Identifier: Apache-2.0
// The call graph of a program on a GPU, and the stack that a rank needs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace quarry::compiler {

/// What the machine code in a cubin says of its functions, the program's and the runtime's.
struct call_graph {
  struct function {
    std::uint64_t frame = 0;  // bytes of stack
    std::set<std::string> called;
    bool calls_pointers = false;
  };
  std::map<std::string, function> functions;
};

/// Reads the sections `.nv.info` and `.nv.callgraph`. Returns an empty graph if they are missing or
/// have another form.
call_graph read_call_graph(std::string const& cubin);

/// The stack that a function and all that it calls need.
struct stack_need {
  std::uint64_t bytes = 0;          // each recursive function counted once
  std::vector<std::string> path;    // the functions on the deepest path
  std::set<std::string> recursive;  // functions that can call themselves
  bool calls_pointers = false;      // some of the calls are through pointers

  /// Whether the stack may grow beyond `bytes`: functions recur, or a pointer may reach a function
  /// whose type is not that of the call.
  [[nodiscard]] bool is_open() const { return calls_pointers || !recursive.empty(); }
};

/// Which functions calls through pointers can reach.
struct pointer_targets {
  std::map<std::string, std::set<std::string>> by_caller;  // of the program
  std::set<std::string> all;                               // what the runtime can reach
};

/// The stack that `start` needs.
stack_need find_stack_need(call_graph const& graph, std::string const& start,
                           pointer_targets const& targets);

}  // namespace quarry::compiler

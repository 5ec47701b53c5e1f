// SPDX-License-Identifier: Apache-2.0
// What a program uses and ranks cannot have, with every place.
#pragma once

#include <llvm/IR/Module.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace quarry::compiler {

/// One thing that is not supported.
struct unsupported {
  std::string reason;
  std::set<std::pair<std::string, unsigned>> places;  // file and line
};

/// By name.
using unsupported_list = std::map<std::string, unsupported>;

/// Adds `place`, which is file:line or empty, to the thing `name`.
void add_place(unsupported_list& list, std::string const& name, std::string const& reason,
               std::string const& place);

/// Adds all places where `value` is used by instructions, also through constants.
void add_uses(unsupported_list& list, std::string const& name, std::string const& reason,
              llvm::Value const& value);

/// Adds each piece of inline assembly. An empty text is allowed: it only orders the compiler.
void find_inline_assembly(llvm::Module const& module, unsupported_list& list);
/// Finds calls of malloc for which Clang saw no declaration, before calls are renamed: half of each
/// address would be lost. Other functions of the C library that are not declared have their types.
/// Scripts that look for functions declare malloc as a function that returns a char.
void find_undeclared_malloc(llvm::Module const& module, unsupported_list& list);

/// Why ranks cannot call the undefined function or use the undefined variable `name`.
std::string reason_for(std::string const& name);

/// The list as error messages, in the form of Clang's, and a last line that counts them.
std::string text_of(unsupported_list const& list);

/// The place in the source that the instruction comes from, or an empty string.
std::string place_of(llvm::Instruction const& instruction);
std::string place_of(llvm::DILocation const* location);

/// Reads bitcode. Throws a failure that has `name` if the bitcode is damaged.
std::unique_ptr<llvm::Module> parse_module(std::string const& bitcode, std::string const& name,
                                           llvm::LLVMContext& context);

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
// Objects and libraries that quarry-mpicc makes: ELF files with LLVM's bitcode for both machines.
#pragma once

#include "process.hpp"

#include <optional>
#include <string>
#include <vector>

namespace quarry::compiler {

/// The bitcode of one source file.
struct compiled {
  std::string name;      // the file that holds it, for messages
  std::string gpu, cpu;  // `gpu` is empty after --cpu-only
};

/// A static library: its members in order.
struct library {
  std::string name;
  std::vector<compiled> members;
  std::vector<std::string> foreign;  // members that other compilers made
};

/// The contents of a file. Throws a failure if the file cannot be read.
std::string read_file(std::string const& path);

/// A command that writes an object to `path` from files of bitcode. `assembly` is a file for
/// temporary use. `gpu` can be empty.
command object_command(std::string const& clang, std::string const& gpu, std::string const& cpu,
                       std::string const& assembly, std::string const& path);

/// Reads an object or a static library, whatever its name is. Throws a failure if the file is an
/// object by another compiler, or neither.
struct binary {
  std::optional<compiled> object;
  std::optional<library> archive;
};
binary read_binary(std::string const& path);

}  // namespace quarry::compiler

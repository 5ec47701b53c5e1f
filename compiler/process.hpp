// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quarry::compiler {

/// A program to run with its arguments. Its output goes to the file `log`, or, if that is empty, to
/// the terminal.
struct command {
  std::vector<std::string> words;
  std::string log;
};

/// The command as a line that a shell accepts.
std::string text_of(command const& command);

/// Runs the commands, as many at once as there are cores. Shows them first if `is_verbose`. Returns
/// the exit status of each.
std::vector<int> run_all(std::vector<command> const& commands, bool is_verbose);

/// Runs one command. Throws a failure if it fails.
void run(std::vector<std::string> const& words, bool is_verbose);

}  // namespace quarry::compiler

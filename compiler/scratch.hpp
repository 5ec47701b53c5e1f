// SPDX-License-Identifier: Apache-2.0
// Temporary files, and outputs that appear as a whole or not at all.
#pragma once

#include <functional>
#include <string>

namespace quarry::compiler {

/// A folder for temporary files.
class scratch_folder {
 public:
  /// Creates the folder. Throws a failure if the folder for temporary files does not allow it.
  scratch_folder();
  scratch_folder(scratch_folder const&) = delete;
  /// The path of a file in the folder.
  std::string operator/(std::string const& name) const { return path_ + "/" + name; }

  /// Copies `source`, a file of this folder, to `output` by way of a file beside `output`, so that
  /// no one ever sees a part of it.
  void publish(std::string const& source, std::string const& output) const;

  /// Removes the folder, and the file beside an output if there is one.
  void remove() const;
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Runs `work` in a child process and removes the folder afterwards, however the child ends: by
/// return, by an error inside LLVM, or by a signal to this process. Returns the exit status. A
/// process that a signal reached ends by that signal.
int run_and_clean(scratch_folder const& scratch, bool keeps, std::function<int()> const& work);

}  // namespace quarry::compiler

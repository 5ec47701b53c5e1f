// SPDX-License-Identifier: Apache-2.0
// The runtime for several GPUs, from that for one.
#pragma once

#include "quarry/core/config.hpp"
#include "quarry/core/errors.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace quarry::inline QUARRY_ABI::mpi {

/// An atomic operation in PTX that has no scope, which means device scope, and the rest of its
/// line; empty if there is none.
[[nodiscard]] inline std::string_view unscoped_atomic(std::string_view ptx) {
  auto const skip = [](std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
  };
  for (auto at = ptx.find_first_of(" \t"); at != std::string_view::npos;
       at = ptx.find_first_of(" \t", at + 1)) {
    std::string_view const line = ptx.substr(at + 1, ptx.find('\n', at) - at - 1);
    std::string_view rest = line;
    if (!skip(rest, "atom.") && !skip(rest, "red.")) continue;
    for (std::string_view const word :
         {"relaxed.", "acquire.", "release.", "acq_rel.", "global.", "shared."})
      (void)skip(rest, word);
    for (std::string_view const operation :
         {"add.", "or.", "and.", "xor.", "cas.", "exch.", "min.", "max.", "inc.", "dec."})
      if (rest.starts_with(operation)) return line;
  }
  return {};
}

/// The same PTX, whose atomic operations and fences have system scope in place of device scope. So
/// GPUs that share memory see each other's changes in order. One GPU alone uses the runtime of
/// device scope, whose fences take less time. The build calls this, and the launcher for programs
/// with PTX. Throws bad_argument if the text has an operation of device scope that this function
/// does not know, or none that it knows. O(length).
[[nodiscard]] inline std::string with_system_scope(std::string_view ptx) {
  auto const refuse = [](std::string const& problem, std::string_view where = {}) {
    throw bad_argument{"the runtime's PTX for one GPU " + problem +
                       std::string{where.substr(0, 60)}};
  };
  std::string result;
  result.reserve(ptx.size() + ptx.size() / 64);
  std::size_t changes = 0, done = 0;
  for (auto at = ptx.find_first_of(".m"); at != std::string_view::npos;
       at = ptx.find_first_of(".m", at + 1))
    for (auto const& [scope, wider] :
         {std::pair<std::string_view, std::string_view>{".gpu.global", ".sys.global"},
          {"membar.gl;", "membar.sys;"}}) {
      if (ptx.substr(at, scope.size()) != scope) continue;
      result += ptx.substr(done, at - done);
      result += wider;
      done = at + scope.size();
      ++changes;
    }
  result += ptx.substr(done);
  if (changes == 0) refuse("has no operation of device scope");
  if (auto const found = unscoped_atomic(result); !found.empty())
    refuse("has an atomic operation without a scope: ", found);
  for (std::string_view const scope : {".gpu", "membar.gl"})
    if (auto const at = result.find(scope); at != std::string::npos)
      refuse("has an operation of device scope that has no known counterpart of system scope: ",
             std::string_view{result}.substr(at));
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
// When a process began. Together with the process id this identifies a process, because the system
// reuses ids.
#pragma once

#include "quarry/core/abi.hpp"

#include <dirent.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace quarry::inline QUARRY_ABI::detail {

[[nodiscard]] inline bool has_other_threads(std::string const& folder, pid_t id) {
  DIR* const tasks = opendir((folder + "/task").c_str());
  if (tasks == nullptr) return false;
  bool found = false;
  while (dirent const* const task = readdir(tasks))
    found |= task->d_name[0] != '.' && task->d_name != std::to_string(id);
  closedir(tasks);
  return found;
}

/// The start time of a process in the kernel's ticks. Returns 0 if the process does not exist, and
/// nullopt if the start time cannot be read now.
[[nodiscard]] inline std::optional<std::uint64_t> began_at(pid_t id) {
  std::string const folder = "/proc/" + std::to_string(id);
  std::FILE* const file = std::fopen((folder + "/stat").c_str(), "re");
  if (file == nullptr) return errno == ENOENT ? std::optional<std::uint64_t>{0} : std::nullopt;
  char text[1024];
  errno = 0;
  std::size_t const length = std::fread(text, 1, sizeof text - 1, file);
  bool const has_ended = length == 0 && errno == ESRCH;
  std::fclose(file);
  if (has_ended) return 0;
  text[length] = 0;
  char const* field_start = std::strrchr(text, ')');  // the name may contain any byte
  if (field_start == nullptr || field_start[1] == 0) return std::nullopt;
  // The process has ended, but its parent has not waited for it; or only its first thread has
  // ended.
  if ((field_start[2] == 'Z' || field_start[2] == 'X') && !has_other_threads(folder, id)) return 0;
  for (int field = 2; field < 22 && field_start != nullptr; ++field)
    field_start = std::strchr(field_start + 1, ' ');
  if (field_start == nullptr) return std::nullopt;
  return std::strtoull(field_start, nullptr, 10);
}

}  // namespace quarry::inline QUARRY_ABI::detail

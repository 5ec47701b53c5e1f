// SPDX-License-Identifier: Apache-2.0
#include "call_sites.hpp"

#include "frames.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

namespace quarry::python {
namespace {

constexpr std::uint32_t hidden = 0xffff'ffff;  // not the number of a call site

/// Guarded by: Python's lock. Each ends in a slash.
std::vector<std::string>& hidden_folders() {
  static std::vector<std::string> folders;
  return folders;
}

}  // namespace

void hide_code_of(std::string const& folder) {
  if (std::ranges::find(hidden_folders(), folder + '/') == hidden_folders().end())
    hidden_folders().push_back(folder + '/');
}

call_sites::~call_sites() {
  if (sites_.empty()) return;
  if (nb::is_alive() && !is_finalizing()) {
    held_gil const lock;
    sites_.clear();
  } else {  // Python is gone, and its objects with it
    for (auto& [key, known] : sites_) (void)known.code.release();
  }
}

std::uint32_t call_sites::find() {
  if (!has_gil()) return 0;
  nb::error_scope const pending;  // this call may be part of the clean-up after an exception
  try {
    return innermost();
  } catch (std::bad_alloc const&) {  // records the event without a call site
    return 0;
  }
}

std::uint32_t call_sites::innermost() {
  for (auto present = frame::present(); present.is_valid(); present = present.caller()) {
    std::uint32_t const number = number_of(present);
    if (number != hidden) return number;
  }
  return 0;
}

std::uint32_t call_sites::find_with_lock() {
  if (has_gil()) return find();
  if (Py_IsInitialized() == 0 || is_finalizing()) return 0;
  if (PyGILState_GetThisThreadState() == nullptr) return 0;  // this thread has no Python frames
  held_gil const lock;
  return find();
}

std::uint32_t call_sites::number_of(frame const& present) {
  auto code = present.code();
  place const key{code.ptr(), present.position()};
  if (auto const found = sites_.find(key); found != sites_.end()) return found->second.number;
  std::string const file = file_of_code(code);
  std::uint32_t number = hidden;
  bool is_hidden = false;
  for (std::string const& folder : hidden_folders()) is_hidden |= file.starts_with(folder);
  if (!is_hidden)
    number =
        target_->call_site(file + ':' + std::to_string(present.line()) + ' ' + name_of_code(code));
  sites_.emplace(key, site{number, std::move(code)});
  return number;
}

}  // namespace quarry::python

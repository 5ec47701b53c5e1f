// SPDX-License-Identifier: Apache-2.0
#include "call_sites.hpp"

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

std::string string_of(PyObject* text) {
  Py_ssize_t size = 0;
  char const* const characters = PyUnicode_AsUTF8AndSize(text, &size);
  if (characters != nullptr) return {characters, static_cast<std::size_t>(size)};
  PyErr_Clear();  // a file's name that is not valid Unicode
  return "?";
}

int position_of(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return PyFrame_GetLineNumber(frame);
#endif
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
  if (PyGILState_Check() == 0) return 0;
  nb::error_scope const pending;  // this call may be part of the clean-up after an exception
  try {
    return innermost();
  } catch (std::bad_alloc const&) {  // records the event without a call site
    return 0;
  }
}

std::uint32_t call_sites::innermost() {
  auto frame = nb::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame.is_valid()) {
    auto* const present = reinterpret_cast<PyFrameObject*>(frame.ptr());
    auto const code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(present)));
    std::uint32_t const number = number_of(present, reinterpret_cast<PyCodeObject*>(code.ptr()));
    if (number != hidden) return number;
    frame = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(present)));
  }
  return 0;
}

std::uint32_t call_sites::find_with_lock() {
  if (PyGILState_Check() != 0) return find();
  if (Py_IsInitialized() == 0 || is_finalizing()) return 0;
  if (PyGILState_GetThisThreadState() == nullptr) return 0;  // this thread has no Python frames
  held_gil const lock;
  return find();
}

std::uint32_t call_sites::number_of(PyFrameObject* frame, PyCodeObject* code) {
  place const key{code, position_of(frame)};
  if (auto const found = sites_.find(key); found != sites_.end()) return found->second.number;
  std::string const file = string_of(code->co_filename);
  std::uint32_t number = hidden;
  bool is_hidden = false;
  for (std::string const& folder : hidden_folders()) is_hidden |= file.starts_with(folder);
  if (!is_hidden)
    number = target_->call_site(file + ':' + std::to_string(PyFrame_GetLineNumber(frame)) + ' ' +
                                string_of(code->co_name));
  sites_.emplace(key, site{number, nb::borrow(reinterpret_cast<PyObject*>(code))});
  return number;
}

}  // namespace quarry::python

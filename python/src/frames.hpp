// SPDX-License-Identifier: Apache-2.0
// Frames of Python code. For Python 3.12 and later, this module is compiled for the stable ABI. It
// has few functions for frames and none for code objects. Attributes take their place.
#pragma once

#include "module.hpp"

#include <string>
#include <utility>

namespace quarry::python {

/// The attribute that a function of Python returned; invalid, without an exception, if it failed.
/// Needs Python's lock.
[[nodiscard]] inline nb::object found_or_invalid(PyObject* value) {
  if (value == nullptr) PyErr_Clear();
  return nb::steal(value);
}

/// A frame of the calling thread. Each call needs Python's lock.
class frame {
 public:
  /// The innermost frame; invalid if the thread runs no Python code.
  [[nodiscard]] static frame present() {
    return frame{nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()))};
  }

  [[nodiscard]] bool is_valid() const { return frame_.is_valid(); }

  /// The frame that called this one; invalid if Python code did not call it.
  [[nodiscard]] frame caller() const {
#ifdef Py_LIMITED_API
    static PyObject* const name = PyUnicode_InternFromString("f_back");
    auto found = found_or_invalid(PyObject_GetAttr(frame_.ptr(), name));
    return frame{found.is_none() ? nb::object{} : std::move(found)};
#else
    return frame{nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(pointer())))};
#endif
  }

  [[nodiscard]] nb::object code() const {
    return nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(pointer())));
  }

  [[nodiscard]] int line() const { return PyFrame_GetLineNumber(pointer()); }

  /// The instruction of the code; in Python 3.10, the line.
  [[nodiscard]] int position() const {
#if defined(Py_LIMITED_API)
    static PyObject* const name = PyUnicode_InternFromString("f_lasti");
    auto const found = found_or_invalid(PyObject_GetAttr(frame_.ptr(), name));
    return found.is_valid() ? static_cast<int>(PyLong_AsLong(found.ptr())) : line();
#elif PY_VERSION_HEX >= 0x030B0000
    return PyFrame_GetLasti(pointer());
#else
    return line();
#endif
  }

 private:
  explicit frame(nb::object found) : frame_{std::move(found)} {}
  [[nodiscard]] PyFrameObject* pointer() const {
    return reinterpret_cast<PyFrameObject*>(frame_.ptr());
  }

  nb::object frame_;
};

/// The text of a string of Python; "?" if it is not valid Unicode. Needs Python's lock.
[[nodiscard]] inline std::string utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  char const* const characters =
      text.is_valid() ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (characters != nullptr) return {characters, static_cast<std::size_t>(size)};
  PyErr_Clear();
  return "?";
}

/// The file of a code object.
[[nodiscard]] inline std::string file_of_code(nb::handle code) {
  return utf8_of(found_or_invalid(PyObject_GetAttrString(code.ptr(), "co_filename")));
}

/// The name of the function that a code object belongs to.
[[nodiscard]] inline std::string name_of_code(nb::handle code) {
  return utf8_of(found_or_invalid(PyObject_GetAttrString(code.ptr(), "co_name")));
}

}  // namespace quarry::python

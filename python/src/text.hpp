// SPDX-License-Identifier: Apache-2.0
// Converts texts, in place of <nanobind/stl/string.h>, which refuses names of files that
// are not UTF-8: Python has surrogates in the place of their bytes (PEP 383).
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace nanobind::detail {

template <>
struct type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    Py_ssize_t size = 0;
    if (char const* const text = PyUnicode_AsUTF8AndSize(source.ptr(), &size)) {
      value.assign(text, static_cast<std::size_t>(size));
      return true;
    }
    PyErr_Clear();
    PyObject* const encoded = PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape");
    if (encoded == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.assign(PyBytes_AsString(encoded), static_cast<std::size_t>(PyBytes_Size(encoded)));
    Py_DECREF(encoded);
    return true;
  }
  static handle from_cpp(std::string const& text, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                                "surrogateescape");
  }
};

}  // namespace nanobind::detail

// SPDX-License-Identifier: Apache-2.0
// Python's lock (the GIL) in threads that still run when Python ends.
//
// Before 3.14, Python ends a daemon thread that asks for the lock too late: it calls pthread_exit.
// This unwinds the stack as an exception does, so a destructor on the way would end the program
// (std::terminate). Here such a thread waits for the end of the process, as Python 3.14 does.
#pragma once

#include <nanobind/nanobind.h>

#include <dlfcn.h>
#include <unistd.h>

namespace quarry::python {

/// Whether Python ends. Any thread may call it.
[[nodiscard]] inline bool is_finalizing() {
#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030D0000
  // Py_IsFinalizing is in the stable ABI since 3.13. In 3.12 the function has another name.
  static auto const call = [] {
    void* found = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
    if (found == nullptr) found = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    return reinterpret_cast<int (*)()>(found);
  }();
  return call != nullptr && call() != 0;
#elif PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

/// Whether this thread holds Python's lock. Any thread may call it.
[[nodiscard]] inline bool has_gil() {
#if PY_VERSION_HEX >= 0x030C0000
  // Since 3.12 the state with the lock is one of the thread: no lock, no dictionary.
  return PyThreadState_GetDict() != nullptr;
#else
  // Not PyGILState_Check: that returns true once Python, as it ends, has deleted the key under
  // which threads keep their states. PyGILState_Release then ends the program.
  PyThreadState const* const own = PyGILState_GetThisThreadState();
  return own != nullptr && own == _PyThreadState_UncheckedGet();
#endif
}

[[noreturn]] inline void wait_for_process_end() noexcept {
  for (;;) (void)pause();
}

/// Calls `take`, which takes the lock and throws no exception of C++.
template <class Take>
auto take_gil(Take take) noexcept {
  try {
    return take();
  } catch (...) {  // pthread_exit; a handler that returned would end the program
    wait_for_process_end();
  }
}

/// Releases Python's lock until the end of the scope. Needs the lock.
class released_gil {
 public:
  released_gil() : state_{PyEval_SaveThread()} {}
  released_gil(released_gil const&) = delete;
  released_gil& operator=(released_gil const&) = delete;
  ~released_gil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

/// Holds Python's lock until the end of the scope. Any thread may make one, also with the lock.
class held_gil {
 public:
  held_gil() : state_{take_gil([] { return PyGILState_Ensure(); })} {}
  held_gil(held_gil const&) = delete;
  held_gil& operator=(held_gil const&) = delete;
  ~held_gil() {
    // Python code of this scope has lost the lock only if Python ends the thread.
    if (is_finalizing() && !has_gil()) wait_for_process_end();
    PyGILState_Release(state_);
  }

 private:
  PyGILState_STATE state_;
};

}  // namespace quarry::python

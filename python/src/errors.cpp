// SPDX-License-Identifier: Apache-2.0
// Raises the exceptions of python/quarry/errors.py for those of quarry/core/errors.hpp.
#include "quarry/core/errors.hpp"
#include "quarry/trace/plan.hpp"
#include "quarry/trace/reader.hpp"

#include "module.hpp"

namespace quarry::python {
namespace {

nb::object error_class(char const* name) {
  return nb::module_::import_("quarry.errors").attr(name);
}

/// Messages have names of files, which may be no UTF-8.
void raise(char const* name, std::string const& message) {
  PyErr_SetString(error_class(name).ptr(), trace::as_utf8(message).c_str());
}

/// The most derived class first.
void translate(std::exception_ptr const& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (out_of_memory const& failed) {
    nb::object const type = error_class("OutOfMemory");
    nb::object const value =
        type(trace::as_utf8(failed.message()), failed.resource(), failed.requested());
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (was_destroyed const& failed) {
    raise("WasDestroyed", failed.message());
  } catch (bad_argument const& failed) {
    raise("BadArgument", failed.message());
  } catch (bad_range const& failed) {
    raise("BadRange", failed.message());
  } catch (bad_state const& failed) {
    raise("BadState", failed.message());
  } catch (resource_failed const& failed) {
    raise("ResourceFailed", failed.message());
  } catch (trace::bad_trace const& failed) {
    raise("BadTrace", failed.message());
  } catch (bad_plan const& failed) {
    raise("BadPlan", failed.message());
  } catch (error const& failed) {
    raise("Error", failed.message());
  }
}

}  // namespace

void add_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace quarry::python

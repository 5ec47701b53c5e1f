// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/c_extension.hpp"

#include "host/c_handles.hpp"

#include <cstdio>

namespace quarry::inline QUARRY_ABI::c_api {

namespace {

thread_local char last_error[4096] = "";  // has room for much of a compiler's log

}  // namespace

quarry_status fail(quarry_status status, char const* why) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", why);
  return status;
}

void* add_object(handle_kind kind, void* object) {
  return reinterpret_cast<void*>(handle_table::add(kind, object).bits);
}

quarry_status use_object(void* handle, handle_kind kind, char const* call,
                         std::function<quarry_status(void*)> const& work) {
  shared_use const use{handle_value::decode(handle), kind, call};
  return work(use.object());
}

void* remove_object(void* handle, handle_kind kind, char const* call) {
  return handle_table::remove(handle_value::decode(handle), kind, call);
}

}  // namespace quarry::inline QUARRY_ABI::c_api

char const* quarry_last_error(void) { return quarry::c_api::last_error; }

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/run_supply.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

/// Opens a run for the class, as the lane that has the class's lock.
inline void open_run(detail::heap_state& state, size_class id) {
  ASSERT_TRUE(state.run(id).lock(state.run(id).peek()));
  ASSERT_TRUE(detail::run_supply::open_run(state, id));
  state.run(id).unlock();
}

}  // namespace quarry::test

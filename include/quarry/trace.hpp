// SPDX-License-Identifier: Apache-2.0
// Traces of allocations: reading, writing and replaying them. Programs link quarry::trace.
#pragma once

#include "quarry/trace/compare_keys.hpp"
#include "quarry/trace/event.hpp"
#include "quarry/trace/file_writer.hpp"
#include "quarry/trace/plan.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/recorded_resource.hpp"
#include "quarry/trace/recorder.hpp"
#include "quarry/trace/replay.hpp"
#include "quarry/trace/rmm_writer.hpp"
#include "quarry/trace/select_allocator.hpp"
#include "quarry/trace/separate.hpp"
#include "quarry/trace/tune.hpp"

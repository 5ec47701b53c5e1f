// SPDX-License-Identifier: Apache-2.0
// Memory orders that correctness depends on, each with a label. The files that use an order argue
// its label. A test that relaxes one of these orders must fail (include/quarry/opencl/on_host.hpp).
#pragma once

#include "atomics_c11.cl"
#include "atomics_nvidia.cl"
#include "atomics_other.cl"

#define QUARRY_ORDER_C acquire         // claims a slot
#define QUARRY_ORDER_R release         // frees a slot
#define QUARRY_ORDER_P acquire         // claims pages
#define QUARRY_ORDER_F release         // frees pages
#define QUARRY_ORDER_O fenced_release  // opens a span

// QUARRY_ATOMIC(or, C)(at, value) is quarry_or_acquire(at, value).
#define QUARRY_FUNCTION(operation, order) quarry_##operation##_##order
#define QUARRY_ATOMIC_OF(operation, order) QUARRY_FUNCTION(operation, order)
#ifndef QUARRY_ATOMIC
#define QUARRY_ATOMIC(operation, label) QUARRY_ATOMIC_OF(operation, QUARRY_ORDER_##label)
#endif

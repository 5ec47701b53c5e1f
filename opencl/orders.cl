// SPDX-License-Identifier: Apache-2.0
// Memory orders that correctness depends on, each with a label. The files that use an order argue
// its label. A test build that defines one of these orders as `relaxed` must fail.
#pragma once

#include "atomics_c11.cl"
#include "atomics_nvidia.cl"
#include "atomics_other.cl"

#ifndef QUARRY_ORDER_C
#define QUARRY_ORDER_C acquire  // claims a slot
#endif
#ifndef QUARRY_ORDER_R
#define QUARRY_ORDER_R release  // frees a slot
#endif
#ifndef QUARRY_ORDER_P
#define QUARRY_ORDER_P acquire  // claims pages
#endif
#ifndef QUARRY_ORDER_F
#define QUARRY_ORDER_F release  // frees pages
#endif
#ifndef QUARRY_ORDER_O
#define QUARRY_ORDER_O fenced_release  // opens a span
#endif

// QUARRY_ATOMIC(or, QUARRY_ORDER_C)(at, value) is quarry_or_acquire(at, value).
#define QUARRY_ATOMIC_OF(operation, order) quarry_##operation##_##order
#define QUARRY_ATOMIC(operation, order) QUARRY_ATOMIC_OF(operation, order)

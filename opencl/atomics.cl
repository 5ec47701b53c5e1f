// SPDX-License-Identifier: Apache-2.0
// Atomic access to words that work-items of a device share. Each of three tiers has a file:
//
//   1  atomics_c11.cl     OpenCL C 2.0, or 3.0 with acquire-release and device scope
//   2  atomics_nvidia.cl  NVIDIA's GPUs since Volta, which offer neither: PTX has both
//   3  atomics_other.cl   all other devices. OpenCL does not guarantee these orders, so a heap
//                          refuses the device unless the ordering self-test passes
//
// Functions are named quarry_OPERATION_ORDER. Their orders mean what they mean in C11. Operations
// with a `fenced` order share fences, where a fence for each operation costs more: fenced_release
// needs a quarry_fence() before all operations; fenced_acq_rel needs one before and one after all
// operations. Where fences gain nothing, quarry_fence() does nothing, and each operation has its
// own order.
//
// quarry_load_constant(at) reads a word that no kernel writes. So a compiler may keep the word in a
// register across atomics.
#pragma once

#ifndef QUARRY_AS_CPP  // tests compile these files as C++ and bring their own atomics
#ifndef QUARRY_TIER
#if __OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300
#define QUARRY_TIER 1
#elif defined(__opencl_c_atomic_order_acq_rel) && defined(__opencl_c_atomic_scope_device)
#define QUARRY_TIER 1
#else
#define QUARRY_TIER 3
#endif
#endif
#if QUARRY_TIER == 1 && __OPENCL_C_VERSION__ < 200
#error "quarry: QUARRY_TIER=1 needs C11 atomics: build with -cl-std=CL3.0 or CL2.0 (build_options)"
#undef QUARRY_TIER
#define QUARRY_TIER 3  // compiles in any language, so the log has no other errors
#endif
#endif

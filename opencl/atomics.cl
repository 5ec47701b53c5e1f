// SPDX-License-Identifier: Apache-2.0
// Atomic access to words that work-items of a device share. A file for each of three tiers:
//
//   1  atomics_c11.cl     OpenCL C 2.0, or 3.0 with acquire-release and device scope
//   2  atomics_nvidia.cl  NVIDIA's GPUs since Volta, which offer neither: PTX has both
//   3  atomics_other.cl   all else. Undocumented, so refused unless the ordering self-test passes
//
// Functions are named quarry_OPERATION_ORDER. Their orders mean what they mean in C11. Operations
// with a `fenced` order share fences where one for each costs more: a quarry_fence() before all of
// them for fenced_release, and one before and one after all of them for fenced_acq_rel. Where
// fences gain nothing, quarry_fence() does nothing and each operation has its own order.
//
// quarry_load_constant(at) reads a word that no kernel writes, so a compiler may keep it in a register
// across atomics.
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
#error "quarry: QUARRY_TIER=1 needs C11 atomics: build with -cl-std=CL3.0 (CL2.0 on a device of OpenCL 2), as build_options says"
#undef QUARRY_TIER
#define QUARRY_TIER 3  // compiles in any language, so the log has no other errors
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The heap for OpenCL kernels (opencl/heap.hpp), for C and for languages that call C.
 *
 * Statuses, handles and quarry_last_error are those of quarry/host/c_api.h: no function throws,
 * QUARRY_BAD_ARGUMENT and QUARRY_DESTROYED mean that nothing was changed, and handles are numbers
 * that are checked and never reused. QUARRY_RESOURCE_FAILED means that OpenCL failed, also for lack
 * of memory. Results are null or 0 unless QUARRY_OK. Any thread may call all functions. The calls
 * on one heap are serialised.
 *
 * OpenCL objects that the caller passes must be valid; null is refused. A heap retains its context
 * and its queue until it is destroyed, so the caller may release them at any time.
 *
 * Kernels and calls on their heap must not run at the same time. Each call that accesses the heap
 * waits for the heap's queue. Kernels in other queues must be complete.
 *
 * OpenCL does not work in the child of a fork: a child must not call these functions. */
#ifndef QUARRY_OPENCL_C_API_H
#define QUARRY_OPENCL_C_API_H

#include "quarry/host/c_api.h"

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#endif
#include <CL/cl.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* The kind of atomics that order memory on a device; opencl/atomics.cl describes each tier. */
typedef enum quarry_opencl_tier {
  QUARRY_OPENCL_C11 = 1,
  QUARRY_OPENCL_NVIDIA = 2,
  QUARRY_OPENCL_OTHER = 3
} quarry_opencl_tier;

/* Sets `*tier` to the device's quarry_opencl_tier. */
quarry_status quarry_opencl_tier_of(cl_device_id device, uint32_t* tier);

/* The OpenCL C of the heap and its containers, which quarry_opencl_build puts before a program's
 * own source. Valid until the end of the program. */
char const* quarry_opencl_sources(void);

/* Each of the next two functions returns a text. The first has the build options that the heap's
 * sources need on this device. The second has the folder of the cache of binaries (program.hpp); it
 * is empty if the cache is off.
 *
 * They write the text and a terminating 0 to a buffer of `capacity` bytes, and set `*length` to the
 * text's length without the 0. `length` may be null. To ask for the length alone, pass a null
 * buffer and capacity 0. QUARRY_BAD_ARGUMENT, and only `*length` is set, if the buffer is too
 * small. */
quarry_status quarry_opencl_build_options(cl_device_id device, char* buffer, uint64_t capacity,
                                          uint64_t* length);
quarry_status quarry_opencl_cache_folder(char* buffer, uint64_t capacity, uint64_t* length);

/* Builds `source`, with the heap's sources before it, or loads the binary of an earlier build from
 * the cache. `more_options` may be null. The caller releases the program. QUARRY_RESOURCE_FAILED
 * if it does not build; quarry_last_error then has the first 4,000 characters of the build log. */
quarry_status quarry_opencl_build(cl_context context, cl_device_id device, char const* source,
                                  char const* more_options, cl_program* program);

/* Passes messages between work-groups, and sets `*count` to the number of stale messages, which is
 * 0 if the device orders memory as the heap needs. Heaps run this test on devices of tier 3. */
quarry_status quarry_opencl_count_stale_messages(cl_context context, cl_device_id device,
                                                 cl_command_queue queue, uint32_t* count);

/* A heap in a buffer of a device. */
typedef struct quarry_opencl_heap quarry_opencl_heap;

/* A reference: the distance of an allocation from the heap's base in units of 16 bytes. Kernels
 * call this type quarry_ref. 0 is null. References stay valid if the heap grows. */
typedef uint32_t quarry_opencl_ref;

/* Options of a heap. Later versions may append fields; `size` tells the library which fields the
 * caller knows. */
typedef struct quarry_opencl_heap_options {
  uint64_t size;      /* sizeof(quarry_opencl_heap_options); 0: the fields up to `hints` */
  uint64_t bytes;     /* of the buffer, including metadata; below 64 GiB */
  uint64_t max_bytes; /* limit for growth; 0: the heap cannot grow */
  uint64_t hints;     /* of each size class (heap.hpp), a power of two up to 65536; 0: by the
                         device */
  uint64_t debug;     /* 1: a debug heap, for programs built with -DQUARRY_DEBUG=1; else 0 */
} quarry_opencl_heap_options;

/* Writes the default options, 64 MiB that do not grow, to the first `size` bytes of `options`, and
 * zeros to fields that this library does not know. QUARRY_BAD_ARGUMENT if `size` does not include
 * the fields up to `hints`, or is more than 4096. */
quarry_status quarry_opencl_heap_fill_options(quarry_opencl_heap_options* options, uint64_t size);

/* Returns the default options of a heap. */
static inline quarry_opencl_heap_options quarry_opencl_heap_default_options(void) {
  quarry_opencl_heap_options options;
  quarry_opencl_heap_fill_options(&options, sizeof options);
  return options;
}

/* Makes a heap. `options` may be null. The queue must be a queue of this context and device.
 * QUARRY_BAD_ARGUMENT if an option is out of range, if `bytes` exceeds the device's largest
 * buffer, or if a field that this library does not know is not 0. */
quarry_status quarry_opencl_heap_create(cl_context context, cl_device_id device,
                                        cl_command_queue queue,
                                        quarry_opencl_heap_options const* options,
                                        quarry_opencl_heap** heap);

/* Destroys the heap. Unmaps it first if it is mapped. OpenCL frees the buffer when enqueued
 * kernels that use it are complete. Null is ignored. */
quarry_status quarry_opencl_heap_destroy(quarry_opencl_heap* heap);

/* Sets `*buffer` to the heap's buffer, the kernels' argument of type quarry_heap. The heap owns the
 * buffer: valid until quarry_opencl_heap_grow or _destroy, unless the caller retains it. */
quarry_status quarry_opencl_heap_buffer(quarry_opencl_heap* heap, cl_mem* buffer);

/* Sets `*size` to the bytes of the buffer. */
quarry_status quarry_opencl_heap_size(quarry_opencl_heap* heap, uint64_t* size);

/* All functions from here to quarry_opencl_heap_map refuse a mapped heap: QUARRY_BAD_ARGUMENT. */

/* Moves the heap into a buffer of `size` bytes. References stay valid. The heap's buffer changes,
 * so set the kernels' arguments again. QUARRY_BAD_ARGUMENT if `size` is less than the heap's size,
 * or more than max_bytes or the device's largest buffer. */
quarry_status quarry_opencl_heap_grow(quarry_opencl_heap* heap, uint64_t size);

/* Makes all memory free. All earlier references become invalid. */
quarry_status quarry_opencl_heap_reset(quarry_opencl_heap* heap);

/* Counts of the faults of kernels, and of quarry_opencl_heap_allocate and _deallocate. They stop at
 * about 2^31. */
typedef struct quarry_opencl_faults {
  uint64_t out_of_memory;
  uint64_t double_free;
  uint64_t interior_reference;
  uint64_t foreign_reference;
  uint64_t overrun; /* writes past the requested bytes, found by frees in a debug heap */
  char first[128];  /* a sentence about the first fault; empty: no fault */
} quarry_opencl_faults;

quarry_status quarry_opencl_heap_get_faults(quarry_opencl_heap* heap, quarry_opencl_faults* faults);
/* Sets all counts to 0, and forgets the first fault. */
quarry_status quarry_opencl_heap_clear_faults(quarry_opencl_heap* heap);

/* The bytes and allocations of a heap. The last field is a count, the others are bytes. */
typedef struct quarry_opencl_usage {
  uint64_t usable;    /* of all pages */
  uint64_t reserved;  /* by spans and large allocations */
  uint64_t allocated; /* by allocations, rounded up to their slots and pages */
  uint64_t allocations_in_use;
} quarry_opencl_usage;

/* Reads all metadata. */
quarry_status quarry_opencl_heap_get_usage(quarry_opencl_heap* heap, quarry_opencl_usage* usage);

/* The state of the bytes after an allocation's requested bytes. */
typedef enum quarry_opencl_allocation_state {
  QUARRY_OPENCL_ALLOCATION_UNKNOWN = 0, /* the heap is not a debug heap */
  QUARRY_OPENCL_ALLOCATION_INTACT = 1,
  QUARRY_OPENCL_ALLOCATION_OVERRUN = 2, /* overwritten, or allocated without QUARRY_DEBUG */
  QUARRY_OPENCL_ALLOCATION_RESERVED = 3 /* a reserve (reserve.cl) claimed the slot, and neither
                                           handed it out nor returned it */
} quarry_opencl_allocation_state;

/* An allocation that is not freed. The fields from requested_size on are zeros unless the state is
 * INTACT or OVERRUN. An overrun may have changed them. */
typedef struct quarry_opencl_live_allocation {
  quarry_opencl_ref reference;
  uint32_t state;          /* a quarry_opencl_allocation_state */
  uint64_t slot_size;      /* bytes of its slot or pages */
  uint64_t requested_size; /* bytes */
  uint32_t number;         /* of the allocation, counted from 1, modulo 2^32 */
  uint32_t work_item;      /* that allocated: its group times the size of a group, and its item */
} quarry_opencl_live_allocation;

/* Writes the allocations in use to `live`, at most `capacity`, in the order of their references.
 * Sets `*count` to the number of written allocations. Finds overruns in debug heaps.
 * quarry_opencl_heap_get_usage has the number of all allocations. */
quarry_status quarry_opencl_heap_get_live_allocations(quarry_opencl_heap* heap,
                                                      quarry_opencl_live_allocation* live,
                                                      uint64_t capacity, uint64_t* count);

/* Checks the heap's invariants. If an invariant does not hold, because a kernel wrote to the
 * metadata, QUARRY_INTERNAL; quarry_last_error then describes the problem. Reads all metadata. */
quarry_status quarry_opencl_heap_audit(quarry_opencl_heap* heap);

/* Maps the whole heap into the host's memory, to read and to change the kernels' data. `*base` is
 * valid until quarry_opencl_heap_unmap or quarry_opencl_heap_destroy. Kernels must not run until
 * then. On devices with memory of their own, mapping and unmapping copy the heap. QUARRY_INTERNAL
 * if a kernel overwrote the heap's state: then only quarry_opencl_heap_reset makes it usable. */
quarry_status quarry_opencl_heap_map(quarry_opencl_heap* heap, void** base);
/* Returns the heap to the device. */
quarry_status quarry_opencl_heap_unmap(quarry_opencl_heap* heap);

/* Returns the address of a reference in a mapped heap, or null for the null reference. Checks
 * nothing, and takes no lock. */
static inline void* quarry_opencl_at(void* base, quarry_opencl_ref reference) {
  return reference == 0 ? NULL : (void*)((char*)base + (size_t)reference * 16);
}

/* The next functions do on a mapped heap what quarry_at, quarry_malloc, quarry_free and
 * quarry_usable_size do in kernels. QUARRY_BAD_ARGUMENT if the heap is not mapped. */

/* The same as quarry_opencl_at, with checks: QUARRY_BAD_ARGUMENT if the reference is null, or not
 * in the heap's pages. */
quarry_status quarry_opencl_heap_at(quarry_opencl_heap* heap, quarry_opencl_ref reference,
                                    void** memory);
/* Allocates `size` bytes, aligned to 16. Size 0 gives an allocation of its own.
 * QUARRY_OUT_OF_MEMORY, and a fault is counted, if the heap has no such memory. */
quarry_status quarry_opencl_heap_allocate(quarry_opencl_heap* heap, uint64_t size,
                                          quarry_opencl_ref* reference);
/* Frees an allocation of a kernel or of the host. A null reference is ignored. QUARRY_NOT_IN_USE,
 * and a fault is counted, if no allocation begins at the reference. */
quarry_status quarry_opencl_heap_deallocate(quarry_opencl_heap* heap, quarry_opencl_ref reference);
/* Sets `*size` to the bytes that an allocation can hold; in a debug heap, to its requested bytes.
 * QUARRY_NOT_IN_USE if no allocation begins at the reference. */
quarry_status quarry_opencl_heap_usable_size(quarry_opencl_heap* heap, quarry_opencl_ref reference,
                                             uint64_t* size);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Host pools for C, and for languages that call C. The functions throw no exceptions. They return a
 * status, and quarry_last_error describes the last failure. Any thread may call all functions. The
 * calls on one pool are serialised.
 *
 * Handles (quarry_pool*, quarry_stream_pool*, quarry_segment*, quarry_allocator*) are numbers, not
 * addresses. A handle is never reused, and never dereferenced. A call on a handle whose object was
 * destroyed or closed returns QUARRY_DESTROYED. A call on a handle of another kind, on an unknown
 * handle, or on null returns QUARRY_BAD_ARGUMENT; functions that destroy or close ignore null. The
 * refused calls change nothing, and quarry_last_error describes the handle. Destroying and closing
 * wait for the running calls on the handle; later calls return QUARRY_DESTROYED. A process has at
 * most 2^20 handles at a time. If a program and its plugins have copies of this library, only the
 * copy that made a handle accepts it.
 *
 * A fork waits for running calls on pools and allocators. The child has the same handles. It may
 * use and destroy the handles of QUARRY_HOST pools, of allocators over host memory, and of
 * segments. Do not use pools of files in a child: it shares the pages with its parent, and the
 * parent's pool does not know what the child allocates. CUDA does not work in a child. */
#ifndef QUARRY_HOST_C_API_H
#define QUARRY_HOST_C_API_H

#include "quarry/core/version.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

typedef enum quarry_status {
  QUARRY_OK = 0,
  QUARRY_OUT_OF_MEMORY = 1,
  QUARRY_BAD_ARGUMENT = 2,
  QUARRY_RESOURCE_FAILED = 3, /* the operating system or the driver failed */
  QUARRY_NOT_IN_USE = 4,      /* no allocation has this address or name; at most a count changed */
  QUARRY_INTERNAL = 5,
  QUARRY_DESTROYED = 6 /* the handle's object was destroyed or closed; nothing was changed */
} quarry_status;

typedef enum quarry_resource {
  QUARRY_HOST = 0,
  QUARRY_DEVICE = 1,
  QUARRY_PINNED = 2,
  QUARRY_MANAGED = 3,
  QUARRY_FILE = 4,
  QUARRY_SHARED = 5 /* in records only */
} quarry_resource;

/* Options of a pool. Sizes are in bytes. In first_block, next_block and alignment, 0 means the
 * default (quarry_pool_default_options). In max_bytes and growth_percent, 0 means none. So
 * { .name = "x" } is a pool with a name. growth_percent is the minimum size of later blocks in
 * percent of the reserved bytes, at most 1000. Later versions may append fields; `size` tells the
 * library which fields the caller knows. */
typedef struct quarry_pool_options {
  uint64_t size;        /* sizeof(quarry_pool_options); 0: the fields up to keeps_backtraces */
  uint64_t first_block; /* minimum size of a block while the pool has none */
  uint64_t next_block;  /* minimum size of a later block */
  uint32_t growth_percent;
  uint64_t alignment;    /* of all addresses: a power of two from 16 to 16384 */
  uint64_t max_bytes;    /* limit for the bytes of all blocks */
  int device;            /* QUARRY_DEVICE: the number of the GPU */
  char const* directory; /* QUARRY_FILE: the directory of the files */
  char const* name;      /* for reports; null: "allocator N" */
  /* Guard bytes after each allocation, 65536 at most; 0: none. If the program wrote to them, the
   * pool finds that when the allocation is freed, and writes a line to standard error. */
  uint64_t red_zone;
  uint64_t keeps_backtraces; /* 1: reports show the backtrace of each allocation; 0: no */
} quarry_pool_options;

/* Counts of a pool: four sizes in bytes, then four numbers. */
typedef struct quarry_pool_counts {
  uint64_t reserved; /* bytes of the pool's blocks */
  uint64_t peak_reserved;
  uint64_t allocated; /* requested bytes that are not freed yet */
  uint64_t peak_allocated;
  uint64_t allocations_in_use; /* allocations that are not freed yet */
  uint64_t blocks_allocated;   /* blocks taken from the resource */
  uint64_t blocks_returned;    /* blocks returned to the resource */
  uint64_t invalid_frees;      /* frees that the pool refused */
} quarry_pool_counts;

typedef struct quarry_pool quarry_pool;

/* Writes the default options to the first `size` bytes of `options`, and zeros to fields that this
 * library does not know. QUARRY_BAD_ARGUMENT if `size` does not include the fields up to
 * keeps_backtraces, or is more than 4096. */
quarry_status quarry_pool_fill_options(quarry_pool_options* options, uint64_t size);

/* Returns the default options of a pool. */
static inline quarry_pool_options quarry_pool_default_options(void) {
  quarry_pool_options options;
  quarry_pool_fill_options(&options, sizeof options);
  return options;
}

/* Makes a pool over a quarry_resource. `options` may be null. `*pool` is null unless QUARRY_OK.
 * QUARRY_BAD_ARGUMENT if an option is out of range, or if a field that this library does not know
 * is not 0. */
quarry_status quarry_pool_create(uint32_t resource, quarry_pool_options const* options,
                                 quarry_pool** pool);

/* Destroys the pool and returns all its memory, including allocations in use. Null is ignored. */
quarry_status quarry_pool_destroy(quarry_pool* pool);

/* Allocates `size` bytes. `*memory` is null unless QUARRY_OK. Size 0 returns a unique address. */
quarry_status quarry_pool_allocate(quarry_pool* pool, uint64_t size, void** memory);

/* Frees an allocation. Null memory is ignored. QUARRY_NOT_IN_USE, and an invalid free is counted,
 * if `memory` is not the base address of an allocation of this pool. */
quarry_status quarry_pool_deallocate(quarry_pool* pool, void* memory);

/* Returns the blocks without allocations to the resource. */
quarry_status quarry_pool_release(quarry_pool* pool);

/* Sets `*size` to the requested size of the allocation at `memory`. QUARRY_NOT_IN_USE, and `*size`
 * is unchanged, if `memory` is not the base address of an allocation of this pool. */
quarry_status quarry_pool_size_of(quarry_pool* pool, void const* memory, uint64_t* size);

quarry_status quarry_pool_get_counts(quarry_pool* pool, quarry_pool_counts* counts);

/* Sets `*overruns` to the number of deallocations whose red zone had been overwritten. */
quarry_status quarry_pool_get_overruns(quarry_pool* pool, uint64_t* overruns);

/* Labels an allocation for reports, until it is freed. QUARRY_NOT_IN_USE if `memory` is not the
 * base address of an allocation of this pool. */
quarry_status quarry_pool_label(quarry_pool* pool, void* memory, char const* name);

/* Sets `*id` to the pool's id in records (quarry_record.allocator). */
quarry_status quarry_pool_id(quarry_pool* pool, uint32_t* id);

/* Stream-ordered device memory of one GPU. A stream can reuse at once the memory that it freed.
 * Another stream can reuse that memory only after the pool has made it wait. A stream is a
 * cudaStream_t. Null is the legacy default stream; cudaStreamPerThread is the calling thread's
 * stream. A stream may be destroyed at any time. QUARRY_RESOURCE_FAILED in a build without CUDA. */
typedef struct quarry_stream_pool quarry_stream_pool;

/* Makes a stream pool. `options` are those of a pool, but the alignment is at least 256.
 * QUARRY_BAD_ARGUMENT for red zones and backtraces, which stream pools do not have. */
quarry_status quarry_stream_pool_create(quarry_pool_options const* options,
                                        quarry_stream_pool** pool);
/* Waits for the streams and destroys the pool. Null is ignored. */
quarry_status quarry_stream_pool_destroy(quarry_stream_pool* pool);
quarry_status quarry_stream_pool_allocate(quarry_stream_pool* pool, uint64_t size, void* stream,
                                          void** memory);
/* Frees memory as soon as the present work of `stream` is done. If other streams used the memory,
 * the caller must first make `stream` wait for them. QUARRY_NOT_IN_USE as for
 * quarry_pool_deallocate. */
quarry_status quarry_stream_pool_deallocate(quarry_stream_pool* pool, void* memory, void* stream);
/* Records an event in `stream`, which makes the memory that `stream` freed available to other
 * streams. */
quarry_status quarry_stream_pool_share(quarry_stream_pool* pool, void* stream);
/* Tells the pool that it will not be called with `stream` again. This call is optional. */
quarry_status quarry_stream_pool_forget(quarry_stream_pool* pool, void* stream);
/* Waits for the streams that used the blocks without allocations, and returns these blocks. */
quarry_status quarry_stream_pool_release(quarry_stream_pool* pool);
quarry_status quarry_stream_pool_get_counts(quarry_stream_pool* pool, quarry_pool_counts* counts);

/* Memory that processes share by name. The segment is removed when the last process has closed it.
 * If that process was killed, the segment is removed when a later process has opened and closed it.
 * Offsets are the same in all processes; addresses are not. */
typedef struct quarry_segment quarry_segment;

/* Opens segment `name`, or makes it with `size` bytes. To open an existing segment, pass its size
 * or 0. QUARRY_BAD_ARGUMENT for another size, and for size 0 without an existing segment. */
quarry_status quarry_segment_open(char const* name, uint64_t size, quarry_segment** segment);
/* Drops the references of this opening and closes the segment. Null is ignored. */
quarry_status quarry_segment_close(quarry_segment* segment);
/* Returns the memory of that name and adds a reference. Allocates `size` zeroed bytes if the name
 * is new. QUARRY_BAD_ARGUMENT if the memory exists with another size. */
quarry_status quarry_segment_allocate(quarry_segment* segment, char const* name, uint64_t size,
                                      void** memory);
/* The same for an existing name. QUARRY_NOT_IN_USE if the name does not exist. */
quarry_status quarry_segment_find(quarry_segment* segment, char const* name, void** memory);
/* Drops a reference. Memory without references becomes free. QUARRY_NOT_IN_USE if this opening has
 * no reference to `memory`. */
quarry_status quarry_segment_release(quarry_segment* segment, void* memory);
/* The next two functions translate between addresses and offsets. QUARRY_BAD_ARGUMENT outside of
 * the segment. */
quarry_status quarry_segment_offset_of(quarry_segment* segment, void const* memory,
                                       uint64_t* offset);
quarry_status quarry_segment_at(quarry_segment* segment, uint64_t offset, void** memory);

/* The allocation that contains an address. */
typedef struct quarry_record {
  uint32_t allocator; /* the id of the pool, allocator or tracked resource */
  uint32_t resource;  /* a quarry_resource */
  uint32_t device;    /* the number of the GPU; 0 for other memory */
  void* base;         /* the first byte of the allocation */
  uint64_t size;      /* requested bytes */
} quarry_record;

/* Finds the allocation of any pool that contains `address`, which may be an interior pointer.
 * QUARRY_NOT_IN_USE if no allocation contains it. Takes no lock. */
quarry_status quarry_find(void const* address, quarry_record* record);

/* Allocators by name (allocators.hpp). A program makes an allocator in one place and finds it in
 * another. If a program and its plugins have copies of this library, each copy has its own names.
 * No allocator is destroyed at the end of the program. QUARRY_BAD_ARGUMENT for an unknown name, for
 * a new name that is in use, and for null. */
typedef struct quarry_allocator quarry_allocator;

/* Counts of an allocator, as those of a pool: four sizes in bytes, then two numbers. */
typedef struct quarry_allocator_counts {
  uint64_t reserved;
  uint64_t peak_reserved;
  uint64_t allocated;
  uint64_t peak_allocated;
  uint64_t allocations_in_use;
  uint64_t invalid_frees;
} quarry_allocator_counts;

/* Makes an allocator from a text such as "pool(device(0), first_block=1GiB)"; allocators.hpp
 * defines these texts. In this function and the next two, `*allocator` is null unless QUARRY_OK. */
quarry_status quarry_allocator_make(char const* name, char const* description,
                                    quarry_allocator** allocator);
/* Finds the allocator of that name or alias. */
quarry_status quarry_allocator_find(char const* name, quarry_allocator** allocator);
/* Finds the allocator of the allocation that contains `address`. */
quarry_status quarry_allocator_of(void const* address, quarry_allocator** allocator);
quarry_status quarry_allocator_add_alias(char const* alias, char const* name);
quarry_status quarry_allocator_remove_alias(char const* alias);
/* Destroys an allocator. QUARRY_BAD_ARGUMENT, and nothing is changed, if a pool takes blocks from
 * it, or if `discards` is 0 and memory was not freed. */
quarry_status quarry_allocator_destroy(char const* name, int discards);

/* The next four functions do what those of a pool do. */
quarry_status quarry_allocator_allocate(quarry_allocator* allocator, uint64_t size, void** memory);
quarry_status quarry_allocator_deallocate(quarry_allocator* allocator, void* memory);
quarry_status quarry_allocator_size_of(quarry_allocator* allocator, void const* memory,
                                       uint64_t* size);
quarry_status quarry_allocator_release(quarry_allocator* allocator);
/* Returns the blocks without allocations. If less than `wanted` bytes are reserved then, takes one
 * block that has at least the difference. Does nothing if it would only replace one empty block by
 * another empty block. */
quarry_status quarry_allocator_coalesce(quarry_allocator* allocator, uint64_t wanted);
quarry_status quarry_allocator_get_counts(quarry_allocator* allocator,
                                          quarry_allocator_counts* counts);
/* Labels an allocation for reports, until it is freed. Also QUARRY_NOT_IN_USE if the registry does
 * not know the allocations of this allocator. */
quarry_status quarry_allocator_label(quarry_allocator* allocator, void* memory, char const* name);
/* Sets `*id` to its id in records; 0 if the registry does not know its allocations. */
quarry_status quarry_allocator_id(quarry_allocator* allocator, uint32_t* id);

/* Free, resize or move an allocation of any named allocator, by its base address alone.
 * QUARRY_BAD_ARGUMENT, and nothing is changed, for any other address. quarry_deallocate ignores
 * null memory; the other functions refuse it. `*result` is null unless QUARRY_OK. */
quarry_status quarry_deallocate(void* memory);
quarry_status quarry_reallocate(void* memory, uint64_t size, void** result);
/* The same, but for null memory it allocates from `fallback`, as C's realloc does. Any named
 * allocator may have allocated the memory. */
quarry_status quarry_allocator_reallocate(quarry_allocator* fallback, void* memory, uint64_t size,
                                          void** result);
quarry_status quarry_move(void* memory, quarry_allocator* target, void** result);

/* Copy bytes between allocations, or set the bytes of an allocation to `value`, which is from 0 to
 * 255. Addresses may be interior pointers. The work is complete on return. QUARRY_BAD_ARGUMENT, and
 * no memory is accessed, if the registry does not know the memory, or if the allocation has fewer
 * than `size` bytes from the address on. */
quarry_status quarry_copy(void* target, void const* source, uint64_t size);
quarry_status quarry_fill(void* memory, int value, uint64_t size);

/* Writes a line for each allocation and each allocator to the file `path`, or to standard error if
 * `path` is null. QUARRY_RESOURCE_FAILED if the file cannot be written. */
quarry_status quarry_report(char const* path);

/* The version of the library that the program runs with: 10203 and "1.2.3" for version 1.2.3.
 * QUARRY_VERSION and QUARRY_VERSION_TEXT are the version of the headers. */
uint32_t quarry_version(void);
char const* quarry_version_text(void);

/* The message of this thread's last failed call. Valid until the thread's next call. */
char const* quarry_last_error(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

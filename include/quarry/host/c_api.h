/* SPDX-License-Identifier: Apache-2.0 */
/* Host pools for C, and for what calls C. No exception crosses it: calls give a status, and
 * quarry_last_error says what happened. All functions may be called from any thread; calls to one
 * pool take turns.
 *
 * Handles (quarry_pool*, quarry_stream_pool*, quarry_segment*, quarry_allocator*) are numbers, not
 * addresses. Each is given once, and nothing is read through it. A call on a handle whose object
 * was destroyed or closed gives QUARRY_DESTROYED. A call on a handle of another kind, on what is
 * no handle, or on null gives QUARRY_BAD_ARGUMENT. Both change nothing, and quarry_last_error says
 * which handle it is and what it is. To destroy or to close waits for the calls that are under way
 * on the handle; later ones get QUARRY_DESTROYED. A process has at most 2^20 handles at a time.
 * Where a program and its plugins have copies of this library, a handle is for calls of the copy
 * that made it, and the others refuse it.
 *
 * A fork waits for calls on pools and allocators that are under way. The child has the same
 * handles, and may use and destroy those of QUARRY_HOST pools, of allocators over the host's
 * memory, and of segments. A file's pages are shared with the parent, whose pool does not know
 * what the child's gives; and CUDA does not work in a child. */
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
  QUARRY_RESOURCE_FAILED = 3, /* the operating system or the driver refused */
  QUARRY_NOT_IN_USE = 4,      /* the address is no allocation of this pool; nothing was changed */
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

/* 0 means what quarry_pool_default_options says, and of the limit that there is none: so
 * { .name = "x" } is a pool with a name. Bytes, but for the growth: the least that is taken later,
 * as percent of what is reserved (there 0 is none). Later versions may have more fields behind
 * these; `size` tells which ones the caller knows. */
typedef struct quarry_pool_options {
  uint64_t size; /* sizeof(quarry_pool_options); 0: the fields up to keeps_backtraces */
  uint64_t first_block;
  uint64_t next_block;
  uint32_t growth_percent;
  uint64_t alignment;
  uint64_t max_bytes;
  int device;            /* QUARRY_DEVICE: its number */
  char const* directory; /* QUARRY_FILE: where the files go */
  char const* name;      /* for reports; null: "allocator N" */
  /* Bytes behind each allocation that nobody may write, 65536 at most; 0: none. What was written is
   * found when the allocation is freed, and told in a line to standard error. */
  uint64_t red_zone;
  uint64_t keeps_backtraces; /* 1: reports say where each allocation was made; 0: they do not */
} quarry_pool_options;

typedef struct quarry_pool_counts {
  uint64_t reserved;
  uint64_t peak_reserved;
  uint64_t allocated;
  uint64_t peak_allocated;
  uint64_t chunks_allocated;
  uint64_t blocks_allocated;
  uint64_t blocks_returned;
  uint64_t invalid_frees;
} quarry_pool_counts;

typedef struct quarry_pool quarry_pool;

/* Writes the options of a pool of which nothing is said to the first `size` bytes of `options`,
 * and zeros to what this library does not know. QUARRY_BAD_ARGUMENT if `size` is less than the
 * fields up to keeps_backtraces take, or more than 4096. */
quarry_status quarry_pool_fill_options(quarry_pool_options* options, uint64_t size);

/* The options of a pool of which nothing is said. */
static inline quarry_pool_options quarry_pool_default_options(void) {
  quarry_pool_options options;
  quarry_pool_fill_options(&options, sizeof options);
  return options;
}

/* Makes a pool of a quarry_resource; `options` may be null. `*pool` is null unless QUARRY_OK.
 * QUARRY_BAD_ARGUMENT if an option is out of range, or the options have a field that is not 0 and
 * that this library does not know. */
quarry_status quarry_pool_create(uint32_t from, quarry_pool_options const* options,
                                 quarry_pool** pool);

/* Gives all memory of the pool back, also what is in use. Null is ignored. */
quarry_status quarry_pool_destroy(quarry_pool* pool);

/* `*memory` is null unless QUARRY_OK. A size of 0 gives an address of its own. */
quarry_status quarry_pool_allocate(quarry_pool* pool, uint64_t size, void** memory);

/* Null memory is ignored. */
quarry_status quarry_pool_deallocate(quarry_pool* pool, void* memory);

/* Gives the blocks back in which nothing is in use. */
quarry_status quarry_pool_release(quarry_pool* pool);

/* How much was asked for at `memory`. */
quarry_status quarry_pool_size_of(quarry_pool* pool, void const* memory, uint64_t* size);

quarry_status quarry_pool_get_counts(quarry_pool* pool, quarry_pool_counts* counts);

/* How many deallocations found their red zone written to. */
quarry_status quarry_pool_get_overruns(quarry_pool* pool, uint64_t* overruns);

/* Names an allocation for reports, until it is freed. */
quarry_status quarry_pool_label(quarry_pool* pool, void* memory, char const* name);

/* The pool's number in records. */
quarry_status quarry_pool_id(quarry_pool* pool, uint32_t* id);

/* Device memory of one GPU in the order of streams: what a stream freed serves it again at
 * once, and others only after they were made to wait. A stream is a cudaStream_t; null is the
 * legacy default stream, cudaStreamPerThread the calling thread's. A stream may be destroyed at any
 * time. QUARRY_RESOURCE_FAILED in a build without CUDA. */
typedef struct quarry_stream_pool quarry_stream_pool;

/* `options` as of a pool, but all is aligned to 256 at least, and there are no red zones and no
 * backtraces: QUARRY_BAD_ARGUMENT. */
quarry_status quarry_stream_pool_create(quarry_pool_options const* options,
                                        quarry_stream_pool** pool);
/* Waits until the streams are done. Null is ignored. */
quarry_status quarry_stream_pool_destroy(quarry_stream_pool* pool);
quarry_status quarry_stream_pool_allocate(quarry_stream_pool* pool, uint64_t size, void* stream,
                                          void** memory);
/* Once what `stream` has now is done. Who used it on others sees to it that `stream` waits. */
quarry_status quarry_stream_pool_deallocate(quarry_stream_pool* pool, void* memory, void* stream);
/* Lets others have what `stream` freed, by an event that is recorded now. */
quarry_status quarry_stream_pool_share(quarry_stream_pool* pool, void* stream);
/* Tells that a stream will not come again; nobody needs to. */
quarry_status quarry_stream_pool_forget(quarry_stream_pool* pool, void* stream);
/* Gives the blocks back in which nothing is in use, after waiting for who used them. */
quarry_status quarry_stream_pool_release(quarry_stream_pool* pool);
quarry_status quarry_stream_pool_get_counts(quarry_stream_pool* pool, quarry_pool_counts* counts);

/* Memory that processes share, by names. The segment is gone when the last has closed it; if that
 * was killed, when one who opens it later closes it. Offsets are the same in all processes,
 * addresses are not. */
typedef struct quarry_segment quarry_segment;

/* Opens segment `name` of `size` bytes, or makes it; 0: the size that it has. */
quarry_status quarry_segment_open(char const* name, uint64_t size, quarry_segment** segment);
/* Takes back this opening's references. Null is ignored. */
quarry_status quarry_segment_close(quarry_segment* segment);
/* The memory of that name, zeroed when it is new, and one reference more to it. */
quarry_status quarry_segment_allocate(quarry_segment* segment, char const* name, uint64_t size,
                                      void** memory);
/* The same if it is there; QUARRY_NOT_IN_USE if it is not. */
quarry_status quarry_segment_find(quarry_segment* segment, char const* name, void** memory);
/* One reference less. */
quarry_status quarry_segment_release(quarry_segment* segment, void* memory);
/* QUARRY_BAD_ARGUMENT for what lies outside of it. */
quarry_status quarry_segment_offset_of(quarry_segment* segment, void const* memory,
                                       uint64_t* offset);
quarry_status quarry_segment_at(quarry_segment* segment, uint64_t offset, void** memory);

/* What any address of any pool belongs to; it may lie inside an allocation. */
typedef struct quarry_record {
  uint32_t allocator;
  uint32_t resource; /* quarry_resource */
  uint32_t device;
  void* base;
  uint64_t size; /* as asked for */
} quarry_record;

/* QUARRY_NOT_IN_USE if no allocation has it. Takes no lock. */
quarry_status quarry_find(void const* address, quarry_record* record);

/* Allocators by name (allocators.hpp), for all of a program: made in one place, found in another.
 * Where a program and its plugins have copies of this library, each has names of its own. Nothing
 * is destroyed at the end of the program. QUARRY_BAD_ARGUMENT for an unknown name, one that is in
 * use already, or null. */
typedef struct quarry_allocator quarry_allocator;

/* Bytes, but for the last two. `reserved`: taken from the resource. */
typedef struct quarry_allocator_counts {
  uint64_t reserved;
  uint64_t peak_reserved;
  uint64_t allocated;
  uint64_t peak_allocated;
  uint64_t allocations;
  uint64_t invalid_frees;
} quarry_allocator_counts;

/* Makes what `description` says, such as "pool(device(0), first_block=1GiB)"; allocators.hpp says
 * what there is. `*allocator` is null unless QUARRY_OK; so with the next two. */
quarry_status quarry_allocator_make(char const* name, char const* description,
                                    quarry_allocator** allocator);
/* The allocator of that name or alias. */
quarry_status quarry_allocator_find(char const* name, quarry_allocator** allocator);
/* The allocator of what has `address`, which may lie inside it. */
quarry_status quarry_allocator_of(void const* address, quarry_allocator** allocator);
quarry_status quarry_allocator_add_alias(char const* alias, char const* name);
quarry_status quarry_allocator_remove_alias(char const* alias);
/* QUARRY_BAD_ARGUMENT, and nothing is changed, if a pool takes its blocks from it, or if memory of
 * it was not freed and `discards` is 0. */
quarry_status quarry_allocator_destroy(char const* name, int discards);

/* As of a pool. */
quarry_status quarry_allocator_allocate(quarry_allocator* allocator, uint64_t size, void** memory);
quarry_status quarry_allocator_deallocate(quarry_allocator* allocator, void* memory);
quarry_status quarry_allocator_size_of(quarry_allocator* allocator, void const* memory,
                                       uint64_t* size);
quarry_status quarry_allocator_release(quarry_allocator* allocator);
/* The same, and takes one block for what is missing to `wanted` bytes reserved. */
quarry_status quarry_allocator_coalesce(quarry_allocator* allocator, uint64_t wanted);
quarry_status quarry_allocator_get_counts(quarry_allocator* allocator,
                                          quarry_allocator_counts* counts);
/* Names an allocation for reports, until it is freed. QUARRY_NOT_IN_USE, too, if the registry does
 * not know the allocations of this allocator. */
quarry_status quarry_allocator_label(quarry_allocator* allocator, void* memory, char const* name);
/* Its number in records; 0 if the registry does not know its allocations. */
quarry_status quarry_allocator_id(quarry_allocator* allocator, uint32_t* id);

/* Free, resize or move an allocation of any allocator with a name, by its first address alone.
 * QUARRY_BAD_ARGUMENT, and nothing is changed, for any other address; null memory is ignored by
 * quarry_deallocate, and refused by the others. `*result` is null unless QUARRY_OK. */
quarry_status quarry_deallocate(void* memory);
quarry_status quarry_reallocate(void* memory, uint64_t size, void** result);
quarry_status quarry_move(void* memory, quarry_allocator* to, void** result);

/* Copies between any two allocations, or sets one to a value; parts of them too. Done on return.
 * QUARRY_BAD_ARGUMENT, and nothing is touched, if the registry does not know the memory, or it ends
 * before `size` bytes. */
quarry_status quarry_copy(void* to, void const* from, uint64_t size);
quarry_status quarry_fill(void* memory, int value, uint64_t size);

/* Writes a line for each live allocation and each allocator to a file, or to standard error if
 * `path` is null. */
quarry_status quarry_report(char const* path);

/* The version of the library that the program runs with, as QUARRY_VERSION and QUARRY_VERSION_TEXT
 * are those of the headers: 10203 and "1.2.3" for version 1.2.3. */
uint32_t quarry_version(void);
char const* quarry_version_text(void);

/* What this thread's latest call that did not give QUARRY_OK says. Valid until its next call. */
char const* quarry_last_error(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

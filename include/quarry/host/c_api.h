/* SPDX-License-Identifier: Apache-2.0 */
/* Host pools for C, and for what calls C. No exception crosses it: calls give a status, and
 * quarry_last_error says what happened. All functions may be called from any thread; calls to one
 * pool take turns.
 *
 * Handles (quarry_pool*, quarry_stream_pool*, quarry_segment*) are numbers, not addresses. Each is
 * given once, and nothing is read through it. A call on a handle whose object was destroyed or
 * closed gives QUARRY_DESTROYED. A call on a handle of another kind, on what is no handle, or on
 * null gives QUARRY_BAD_ARGUMENT. Both change nothing, and quarry_last_error says which handle it
 * is and what it is. To destroy or to close waits for the calls that are under way on the handle;
 * later ones get QUARRY_DESTROYED. A process has at most 2^20 handles at a time. Where a program
 * and its plugins have copies of this library, a handle is for calls of the copy that made it.
 *
 * A fork waits for calls on pools that are under way. The child has the same handles, and may use
 * and destroy those of QUARRY_HOST pools and of segments. A file's pages are shared with the
 * parent, whose pool does not know what the child's gives; and CUDA does not work in a child. Where
 * there are several copies of this library, a program must not fork while threads are in calls. */
#ifndef QUARRY_HOST_C_API_H
#define QUARRY_HOST_C_API_H

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

/* 0 means what quarry_pool_default_options says: so { .name = "x" } is a pool with a name. Bytes,
 * but for the growth: the least that is taken later, as percent of what is held (there 0 is
 * none). */
typedef struct quarry_pool_options {
  uint64_t first_block;
  uint64_t next_block;
  uint32_t growth_percent;
  uint64_t alignment;
  uint64_t most;
  int device;            /* QUARRY_DEVICE: its number */
  char const* directory; /* QUARRY_FILE: where the files go */
  char const* name;      /* for reports; null: "allocator N" */
} quarry_pool_options;

typedef struct quarry_pool_counts {
  uint64_t held;
  uint64_t most_held;
  uint64_t live;
  uint64_t most_live;
  uint64_t pieces_live;
  uint64_t blocks_taken;
  uint64_t blocks_given;
  uint64_t refused;
} quarry_pool_counts;

typedef struct quarry_pool quarry_pool;

/* The options of a pool of which nothing is said. */
quarry_pool_options quarry_pool_default_options(void);

/* Makes a pool of a quarry_resource; `options` may be null. `*pool` is null unless QUARRY_OK. */
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

/* Names an allocation for reports, until it is given back. */
quarry_status quarry_pool_note(quarry_pool* pool, void* memory, char const* name);

/* The pool's number in records. */
quarry_status quarry_pool_id(quarry_pool* pool, uint32_t* id);

/* Device memory of one GPU in the order of streams: what a stream gave back serves it again at
 * once, and others only after they were made to wait. A stream is a cudaStream_t; null is the
 * legacy default stream, cudaStreamPerThread the calling thread's. A stream may be destroyed at any
 * time. QUARRY_RESOURCE_FAILED in a build without CUDA. */
typedef struct quarry_stream_pool quarry_stream_pool;

/* `options` as of a pool, but all is aligned to 256 at least. */
quarry_status quarry_stream_pool_create(quarry_pool_options const* options,
                                        quarry_stream_pool** pool);
/* Waits until the streams are done. Null is ignored. */
quarry_status quarry_stream_pool_destroy(quarry_stream_pool* pool);
quarry_status quarry_stream_pool_allocate(quarry_stream_pool* pool, uint64_t size, void* stream,
                                          void** memory);
/* Once what `stream` has now is done. Who used it on others sees to it that `stream` waits. */
quarry_status quarry_stream_pool_deallocate(quarry_stream_pool* pool, void* memory, void* stream);
/* Lets others have what `stream` gave back, by an event that is recorded now. */
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

/* What any address of any pool belongs to; it may lie in the midst of an allocation. */
typedef struct quarry_record {
  uint32_t allocator;
  uint32_t resource; /* quarry_resource */
  uint32_t device;
  void* begin;
  uint64_t size; /* as asked for */
} quarry_record;

/* QUARRY_NOT_IN_USE if it is nobody's. Takes no lock. */
quarry_status quarry_find(void const* address, quarry_record* record);

/* Copies between any two allocations, or sets one to a value; parts of them too. Done on return.
 * QUARRY_BAD_ARGUMENT, and nothing is touched, if the registry does not know the memory, or it ends
 * before `size` bytes. */
quarry_status quarry_copy(void* to, void const* from, uint64_t size);
quarry_status quarry_fill(void* memory, int value, uint64_t size);

/* Writes a line for each live allocation and each allocator to a file, or to standard error if
 * `path` is null. */
quarry_status quarry_report(char const* path);

/* What this thread's latest call that did not give QUARRY_OK says. Valid until its next call. */
char const* quarry_last_error(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif

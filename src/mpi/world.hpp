// SPDX-License-Identifier: Apache-2.0
// The state of a running MPI program: the world, its ranks, and what they share.
//
// One source for both machines: each rank is a lane, a thread of the GPU or a fiber on the CPU.
#pragma once

#include "mailbox.hpp"

#include "quarry/device/heap_ref.hpp"
#include "quarry/mpi/mpi.h"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <cstdint>
#include <cstring>

namespace quarry::inline QUARRY_ABI::mpi {

using bytes = std::uint64_t;
namespace simt = quarry::simt;

struct request;
struct derived_type;
struct renamed_type;
struct user_op;
struct c_library;
struct error_handler;
struct added_error;
struct buffered_send;
struct membership_extra;
struct group;
struct keyval;
struct attribute;
struct information;
struct schedule;
struct incoming_message;

/// The start of each rank's record; the program's global variables follow (compiler/privatize.hpp).
struct record_header {
  std::uint32_t place;  // the number of the place in the source of the last MPI call
  std::uint32_t unused[3];
};
static_assert(sizeof(record_header) == 16);

struct topology;
struct called_collectives;
struct communicator_meeting;
struct immediate_copies;
struct group_pair;
struct checks;

/// A communicator. Its members share it; it is constant after its creation. An intercommunicator
/// has one for each of its two groups: the members of that group send to the ranks in `members`.
struct alignas(16) communicator {
  std::uint32_t size;
  std::uint32_t context;                 // messages of users; context + 1: messages of collectives
  std::uint32_t* members;                // ranks of the world by rank; null: the same ranks
  std::uint32_t references;              // ranks that have not freed it; atomic
  std::uint32_t keeps_contexts = 0;      // atomic: a rank has freed it before its last receive
  communicator* local = nullptr;         // of an intercommunicator: those who send; else null
  topology* shape = nullptr;             // MPI_Cart_create or MPI_Graph_create; else null
  called_collectives* called = nullptr;  // atomic: of programs with --check; else null
  immediate_copies* copies = nullptr;    // atomic: MPI_Comm_idup of one group; else null
  group_pair* pair = nullptr;            // of an intercommunicator: what both groups share
  communicator_meeting* meeting = nullptr;  // where its members meet; null: the world, or nowhere

  [[nodiscard]] QUARRY_HD std::uint32_t world_rank(std::uint32_t rank, std::uint32_t own) const {
    return members != nullptr ? members[rank] : size == 1 ? own : rank;
  }
};

/// A rank's membership in a communicator. Handles of communicators are numbers of memberships.
struct membership {
  communicator* shared;  // null: free
  std::uint32_t rank;
  std::uint32_t size;              // of `shared`, so that calls need not read it
  std::uint32_t context;           // of `shared`
  std::uint32_t collectives : 28;  // how many collective operations this rank has begun
  std::uint32_t meetings : 4;      // how many meetings of communicator_meeting
  MPI_Errhandler handler;
  std::uint32_t extra = 0;  // its number in the rank's `extras`, and 1; 0: none
};
static_assert(sizeof(membership) == 32);

/// What a rank waits for. The launcher reads it from the host.
struct wait_reason {
  std::uint32_t call;  // a `call` (calls.hpp); 0: the rank does not wait
  std::int32_t peer;   // a rank of the communicator, MPI_ANY_SOURCE, or MPI_PROC_NULL for none
  std::int32_t tag;    // in a meeting that reduces several numbers: how many
  std::uint32_t context;
  std::uint32_t place;
  std::uint32_t is_for_memory;  // the rank waits for memory of the heap
};

enum class life : std::uint32_t { running, finalized, done };

/// A table of pointers whose indices are handles. Used by one rank.
template <class T>
struct handle_table {
  T** entries;
  std::uint32_t capacity;
};

/// The state of one rank. Only the rank uses it, except for fields marked otherwise.
struct alignas(128) rank_state {
  // Messages and requests need these 96 bytes. Where ranks fill the GPU, each line of memory that a
  // call touches costs time.
  mail_position position;     // in its mailbox
  message* unexpected_first;  // messages that no receive has matched yet, in order of arrival
  message* unexpected_last;
  request* posted_first;  // receives that no message has matched yet, in order of calls
  request* posted_last;
  message* spare;  // for messages that no receive waits for
  std::uint32_t spares;
  std::uint32_t spare_requests;
  request* spare_request;  // for reuse
  handle_table<request> requests;
  std::uint32_t rank;
  std::uint32_t memberships;
  membership* member_of;

  message* long_spare;  // for messages in extensions that no receive waits for
  std::uint32_t long_spares;
  std::uint32_t next_kept;
  message*
      kept[4];   // messages that this rank has sent, for reuse after the receiver (outgoing.hpp)
  message sent;  // of a blocking send that waits for the receiver
  handle_table<derived_type> types;
  handle_table<user_op> ops;
  handle_table<error_handler> handlers;
  request* freed_requests;  // MPI_Request_free: operations that are not done, but receives
  void* attached_buffer;    // MPI_Buffer_attach; null: none
  std::int32_t attached_bytes;
  std::uint32_t is_initialized;
  int error_number;    // errno
  c_library* library;  // of the C library's functions; null before the first that needs it

  // read by the launcher
  wait_reason waiting;
  std::int32_t awaited;  // the world's rank that it waits for; MPI_ANY_SOURCE if it is not one
  std::uint32_t awaiting_members;  // how many ranks the wait's communicator has; 0 if unknown
  /// How often in a row a message has stayed in the mailbox because the heap is full. Later
  /// messages are hidden behind it.
  std::uint32_t looks_without_memory;
  life stage;
  std::int32_t exit_code;
  std::uint64_t steps;      // how often the rank has got what it waited for
  std::uint64_t polled_at;  // CPU, atomic: the world's activity when this rank last found nothing

  handle_table<membership_extra> extras;
  handle_table<group> groups;
  handle_table<keyval> keyvals;
  handle_table<information> infos;
  information* environment;     // MPI_INFO_ENV; null until the program asks for it
  checks* checked;              // of programs with --check; else null
  attribute* attributes;        // of all objects of this rank, the youngest first
  int attribute_values[8];      // of the keys that mpi.h names
  int last_error_code;          // that the program has added, or MPI_ERR_LASTCODE; 0 stands for it
  renamed_type* renamed_types;  // MPI_Type_set_name: a list
  schedule* schedules;          // collective operations that are not complete (schedule.hpp)
  std::uint32_t is_advancing;   // `advance_schedules` runs
  std::uint32_t send_waits;     // the program's last send lasts until its receiver has the message
  buffered_send* buffered;      // long messages in the attached buffer (buffered_sends.hpp)
  handle_table<message> matched;     // MPI_Mprobe: messages without a receive
  handle_table<added_error> errors;  // error classes and codes that the program has added
  std::uint64_t refused_at;          // CPU: the world's activity when the heap last had no memory
  std::uint32_t shortages_seen;      // the world's `shortages` when this rank last freed its spares
#ifdef QUARRY_MPI_PROCESSES
  std::uint32_t sent_in_parts;        // messages to ranks of other processes
  incoming_message* incoming;         // of which parts are missing (message_parts.hpp)
  std::uint64_t acknowledged_in_use;  // a bit for each of the rank's words
#endif
};

struct block_place;

/// What the ranks that meet share (meeting.hpp), apart from the places of blocks on the GPU. Nobody
/// changes these pointers.
struct meeting_place {
  block_place* blocks;        // CPU only: of each block
  std::uint32_t block_ranks;  // CPU only: the number of ranks of a block, a power of two
  std::uint32_t joins_lanes;  // CPU only: lanes of a warp that arrive together arrive as one
  std::uint32_t first_block;  // GPU only: how many blocks the GPUs before this one have
  std::uint32_t all_blocks;   // GPU only: of all GPUs
  std::uint64_t* counters;    // of each kind of meeting: how many blocks have arrived; atomic
  std::uint64_t* values;  // of each block, for even and for odd meetings: operands of reductions
  std::uint32_t* nodes;   // of each rank: the node of the tree in meeting::reduce; atomic
  char* parts;            // of each rank: its operand in meeting::reduce
  char* results;          // of even and of odd meetings
};

/// Contexts of communicators that were freed (context_numbers.hpp).
class freed_contexts;

/// Output on its way to the host: records in order of tickets (output.hpp).
struct output_ring;
/// Requests of ranks for the host's files (host_calls.hpp).
struct host_call_ring;

/// CPU: where a rank continues when it ends early (rank.hpp).
struct early_end;

/// The stream of reports (checks.hpp) in a rank's output: the launcher replaces `@N@` by place N of
/// the source.
inline constexpr std::uint8_t report_stream = 4;

/// Why the program ended early. The first rank that fails writes it; the launcher prints it with
/// the place in the source.
struct failure {
  static constexpr std::uint32_t text_bytes = 256;
  std::uint32_t length;  // of the text; 0: there is nothing to print
  std::uint32_t place;   // the number of the place in the source of the rank's last MPI call
  char text[text_bytes];
};

/// The calls of malloc and its family that have returned null. The launcher reports them if the
/// program fails. The record lies in the host's memory, also on a GPU, whose memory is lost after a
/// fault.
struct refused_memory {
  std::uint64_t count;       // at least; atomic
  std::uint64_t first_size;  // in bytes, of the first call
  std::uint32_t first;       // its rank + 1; 0 if it is not known yet; atomic
};

/// What serves malloc (quarry-mpirun --malloc). The ways over CUDA's malloc are those of the paper;
/// on the CPU they use the C library's malloc.
enum class malloc_kind : std::uint32_t {
  collective,    ///< the world's heap, with the classes of the compiler's analysis
  dynamic,       ///< the world's heap, without the classes
  cuda,          ///< CUDA's malloc
  cuda_dynamic,  ///< CUDA's malloc for dynamic superblocks: the paper's «header»
  cuda_map       ///< CUDA's malloc for static superblocks of a warp: the paper's «no-header»
};

struct trace_record;
struct rank_trace;

/// How often something happened for which a rank may wait, on one thread that runs ranks.
struct alignas(64) activity_counter {
  std::uint64_t count = 0;  // atomic
};

/// The memory of a trace (trace.hpp). Rank r has the records from r * (limit + 1) on. Record number
/// `limit` is the rank's last one if more were written.
struct trace_memory {
  trace_record* records;  // null: no trace is wanted
  rank_trace* ranks;
  std::uint32_t limit;  // of each rank
  std::uint32_t unused;
};

struct world {
  std::uint32_t is_gpu;
  malloc_kind malloc;
  communicator all;
  meeting_place meeting;       // CPU only: the GPU has quarry_mpi_meeting_place
  std::uint32_t next_context;  // atomic
  freed_contexts* freed;       // atomic; null until a communicator is freed (context_numbers.hpp)
  std::uint32_t aborted;       // atomic: all ranks end; the code is `abort_code`
  std::int32_t abort_code;
  failure first_failure;
  activity_counter* activity;  // CPU only: of each thread that runs ranks
  std::uint32_t threads;       // CPU only: their number
  output_ring* output;
  host_call_ring* host_calls;  // null on the CPU
  char** environment;          // NAME=VALUE, then null
  int argc;
  char** argv;
  std::uint64_t start_ns;
  early_end* ends;      // CPU only: of each rank
  void* compared_heap;  // the state of a coalescing_ref (compared_malloc.cpp)
  trace_memory trace;   // quarry-mpirun --trace
  // The bytes of dynamic superblocks of all GPUs (rank_memory.cpp), atomic, and how many there may
  // be: a share of one GPU's heap.
  std::uint64_t superblock_bytes;
  std::uint64_t max_superblock_bytes;
  std::uint32_t shortages;  // atomic: how often an allocation has failed
  std::uint32_t gpus;       // that run ranks; 0 on the CPU
  std::uint64_t refusals;   // atomic: how often malloc or one of its family has returned null
  refused_memory* refused;
  // Atomic: how often free or realloc got an address that is not allocated and the heap has not
  // counted.
  std::uint64_t wrong_addresses;
};

/// A superblock lives as long as its last segment. Where lifetimes differ that is four times as
/// long as the others, so that superblocks alone would fill a heap of which a quarter is in use.
/// They may have this share of the heap: 1 / 8.
[[nodiscard]] constexpr std::uint64_t superblock_share(bytes heap) { return heap / 8; }

/// Without --ranks-per-warp, warps have one or two ranks if all ranks fit so, else 32. A rank has
/// 2^shift threads.
inline constexpr std::uint32_t least_shared_shift = 4;

/// What every rank reads and no rank changes. On the GPU it lies in constant memory, which stays in
/// the cache where other memory does not (after an acquire). The compiler emits loads of the first
/// three fields and knows the size. Each GPU of a launch has its own.
struct launch_layout {
  char* records;  // of this GPU's ranks
  std::uint64_t record_bytes;
  std::uint32_t shift;  // a rank has 2^shift threads, of which the first runs it
  std::uint32_t size;   // the number of ranks
  world* all;
  rank_state* ranks;
  mail* mailboxes;                // of each rank
  std::uint64_t* extensions;      // of each slot of each mailbox
  std::uint32_t extension_units;  // of one slot: a multiple of 16
  std::uint32_t first_rank;       // of this GPU
  std::uint64_t heap_bits[2];     // a heap_ref; CUDA's constant memory accepts no constructor
  heap_ref const* heaps;          // of each GPU; null if there is one heap

  void set_heap(heap_ref heap) { std::memcpy(heap_bits, &heap, sizeof(heap)); }
  [[nodiscard]] QUARRY_HD heap_ref heap() const {
    heap_ref result;
    std::memcpy(&result, heap_bits, sizeof(result));
    return result;
  }
};
static_assert(sizeof(launch_layout) == 88);

/// Extensions have room for messages of at most this many bytes.
inline constexpr std::uint32_t most_extended = 4096;

/// The same where ranks share warps: one thread copies longer messages faster in other ways.
inline constexpr std::uint32_t most_extended_alone = 512;

/// The units of a slot's extension for messages of at most `size` bytes, if all extensions may take
/// `budget` bytes. Ranks of several processes have at least 16, for parts of messages lie there.
[[nodiscard]] constexpr std::uint32_t extension_units_for(bytes budget, std::uint32_t ranks,
                                                          std::uint32_t size) {
  bytes const units = budget / (bytes{ranks} * mail_slots * sizeof(std::uint64_t)) / 16 * 16;
  bytes const most = size / sizeof(std::uint32_t);
  auto const chosen = static_cast<std::uint32_t>(units < most ? units : most);
  return spans_processes && chosen == 0 ? 16 : chosen;
}
static_assert(extension_units_for(1024, 1024, 4096) == (spans_processes ? 16 : 0));
/// Extensions of all ranks take at most so much memory of a GPU. With 262,144 ranks one has room
/// for 128 bytes.
inline constexpr bytes extension_budget = bytes{256} << 20;

}  // namespace quarry::inline QUARRY_ABI::mpi

#ifdef __CUDACC__
extern "C" __constant__ quarry::mpi::launch_layout quarry_mpi_layout;
extern "C" __constant__ quarry::mpi::meeting_place quarry_mpi_meeting_place;
#else
extern "C" quarry::mpi::launch_layout quarry_mpi_layout;
#endif

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline launch_layout const& layout() {
#if defined(__CUDA_ARCH__) || !defined(__CUDACC__)
  return quarry_mpi_layout;
#else
  return *static_cast<launch_layout const*>(nullptr);  // nvcc's host pass; never called
#endif
}

[[nodiscard]] QUARRY_HD inline world& the_world() { return *layout().all; }

/// Whether there are several GPUs. Each of them has a heap and a copy of the program's constants.
[[nodiscard]] QUARRY_HD inline bool spans_gpus() { return layout().heaps != nullptr; }

/// The heap that has `memory`. Any rank may free what a rank of another GPU has allocated.
[[nodiscard]] QUARRY_HD inline heap_ref heap_of(void const* memory) {
  heap_ref const own = layout().heap();
  if (!spans_gpus() || memory == nullptr || own.owns(memory)) return own;
  for (std::uint32_t i = 0; i < the_world().gpus; ++i)
    if (layout().heaps[i].owns(memory)) return layout().heaps[i];
  return own;  // which records a fault
}

/// The rank's number among those of its GPU, or of the CPU.
[[nodiscard]] QUARRY_HD inline std::uint32_t local_rank() {
#ifdef __CUDA_ARCH__
  return (blockIdx.x * blockDim.x + threadIdx.x) >> layout().shift;  // the grid has one dimension
#else
  return static_cast<std::uint32_t>(simt::this_place().rank());
#endif
}

[[nodiscard]] QUARRY_HD inline std::uint32_t own_rank() {
#ifdef __CUDA_ARCH__
  return layout().first_rank + local_rank();
#else
  return spans_processes ? layout().first_rank + local_rank() : local_rank();
#endif
}

/// The state of a rank of this process.
[[nodiscard]] QUARRY_HD inline rank_state& state_of(std::uint32_t rank) {
  return layout().ranks[index_in_process(rank)];
}
/// The rank's mailbox. If the rank is not near: its place in this process's memory.
[[nodiscard]] QUARRY_HD inline mail& mailbox_of(std::uint32_t rank) {
  return layout().mailboxes[index_in_process(rank)];
}
using sender_slot = mail_slot<mail_slots, mail_way>;

/// The same for its extensions.
[[nodiscard]] QUARRY_FAST slot_extensions extensions_of(std::uint32_t rank) {
  std::uint32_t const units = layout().extension_units;
  return {layout().extensions + std::uint64_t{index_in_process(rank)} * (mail_slots * units),
          units};
}
/// The longest message that fits in an extension.
[[nodiscard]] QUARRY_FAST std::uint32_t extended_bytes() {
  return layout().extension_units * static_cast<std::uint32_t>(sizeof(std::uint32_t));
}
[[nodiscard]] QUARRY_HD inline rank_state& self() { return state_of(own_rank()); }

[[nodiscard]] QUARRY_HD inline record_header& own_record() {
  return *reinterpret_cast<record_header*>(layout().records + layout().record_bytes * local_rank());
}

}  // namespace quarry::inline QUARRY_ABI::mpi

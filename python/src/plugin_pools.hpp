// SPDX-License-Identifier: Apache-2.0
// The pools that serve PyTorch, CuPy, Numba and RMM: one for each GPU, made on first use.
#pragma once

#include "quarry/host/pools/locked_stream_pool.hpp"
#include "quarry/host/resources/any_resource.hpp"

#include "plugin_recordings.hpp"

#include <string>
#include <vector>

namespace quarry::python {

/// The pools of the process. All functions are safe to call from any thread, with or without
/// Python's lock.
///
/// Process exit. Frameworks free after the destructors of this module have run, and when CUDA may
/// be shut down. So the pools are never destroyed. As soon as the C runtime's exit handlers run,
/// `deallocate` does nothing and `allocate` fails: the driver takes all memory when the process
/// ends. The file of the program's recording is completed then.
namespace plugin_pools {

/// Sets the options of the pools to be made, of GPU `device` or (-1) of all GPUs. Throws
/// `bad_state` if such a pool exists, and `bad_argument`.
void configure(int device, stream_pool_options const& options);
/// Makes the pool of GPU `device` take its blocks from `upstream`. If these are host memory, the
/// pool needs no GPU, and each handle is a stream whose work ends at once. If `calls_python`,
/// Python's lock is released before the pool's lock is taken, because `upstream` needs Python's
/// lock. Throws `bad_state` if the pool exists.
void set_upstream(int device, any_resource upstream, bool calls_python);

/// Allocates for later work of `stream`. Throws what the pool throws, and keeps the message. A
/// recording shows `sites` as the place of the allocation.
[[nodiscard]] void* allocate(framework user, bytes size, int device, cuda_stream stream,
                             plugin_recordings::site_numbers const& sites);
/// The same for programs that do not name the stream of later work. CUDA's blocking streams that
/// use the memory wait for the work of all blocking streams so far.
[[nodiscard]] void* allocate_for_all_streams(framework user, bytes size, int device,
                                             plugin_recordings::site_numbers const& sites);
/// Frees in the order of `stream`, which must exist, and after the present work of the streams that
/// `record_use` named. Ignores invalid pointers, which the pool counts.
void deallocate(framework user, void* pointer, int device, cuda_stream stream) noexcept;
/// Announces that work of `stream` uses the allocation, too. The streams must exist when the
/// allocation is freed.
void record_use(void* pointer, cuda_stream stream) noexcept;

/// Zeros if the GPU's pool does not exist.
[[nodiscard]] stream_pool_counts counts(int device);
[[nodiscard]] std::vector<std::string> audit(int device);
/// Waits for all work, and returns blocks without allocations. -1 means all GPUs.
void release(int device) noexcept;
/// The message of the last failed allocation of the process; empty if there is none.
[[nodiscard]] std::string last_error();

}  // namespace plugin_pools

}  // namespace quarry::python

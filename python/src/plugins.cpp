// SPDX-License-Identifier: Apache-2.0
// The plug-ins for PyTorch, CuPy, Numba and RMM: C functions for PyTorch, and what python/quarry
// needs for the others.
#include "quarry/core/errors.hpp"
#include "quarry/host/resources/callback_resource.hpp"

#include "plain_class.hpp"
#include "plugin_pools.hpp"

#include <functional>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <sys/types.h>
#include <utility>

// PyTorch takes nullptr from its global allocator for an address, and uses it. Only an exception
// makes an allocation fail. PyTorch's own code calls the function, and passes exceptions on. To
// raise torch.OutOfMemoryError, the exception must be a torch::PyTorchError: PyTorch raises the
// Python class that this exception names. This module does not link with PyTorch, so it declares
// the class again: the same name, virtual functions and member. If a release of PyTorch renames
// that class, PyTorch still catches a std::exception, and raises RuntimeError with this message.
namespace torch {
struct [[gnu::visibility("default")]] PyTorchError : std::exception {
  virtual PyObject* python_type() = 0;
  [[nodiscard]] char const* what() const noexcept override { return msg.c_str(); }
  std::string msg;
};
}  // namespace torch

namespace quarry::python {
namespace {

using namespace nb::literals;

PyObject* pytorch_out_of_memory = nullptr;  // set once, before PyTorch allocates

struct pytorch_error final : torch::PyTorchError {
  pytorch_error(std::string message, bool is_out_of_memory) : is_out_of_memory_{is_out_of_memory} {
    msg = std::move(message);
  }
  PyObject* python_type() override {  // is called with Python's lock
    return is_out_of_memory_ && pytorch_out_of_memory != nullptr ? pytorch_out_of_memory
                                                                 : PyExc_RuntimeError;
  }

 private:
  bool is_out_of_memory_;
};

using plugin_recordings::site_numbers;

bytes size_for(ssize_t size) { return size < 0 ? 0 : static_cast<bytes>(size); }

/// Calls a pool's functions with a stream that Python names by its handle.
cuda_stream stream_of(std::uint64_t handle) { return reinterpret_cast<cuda_stream>(handle); }

/// Finds the call site with Python's lock, then allocates without it.
void* allocate_from_python(framework user, bytes size, int device, cuda_stream stream) {
  site_numbers const sites = site_numbers::find();
  released_gil const without_lock;
  return user == framework::numba
             ? plugin_pools::allocate_for_all_streams(user, size, device, sites)
             : plugin_pools::allocate(user, size, device, stream, sites);
}

/// An allocation that a Python object owns.
class plugin_allocation {
 public:
  plugin_allocation(framework user, bytes size, int device, std::uint64_t stream)
      : user_{user},
        device_{device},
        stream_{stream_of(stream)},
        pointer_{allocate_from_python(user, size, device, stream_)} {}
  plugin_allocation(plugin_allocation const&) = delete;
  plugin_allocation& operator=(plugin_allocation const&) = delete;
  ~plugin_allocation() { plugin_pools::deallocate(user_, pointer_, device_, stream_); }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(pointer_); }

 private:
  framework user_;
  int device_;
  cuda_stream stream_;
  void* pointer_;
};

void configure(int device, bytes first_block, bytes next_block, std::uint32_t growth_percent,
               std::optional<bytes> max_bytes, bool grows_first, bool is_tracked) {
  plugin_pools::configure(device, {.first_block = first_block,
                                   .next_block = next_block,
                                   .growth_percent = growth_percent,
                                   .max_bytes = max_bytes.value_or(no_limit),
                                   .grows_first = grows_first,
                                   .is_tracked = is_tracked});
}

/// Blocks from Python functions: `allocate(size) -> address` and `deallocate(address, size)`.
void set_upstream(int device, nb::callable allocate, nb::callable deallocate, bool is_host_memory) {
  // Never destroyed, as the pool: Python may be gone by then.
  auto* const functions = new std::pair{std::move(allocate), std::move(deallocate)};
  auto const from_python = [functions](bytes size, bytes) -> void* {
    held_gil const lock;
    try {
      return reinterpret_cast<void*>(nb::cast<std::uint64_t>(functions->first(size)));
    } catch (nb::python_error const& failed) {  // its destructor needs Python's lock
      if (failed.matches(PyExc_MemoryError)) return nullptr;
      throw resource_failed{"plugins: the upstream", failed.what()};
    }
  };
  auto const to_python = [functions](void* pointer, bytes size, bytes) {
    held_gil const lock;
    try {
      functions->second(reinterpret_cast<std::uint64_t>(pointer), size);
    } catch (nb::python_error& failed) {
      failed.discard_as_unraisable("quarry: the upstream's deallocate");
    }
  };
  memory_location const location =
      is_host_memory ? memory_location{memory_kind::host}
                     : memory_location{memory_kind::device, static_cast<std::uint8_t>(device)};
  plugin_pools::set_upstream(
      device, any_resource{callback_resource{from_python, to_python, location}}, true);
}

}  // namespace
}  // namespace quarry::python

// The functions of torch.cuda.memory.CUDAPluggableAllocator.
extern "C" {

#define QUARRY_TORCH_FUNCTION [[gnu::visibility("default"), gnu::used]]

QUARRY_TORCH_FUNCTION void* quarry_torch_allocate(ssize_t size, int device,
                                                  quarry::cuda_stream stream) {
  using namespace quarry::python;
  try {
    // PyTorch calls without Python's lock, and without its own.
    return plugin_pools::allocate(framework::pytorch, size_for(size), device, stream,
                                  site_numbers::find_with_lock());
  } catch (quarry::out_of_memory const& failed) {
    throw pytorch_error{failed.what(), true};
  } catch (std::exception const& failed) {
    throw pytorch_error{failed.what(), false};
  }
}

/// For memory pools, where PyTorch expects nullptr from an allocation that fails. Segments have no
/// call sites: PyTorch holds the lock of its caching allocator. A thread with Python's lock may
/// wait for it, and finalizers that run during the lookup would re-enter that allocator.
QUARRY_TORCH_FUNCTION void* quarry_torch_allocate_segment(ssize_t size, int device,
                                                          quarry::cuda_stream stream) noexcept {
  using namespace quarry::python;
  try {
    return plugin_pools::allocate(framework::pytorch_segments, size_for(size), device, stream,
                                  site_numbers{});
  } catch (...) {
    return nullptr;
  }
}

QUARRY_TORCH_FUNCTION void quarry_torch_deallocate(void* pointer, ssize_t, int device,
                                                   quarry::cuda_stream stream) noexcept {
  using namespace quarry::python;
  plugin_pools::deallocate(framework::pytorch, pointer, device, stream);
}

QUARRY_TORCH_FUNCTION void quarry_torch_deallocate_segment(void* pointer, ssize_t, int device,
                                                           quarry::cuda_stream stream) noexcept {
  using namespace quarry::python;
  plugin_pools::deallocate(framework::pytorch_segments, pointer, device, stream);
}

QUARRY_TORCH_FUNCTION void quarry_torch_record_stream(void* pointer,
                                                      quarry::cuda_stream stream) noexcept {
  quarry::python::plugin_pools::record_use(pointer, stream);
}

QUARRY_TORCH_FUNCTION void quarry_torch_empty_cache() noexcept {
  quarry::python::plugin_pools::release(-1);
}

/// Called before a CUDA graph is captured. The graph's memory must stay reserved for its replays,
/// which this allocator cannot promise.
QUARRY_TORCH_FUNCTION void quarry_torch_refuse_pool(
    int, std::pair<unsigned long long, unsigned long long>,
    std::function<bool(quarry::cuda_stream)>) {
  throw quarry::python::pytorch_error{
      "quarry.torch: CUDA graphs and memory pools need PyTorch's caching allocator, which "
      "quarry.torch.use() replaced; use `with quarry.torch.pool():` instead of use()",
      false};
}

#undef QUARRY_TORCH_FUNCTION
}

namespace quarry::python {

void add_plugins(nb::module_& core) {
  plain_class<stream_pool_counts>{core, "StreamPoolCounts",
                                  "What a stream pool holds, and what it has done until now."}
      .add("reserved", &stream_pool_counts::reserved, "Bytes of the pool's blocks.")
      .add("peak_reserved", &stream_pool_counts::peak_reserved, "The most bytes reserved.")
      .add("allocated", &stream_pool_counts::allocated, "Requested bytes that are not freed yet.")
      .add("peak_allocated", &stream_pool_counts::peak_allocated, "The most bytes allocated.")
      .add("granted", &stream_pool_counts::granted,
           "Bytes of the chunks that serve the allocations.")
      .add("allocations", &stream_pool_counts::allocations, "Number of allocations until now.")
      .add("deallocations", &stream_pool_counts::deallocations, "Number of frees until now.")
      .add("allocations_in_use", &stream_pool_counts::allocations_in_use,
           "Allocations that are not freed yet.")
      .add("invalid_frees", &stream_pool_counts::invalid_frees, "Frees that the pool refused.")
      .add("blocks_allocated", &stream_pool_counts::blocks_allocated,
           "Blocks taken from the upstream.")
      .add("blocks_returned", &stream_pool_counts::blocks_returned,
           "Blocks returned to the upstream.")
      .add("events", &stream_pool_counts::events, "Events recorded in streams.")
      .add("waits", &stream_pool_counts::waits, "Times that a stream waited for another one.")
      .add("shares", &stream_pool_counts::shares,
           "Times that the pool made the free memory of all streams available to each of them.")
      .add("streams", &stream_pool_counts::streams, "Streams that have used the pool.");

  nb::enum_<framework>(core, "Framework", "Who allocates from the plug-ins' pools.")
      .value("CUPY", framework::cupy)
      .value("NUMBA", framework::numba)
      .value("RMM", framework::rmm);
  nb::class_<plugin_allocation>(core, "PluginAllocation",
                                "Memory of a plug-in's pool. Freed with this object.")
      .def(nb::init<framework, bytes, int, std::uint64_t>(), "user"_a, "size"_a, "device"_a,
           "stream"_a = 0)
      .def_prop_ro("address", &plugin_allocation::address);
  core.def(
      "plugin_allocate",
      [](framework user, bytes size, int device, std::uint64_t stream) {
        return reinterpret_cast<std::uint64_t>(
            allocate_from_python(user, size, device, stream_of(stream)));
      },
      "user"_a, "size"_a, "device"_a, "stream"_a = 0);
  core.def(
      "plugin_deallocate",
      [](framework user, std::uint64_t address, int device, std::uint64_t stream) {
        plugin_pools::deallocate(user, reinterpret_cast<void*>(address), device, stream_of(stream));
      },
      "user"_a, "address"_a, "device"_a, "stream"_a = 0, without_gil{});
  core.def("plugin_configure", configure, "device"_a, nb::kw_only(), "first_block"_a,
           "next_block"_a, "growth_percent"_a, "max_bytes"_a.none(), "grows_first"_a,
           "is_tracked"_a);
  core.def("plugin_set_upstream", set_upstream, "device"_a, "allocate"_a, "deallocate"_a,
           "is_host_memory"_a = false,
           nb::sig("def plugin_set_upstream(device: int, allocate: typing.Callable[[int], int], "
                   "deallocate: typing.Callable[[int, int], None], is_host_memory: bool = False) "
                   "-> None"));
  core.def("plugin_counts", plugin_pools::counts, "device"_a, without_gil{});
  core.def("plugin_audit", plugin_pools::audit, "device"_a, without_gil{});
  core.def("plugin_release", plugin_pools::release, "device"_a, without_gil{});
  core.def("plugin_last_error", plugin_pools::last_error);
  core.def("plugin_start_recording", plugin_recordings::start, "path"_a, "call_sites"_a);
  core.def("plugin_join_recording", plugin_recordings::join, "recorder"_a);
  core.def("plugin_stop_recording", plugin_recordings::stop, without_gil{});
  core.def("plugin_forget_recordings", plugin_recordings::forget);
  core.def(
      "plugin_set_pytorch_error",
      [](nb::object type) { pytorch_out_of_memory = type.release().ptr(); }, "type"_a);
}

}  // namespace quarry::python

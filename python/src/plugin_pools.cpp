// SPDX-License-Identifier: Apache-2.0
#include "plugin_pools.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include "module.hpp"
#include "plugin_streams.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace quarry::python::plugin_pools {
namespace {

constexpr int max_devices = 64;

using plugin_recordings::record;
using plugin_recordings::site_numbers;

std::atomic<bool> is_exiting{false};

/// Records the blocks that the pool takes from its upstream.
class block_recorder {
 public:
  explicit block_recorder(any_resource upstream) : upstream_{std::move(upstream)} {}
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    void* const result = upstream_.allocate(size, alignment);
    plugin_recordings::record_block(trace::event_kind::reserve, result, size);
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    plugin_recordings::record_block(trace::event_kind::unreserve, pointer, size);
    upstream_.deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() { return upstream_.location(); }

 private:
  any_resource upstream_;
};

/// The pool of one GPU, with the allocations that several streams use.
class device_pool {
  using locked_pool = locked_stream_pool<block_recorder, plugin_streams>;
  using pool_type = locked_pool::pool_type;

  template <class Work>
  decltype(auto) locked(Work&& work) {
    std::optional<released_gil> released;
    if (calls_python_ && has_gil()) released.emplace();
    return pool_.with(std::forward<Work>(work));
  }

 public:
  device_pool(int device, any_resource upstream, stream_pool_options const& options,
              bool calls_python)
      : device_pool{plugin_streams{upstream.location(), device}, std::move(upstream), options,
                    calls_python} {}
  device_pool(plugin_streams streams, any_resource upstream, stream_pool_options const& options,
              bool calls_python)
      : calls_python_{calls_python},
        pool_{block_recorder{std::move(upstream)}, std::move(streams), options} {}

  [[nodiscard]] void* allocate(framework user, bytes size, cuda_stream stream, bool for_all_streams,
                               site_numbers const& sites) {
    return locked([&](pool_type& pool) {
      free_finished(pool);
      if (for_all_streams) order_all_streams(pool);
      void* result = nullptr;
      try {
        result = pool.allocate(size, stream);
      } catch (std::exception const&) {
        try {
          if (waiting_.empty()) throw;
          finish_waiting(pool);
          result = pool.allocate(size, stream);
        } catch (std::exception const&) {
          record(user, {.size = size, .granted = free_bytes(pool), .kind = trace::event_kind::fail},
                 stream, sites);
          throw;
        }
      }
      if (plugin_recordings::are_under_way())
        record(user,
               {.address = address_of(result),
                .size = size,
                .granted = pool.sizes_of(result)->granted,
                .kind = trace::event_kind::allocate},
               stream, sites);
      return result;
    });
  }

  void deallocate(framework user, void* pointer, cuda_stream stream) noexcept {
    locked([&](pool_type& pool) {
      has_freed_ = true;
      if (!uses_.empty()) {
        auto const used = uses_.extract(pointer);
        if (!used.empty() && waits_for(pool, {pointer, stream, user}, used.mapped())) return;
      }
      free_now(pool, {pointer, stream, user});
    });
  }

  /// False if this pool did not allocate `pointer`.
  bool record_use(void* pointer, cuda_stream stream) {
    return locked([&](pool_type& pool) {
      if (!pool.size_of(pointer)) return false;
      auto& streams = uses_[pointer];
      if (std::ranges::find(streams, stream) == streams.end()) streams.push_back(stream);
      return true;
    });
  }

  [[nodiscard]] stream_pool_counts counts() {
    return locked([&](pool_type& pool) { return pool.counts(); });
  }
  [[nodiscard]] std::vector<std::string> audit() {
    return locked([&](pool_type& pool) { return pool.audit(); });
  }
  void release() noexcept {
    locked([&](pool_type& pool) {
      finish_waiting(pool);
      pool.release();
    });
  }

 private:
  struct requested_free {
    void* pointer;
    cuda_stream stream;
    framework user;
  };
  /// A freed allocation that work of other streams still uses.
  struct waiting_free : requested_free {
    std::vector<plugin_streams::event> events;
  };

  [[nodiscard]] static std::uint64_t address_of(void const* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
  [[nodiscard]] static bytes free_bytes(pool_type const& pool) {
    auto const counts = pool.counts();
    return counts.reserved - counts.granted;
  }

  /// Frees an allocation, and records that: until now its memory could not be reused.
  static void free_now(pool_type& pool, requested_free const& freed) noexcept {
    if (plugin_recordings::are_under_way()) {
      if (auto const size = pool.size_of(freed.pointer))
        record(freed.user,
               {.address = address_of(freed.pointer),
                .size = *size,
                .kind = trace::event_kind::deallocate},
               freed.stream, {});
    }
    (void)pool.deallocate(freed.pointer, freed.stream);
  }
  /// Frees an allocation when the present work of `users` is done. Returns false if the caller can
  /// free it now. The owner's stream does not wait for the users.
  bool waits_for(pool_type& pool, requested_free const& requested,
                 std::vector<cuda_stream> const& users) noexcept {
    waiting_free added{requested, {}};
    try {
      for (cuda_stream const user : users) {
        if (user == requested.stream) continue;
        added.events.reserve(added.events.size() + 1);
        added.events.push_back(pool.order().record(user));
      }
      if (added.events.empty()) return false;
      waiting_.push_back(added);
      return true;
    } catch (...) {  // no memory for the event, or a user's stream is gone or is being captured
      for (auto& event : added.events) pool.order().drop(event);
      (void)pool.order().finish_all();
      return false;
    }
  }
  /// Frees the allocations whose users are done, in the order in which the program freed them.
  void free_finished(pool_type& pool) noexcept {
    while (!waiting_.empty()) {
      auto& first = waiting_.front();
      while (!first.events.empty() && pool.order().is_done(first.events.back())) {
        pool.order().drop(first.events.back());
        first.events.pop_back();
      }
      if (!first.events.empty()) return;
      free_now(pool, first);
      waiting_.pop_front();
    }
  }
  void finish_waiting(pool_type& pool) noexcept {
    for (auto& freed : waiting_)
      for (auto& event : freed.events) pool.order().finish(event);
    free_finished(pool);
  }
  /// Any command in the legacy default stream starts after the present work of all blocking
  /// streams, and their later work starts after the command.
  void order_all_streams(pool_type& pool) {
    if (!has_freed_) return;
    auto event = pool.order().record(nullptr);
    pool.order().drop(event);
    has_freed_ = false;
  }

  bool calls_python_;
  // Guarded by: the lock of pool_.
  std::unordered_map<void*, std::vector<cuda_stream>> uses_;  // streams beside the owner's
  std::deque<waiting_free> waiting_;
  bool has_freed_ = false;  // since the last `order_all_streams`
  locked_pool pool_;
};

/// What the process has. Never destroyed (plugin_pools.hpp).
struct process_state {
  std::mutex mutex;
  std::map<int, stream_pool_options> options;              // Guarded by: mutex. -1 is all GPUs
  std::map<int, std::pair<any_resource, bool>> upstreams;  // Guarded by: mutex
  std::mutex message_mutex;
  std::string message;                                         // Guarded by: message_mutex
  std::array<std::atomic<device_pool*>, max_devices> pools{};  // set once, with mutex
};

void close_at_exit() {
  is_exiting.store(true);
  try {
    plugin_recordings::stop();
  } catch (std::exception const& failed) {
    std::fprintf(stderr, "quarry: %s\n", failed.what());
  }
}

process_state& state() {
  static process_state* const result = [] {
    (void)std::atexit(close_at_exit);
    return new process_state;
  }();
  return *result;
}

void check_device(int device) {
  if (device < 0 || device >= max_devices)
    throw bad_argument{"plugins: device is " + std::to_string(device) + "; it must be from 0 to " +
                       std::to_string(max_devices - 1)};
}

device_pool* existing_pool(int device) {
  return device < 0 || device >= max_devices
             ? nullptr
             : state().pools[static_cast<std::size_t>(device)].load(std::memory_order_acquire);
}

device_pool& pool_of(int device) {
  if (device_pool* const found = existing_pool(device)) return *found;
  check_device(device);
  process_state& process = state();
  std::lock_guard const lock{process.mutex};
  if (device_pool* const found = existing_pool(device)) return *found;
  stream_pool_options options;
  if (auto const found = process.options.find(device); found != process.options.end())
    options = found->second;
  else if (auto const general = process.options.find(-1); general != process.options.end())
    options = general->second;
  if (options.name.empty()) options.name = "frameworks of GPU " + std::to_string(device);
  auto const upstream = process.upstreams.find(device);
  auto pool = upstream == process.upstreams.end()
                  ? std::make_unique<device_pool>(device, any_resource{device_resource{device}},
                                                  options, false)
                  : std::make_unique<device_pool>(device, std::move(upstream->second.first),
                                                  options, upstream->second.second);
  if (upstream != process.upstreams.end()) process.upstreams.erase(upstream);
  device_pool* const result = pool.release();
  process.pools[static_cast<std::size_t>(device)].store(result, std::memory_order_release);
  return *result;
}

/// Throws `bad_state` if the pool of the GPU exists; -1 means any GPU.
void check_unused(int device, char const* what) {
  for (int number = 0; number < max_devices; ++number) {
    if ((device == -1 || device == number) && existing_pool(number) != nullptr)
      throw bad_state{"plugins: the pool of GPU " + std::to_string(number) +
                      " is in use; set its " + what + " before the first allocation"};
  }
}

void keep_message(char const* message) noexcept {
  std::lock_guard const lock{state().message_mutex};
  try {
    state().message = message;
  } catch (...) {
    state().message.clear();
  }
}

void* allocate_in(framework user, bytes size, int device, cuda_stream stream, bool for_all_streams,
                  site_numbers const& sites) {
  try {
    if (is_exiting.load()) throw bad_state{"plugins: the process is exiting"};
    return pool_of(device).allocate(user, size, stream, for_all_streams, sites);
  } catch (std::exception const& failed) {
    keep_message(failed.what());
    throw;
  }
}

}  // namespace

void configure(int device, stream_pool_options const& options) {
  if (device != -1) check_device(device);
  (void)quarry::detail::checked_blocks("plugins", options);
  process_state& process = state();
  std::lock_guard const lock{process.mutex};
  check_unused(device, "options");
  process.options[device] = options;
}

void set_upstream(int device, any_resource upstream, bool calls_python) {
  check_device(device);
  process_state& process = state();
  std::lock_guard const lock{process.mutex};
  check_unused(device, "upstream");
  process.upstreams.erase(device);
  process.upstreams.emplace(device, std::pair{std::move(upstream), calls_python});
}

void* allocate(framework user, bytes size, int device, cuda_stream stream,
               site_numbers const& sites) {
  return allocate_in(user, size, device, stream, false, sites);
}
void* allocate_for_all_streams(framework user, bytes size, int device, site_numbers const& sites) {
  return allocate_in(user, size, device, nullptr, true, sites);
}

void deallocate(framework user, void* pointer, int device, cuda_stream stream) noexcept {
  if (pointer == nullptr || is_exiting.load()) return;
  if (device_pool* const pool = existing_pool(device)) pool->deallocate(user, pointer, stream);
}

void record_use(void* pointer, cuda_stream stream) noexcept {
  if (pointer == nullptr || is_exiting.load()) return;
  for (auto& slot : state().pools) {
    device_pool* const pool = slot.load(std::memory_order_acquire);
    if (pool == nullptr) continue;
    try {
      if (pool->record_use(pointer, stream)) return;
    } catch (std::exception const& failed) {
      keep_message(failed.what());
    }
  }
}

stream_pool_counts counts(int device) {
  check_device(device);
  device_pool* const pool = existing_pool(device);
  return pool == nullptr ? stream_pool_counts{} : pool->counts();
}

std::vector<std::string> audit(int device) {
  check_device(device);
  device_pool* const pool = existing_pool(device);
  return pool == nullptr ? std::vector<std::string>{} : pool->audit();
}

void release(int device) noexcept {
  if (is_exiting.load()) return;
  for (int number = 0; number < max_devices; ++number) {
    device_pool* const pool = device == -1 || device == number ? existing_pool(number) : nullptr;
    if (pool != nullptr) pool->release();
  }
}

std::string last_error() {
  std::lock_guard const lock{state().message_mutex};
  return state().message;
}

}  // namespace quarry::python::plugin_pools

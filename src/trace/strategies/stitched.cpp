// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/platform/host_pages.hpp"
#include "quarry/platform/simulated_pages.hpp"
#include "trace/replay/memory_replay.hpp"
#include "trace/strategies.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Each simulated page needs 50 bytes of memory, so a trace with absurd sizes needs 100 MB at most.
constexpr bytes max_simulated_pages = bytes{1} << 42;

/// Counts the pages that are mapped, moved and unmapped. Each is a call of the upstream, because a
/// driver maps page by page.
template <page_source Pages>
class counted_pages : public Pages {
 public:
  static constexpr bool is_simulated = simulated<Pages>;

  counted_pages(Pages pages, upstream_calls& calls) : Pages{std::move(pages)}, calls_{&calls} {}
  void map(std::uint64_t address, bytes size) {
    measured([&] { Pages::map(address, size); });
    calls_->count_allocation(size, size / Pages::page_bytes());
  }
  void move(std::uint64_t source, std::uint64_t target, bytes size) {
    measured([&] { Pages::move(source, target, size); });
    calls_->count_moved_pages(size / Pages::page_bytes());
  }
  void unmap(std::uint64_t address, bytes size) noexcept {
    measured([&] { Pages::unmap(address, size); });
    calls_->count_free(size, size / Pages::page_bytes());
  }

 private:
  template <class Call>
  void measured(Call const& call) {
    if constexpr (is_simulated) {
      call();
    } else {
      calls_->measured(call);
    }
  }

  upstream_calls* calls_;
};

template <page_source Pages>
struct stitched {
  stitched(replay_options const& options, upstream_calls& calls, Pages pages)
      : memory{counted_pages<Pages>{std::move(pages), calls},
               {.alignment = options.pool.alignment,
                .max_bytes = options.pool.max_bytes,
                .is_tracked = false}} {}
  void* allocate(event const& request) {
    void* const result = memory.allocate(request.size);
    ++allocations;
    peak_granted = std::max(peak_granted, memory.counts().granted);
    return result;
  }
  void deallocate(void* pointer, bytes, event const&) {
    memory.deallocate(pointer);
    ++deallocations;
  }
  void wait(event const&) {}
  [[nodiscard]] pool_counts counts() const {
    auto const found = memory.counts();
    pool_counts result = with_counts({}, found);
    result.allocations = allocations;
    result.deallocations = deallocations;
    result.granted = found.granted;
    result.peak_granted = peak_granted;
    result.largest_free = found.largest_free;
    result.blocks_allocated = found.growths;
    return result;
  }
  stitched_pool<counted_pages<Pages>> memory;
  bytes peak_granted = 0;
  std::uint64_t allocations = 0, deallocations = 0;
};

}  // namespace

std::unique_ptr<running_replay> replay_stitched(replay_options const& options) {
  constexpr bytes page = 2_MiB;  // as on a GPU
  if (options.upstream == nullptr)
    return replay_in<stitched<simulated_pages>>(options,
                                                simulated_pages{page, max_simulated_pages});
  memory_location const location = options.upstream->location();
  switch (location.kind) {
    case memory_kind::host:
      return replay_in<stitched<host_pages>>(options, host_pages{page});
    case memory_kind::device:
      return replay_in<stitched<cuda_pages>>(options, cuda_pages{location.device});
    case memory_kind::pinned:
    case memory_kind::managed:
    case memory_kind::file:
    case memory_kind::shared:
      break;
  }
  throw bad_argument{
      std::string{"replay: the strategy stitched maps pages of host or device memory; there are "
                  "none of "} +
      name_of(location.kind) + " memory"};
}

}  // namespace quarry::inline QUARRY_ABI::trace

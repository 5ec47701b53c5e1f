// SPDX-License-Identifier: Apache-2.0
#include "platform/cuda_address_space.hpp"

#include "platform/cuda_calls.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {
namespace {

using cuda::device_guard;
using cuda::driver;
using cuda::properties_of;

void check_peer(char const* user, int peer, int device) {
  cuda::check_device(user, peer);
  int can_access = 0;
  cuda::check(cudaDeviceCanAccessPeer(&can_access, peer, device), user, "cudaDeviceCanAccessPeer",
              0);
  if (can_access == 0)
    throw bad_argument{std::string{user} + ": device " + std::to_string(peer) +
                       " cannot use the memory of device " + std::to_string(device) +
                       "; CUDA does not make them peers"};
}

}  // namespace

cuda_address_space::cuda_address_space(char const* user, int device, std::vector<int> const& peers)
    : user_{user}, device_{device} {
  cuda::check_device(user, device);
  device_guard const guard{device};
  cuda::check(cudaFree(nullptr), user, "cudaFree, which initialises CUDA", 0);
  auto const properties = properties_of(device);
  std::size_t granularity = 0;
  cuda::check(
      driver::functions().granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      user, "cuMemGetAllocationGranularity", 0);
  granularity_ = granularity;
  for (int const peer : peers) {
    if (peer == device || std::ranges::find(peers_, peer) != peers_.end()) continue;
    check_peer(user, peer, device);
    peers_.push_back(peer);
  }
}

std::uint64_t cuda_address_space::reserve(bytes size, bytes alignment) const {
  device_guard const guard{device_};
  CUdeviceptr base = 0;
  cuda::check(driver::functions().reserve(&base, size, alignment, 0, 0), user_,
              "cuMemAddressReserve", size);
  if (base % alignment == 0) return base;
  release(base, size);
  throw resource_failed{std::string{user_} + ": cuMemAddressReserve",
                        "the range is not aligned to " + std::to_string(alignment)};
}

void cuda_address_space::release(std::uint64_t address, bytes size) const noexcept {
  device_guard const guard{device_};
  driver::functions().release_range(address, size);
}

void cuda_address_space::map(std::uint64_t address, bytes size, bytes part_bytes) {
  device_guard const guard{device_};
  bytes done = 0;
  try {
    while (done < size) {
      bytes const next = std::min(size - done, part_bytes);
      map_part(address + done, next);
      done += next;
    }
    allow_access(address, size);
  } catch (...) {
    unmap(address, done);
    throw;
  }
}

void cuda_address_space::map_part(std::uint64_t address, bytes size) {
  auto const& functions = driver::functions();
  auto const properties = properties_of(device_);
  auto const added = parts_.emplace(address, part{size, 0}).first;  // first, since it may throw
  try {
    auto& handle = added->second.handle;
    cuda::check(functions.create(&handle, size, &properties, 0), user_, "cuMemCreate", size);
    auto const status = functions.map(address, size, 0, handle, 0);
    if (status != CUDA_SUCCESS) functions.release(handle);
    cuda::check(status, user_, "cuMemMap", size);
  } catch (...) {
    parts_.erase(added);
    throw;
  }
}

void cuda_address_space::allow_access(std::uint64_t address, bytes size) const {
  std::vector<CUmemAccessDesc> access;
  auto const allow = [&](int device) {
    access.push_back({properties_of(device).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  };
  allow(device_);
  for (int const peer : peers_) allow(peer);
  cuda::check(driver::functions().set_access(address, size, access.data(), access.size()), user_,
              "cuMemSetAccess", size);
}

void cuda_address_space::move(std::uint64_t source, std::uint64_t target, bytes size) {
  auto const& functions = driver::functions();
  device_guard const guard{device_};
  bytes done = 0;
  try {
    while (done < size) {  // the parts are mapped at both addresses temporarily
      part const& moved = parts_.at(source + done);
      cuda::check(functions.map(target + done, moved.size, 0, moved.handle, 0), user_,
                  "cuMemMap of pages that move", size);
      done += moved.size;
    }
    allow_access(target, size);
  } catch (...) {
    if (done != 0) functions.unmap(target, done);
    throw;
  }
  functions.unmap(source, size);
  for (bytes offset = 0; offset < size;) {
    auto moved = parts_.extract(source + offset);
    moved.key() = target + offset;
    offset += parts_.insert(std::move(moved)).position->second.size;
  }
}

void cuda_address_space::unmap(std::uint64_t address, bytes size) noexcept {
  auto const first = parts_.lower_bound(address);
  auto const last = parts_.lower_bound(address + size);
  if (first == last) return;
  auto const& functions = driver::functions();
  device_guard const guard{device_};
  auto const& [base, part_of_end] = *std::prev(last);
  functions.unmap(first->first, base + part_of_end.size - first->first);
  for (auto entry = first; entry != last; entry = parts_.erase(entry))
    functions.release(entry->second.handle);
}

std::uint64_t cuda_address_space::next_part(std::uint64_t address, std::uint64_t end) const {
  auto const found = parts_.lower_bound(address);
  return found == parts_.end() ? end : std::min(found->first, end);
}

}  // namespace quarry::inline QUARRY_ABI::detail

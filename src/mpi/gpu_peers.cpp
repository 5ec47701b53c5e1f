// SPDX-License-Identifier: Apache-2.0
#include "gpu_peers.hpp"

#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

int attribute_of(int device, cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
  return value;
}

/// Throws bad_argument unless the GPU is as the first one. One placement is chosen for all GPUs.
void check_kind(int device) {
  for (auto const& [name, text] :
       {std::pair{cudaDevAttrComputeCapabilityMajor, "architecture"},
        std::pair{cudaDevAttrComputeCapabilityMinor, "architecture"},
        std::pair{cudaDevAttrMultiProcessorCount, "number of multiprocessors"}})
    if (attribute_of(device, name) != attribute_of(0, name))
      throw bad_argument{"--gpus: GPU " + std::to_string(device) + " and GPU 0 differ in their " +
                         text + "; ranks run on GPUs of one kind"};
}

void connect(int device, int peer) {
  int can_access = 0;
  check(cudaDeviceCanAccessPeer(&can_access, device, peer), "cudaDeviceCanAccessPeer");
  int has_atomics = 0;
  if (can_access != 0)
    check(
        cudaDeviceGetP2PAttribute(&has_atomics, cudaDevP2PAttrNativeAtomicSupported, device, peer),
        "cudaDeviceGetP2PAttribute");
  if (has_atomics == 0)
    throw bad_argument{
        "--gpus: GPU " + std::to_string(device) + " cannot " +
        (can_access == 0 ? "use the memory" : "make atomic operations on the memory") + " of GPU " +
        std::to_string(peer) + ". --gpus needs GPUs that NVLink connects"};
  current_gpu const current{device};
  cudaError_t const status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status != cudaErrorPeerAccessAlreadyEnabled) check(status, "cudaDeviceEnablePeerAccess");
}

}  // namespace

void connect_gpus(std::uint32_t count) {
  int present = 0;
  check(cudaGetDeviceCount(&present), "cudaGetDeviceCount");
  if (count > static_cast<std::uint32_t>(present))
    throw bad_argument{"--gpus " + std::to_string(count) + ": CUDA can use " +
                       std::to_string(present) + " here; see CUDA_VISIBLE_DEVICES"};
  for (int device = 1; device < static_cast<int>(count); ++device) check_kind(device);
  for (int device = 0; device < static_cast<int>(count); ++device)
    for (int peer = 0; peer < static_cast<int>(count); ++peer)
      if (peer != device) connect(device, peer);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

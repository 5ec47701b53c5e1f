// SPDX-License-Identifier: Apache-2.0
// Memory of a GPU, and of the host for GPUs, that the launcher owns.
#pragma once

#include "quarry/core/errors.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// Throws resource_failed with the name of the call unless it has succeeded.
inline void check(cudaError_t status, char const* call) {
  if (status != cudaSuccess) throw resource_failed{call, cudaGetErrorString(status)};
}

/// Memory of the GPU, zero at first.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count) {
    cudaError_t const status = cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T));
    if (status == cudaErrorMemoryAllocation)
      throw out_of_memory{"the ranks' state on the GPU", count * sizeof(T),
                          "other programs use the GPU; wait for them, or run with fewer ranks"};
    check(status, "cudaMalloc");
    check(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
  }
  ~device_array() { cudaFree(data_); }
  device_array(device_array const&) = delete;
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// Memory of the host that the host and all GPUs read and write at the same time, zero at first. It
/// stays readable after a fault of a GPU.
template <class T>
class host_array {
 public:
  explicit host_array(std::size_t count) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * sizeof(T),
                        cudaHostAllocMapped | cudaHostAllocPortable),
          "cudaHostAlloc");
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  ~host_array() { cudaFreeHost(data_); }
  host_array(host_array const&) = delete;
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// A null-terminated array of strings in memory of the GPU.
class device_strings {
 public:
  explicit device_strings(char** strings)
      : count_{count(strings)}, text_{bytes_of(strings) + 1}, pointers_{count_ + 1} {
    std::string text;
    std::vector<char*> addresses;
    for (std::size_t i = 0; i < count_; ++i) {
      addresses.push_back(text_.data() + text.size());
      text.append(strings[i]).push_back('\0');
    }
    check(cudaMemcpy(text_.data(), text.data(), text.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(pointers_.data(), addresses.data(), count_ * sizeof(char*),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] char** data() const { return pointers_.data(); }

 private:
  static std::size_t count(char** strings) {
    std::size_t number = 0;
    while (strings[number] != nullptr) ++number;
    return number;
  }
  static std::size_t bytes_of(char** strings) {
    std::size_t total = 0;
    for (; *strings != nullptr; ++strings) total += std::strlen(*strings) + 1;
    return total;
  }

  std::size_t count_;
  device_array<char> text_;
  device_array<char*> pointers_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
#include "driver_linker.hpp"

#include "device_memory.hpp"

#include <cuda.h>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// A function of the driver. The executable does not link the driver: it must run on machines that
/// have none.
template <class Function>
Function* driver_function(char const* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess || address == nullptr)
    throw resource_failed{name, "the GPU's driver lacks this function"};
  return reinterpret_cast<Function*>(address);
}

}  // namespace

std::string link_by_driver(std::vector<std::string_view> const& texts, int registers) {
  check(cudaFree(nullptr), "cudaFree");  // creates the context that the driver's functions use
  auto* const create = driver_function<decltype(cuLinkCreate)>("cuLinkCreate");
  auto* const add = driver_function<decltype(cuLinkAddData)>("cuLinkAddData");
  auto* const complete = driver_function<decltype(cuLinkComplete)>("cuLinkComplete");
  auto* const destroy = driver_function<decltype(cuLinkDestroy)>("cuLinkDestroy");

  std::string messages(16384, '\0');
  auto const as_value = [](std::uint64_t number) { return reinterpret_cast<void*>(number); };
  CUjit_option options[] = {CU_JIT_MAX_REGISTERS, CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {as_value(static_cast<std::uint64_t>(registers)), messages.data(),
                    as_value(messages.size())};
  auto const check_link = [&](CUresult status, char const* call) {
    if (status != CUDA_SUCCESS)
      throw resource_failed{call, "the driver cannot compile the program, error " +
                                      std::to_string(status) + ": " + messages.c_str()};
  };
  CUlinkState state = nullptr;
  check_link(create(3, options, values, &state), "cuLinkCreate");
  struct guard {
    decltype(destroy) end;
    CUlinkState state;
    ~guard() { end(state); }
  } const owner{destroy, state};
  for (std::string_view const text : texts)
    check_link(add(state, CU_JIT_INPUT_PTX, const_cast<char*>(text.data()), text.size() + 1, "", 0,
                   nullptr, nullptr),
               "cuLinkAddData");
  void* cubin = nullptr;
  std::size_t size = 0;
  check_link(complete(state, &cubin, &size), "cuLinkComplete");
  return {static_cast<char const*>(cubin), size};
}

}  // namespace quarry::inline QUARRY_ABI::mpi

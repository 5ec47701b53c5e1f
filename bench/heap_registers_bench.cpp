// SPDX-License-Identifier: Apache-2.0
// How many registers does a kernel need that allocates once, or frees once? On the CPU the program
// records nothing.
#include "kernels.hpp"

namespace {

#ifdef __CUDACC__
template <class Kernel>
void record_registers(std::string const& name, char const* allocator) {
  cudaFuncAttributes attributes{};
  quarry::simt::check_cuda(cudaFuncGetAttributes(&attributes, quarry::simt::run_kernel<Kernel>),
                           "cudaFuncGetAttributes");
  bench::record(name, bench::parameters{}.add("allocator", allocator), attributes.numRegs,
                "registers");
}
#endif

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
#ifdef __CUDACC__
    using ref = typename Allocator::ref;
    record_registers<bench::allocate_kernel<ref, bench::one_size>>("heap/registers/malloc",
                                                                   Allocator::name);
    record_registers<bench::free_kernel<ref>>("heap/registers/free", Allocator::name);
#endif
  });
}

// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/cuda_pages.hpp"

#include "conformance/resource_conformance.hpp"
#include "quarry/host/pools/stitched_pool.hpp"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

namespace quarry::test {
namespace cuda_pages_test {

/// Returns nullptr if there is no GPU.
std::unique_ptr<cuda_pages> make_pages() {
  try {
    return std::make_unique<cuda_pages>();
  } catch (resource_failed const&) {
    return nullptr;
  }
}

struct stitched_on_the_gpu {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = false;
  stitched_pool<cuda_pages> source;

  explicit stitched_on_the_gpu(cuda_pages pages)
      : source{std::move(pages), {.alignment = alignment}} {}
  ~stitched_on_the_gpu() { EXPECT_TRUE(source.audit().empty()); }
  static std::unique_ptr<stitched_on_the_gpu> make() {
    auto pages = make_pages();
    return pages ? std::make_unique<stitched_on_the_gpu>(std::move(*pages)) : nullptr;
  }
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(source.size_of(pointer), size);
    EXPECT_TRUE(source.deallocate(pointer));
  }
};
bool const is_registered = conforms("StitchedOnTheGpu", testing::Types<stitched_on_the_gpu>{});

TEST(CudaPages, RefuseAMissingDevice) {
  try {
    cuda_pages const pages_of_missing_device{1000};
    FAIL() << "the constructor did not throw";
  } catch (error const& failure) {
    EXPECT_FALSE(failure.message().empty());
  }
}

#ifdef __CUDACC__
TEST(CudaPages, KeepTheirContentsWhenTheyMove) {
  auto pages = make_pages();
  ASSERT_NE(pages, nullptr);
  bytes const page = pages->page_bytes();
  auto const base = pages->reserve(8 * page);
  pages->map(base, 2 * page);
  ASSERT_EQ(cudaMemset(reinterpret_cast<void*>(base), 0x5a, page), cudaSuccess);
  ASSERT_EQ(cudaMemset(reinterpret_cast<void*>(base + page), 0x3c, page), cudaSuccess);
  pages->move(base, base + 4 * page, 2 * page);
  std::vector<unsigned char> contents(2 * page);
  ASSERT_EQ(cudaMemcpy(contents.data(), reinterpret_cast<void*>(base + 4 * page), 2 * page,
                       cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (bytes i = 0; i < 2 * page; ++i) ASSERT_EQ(contents[i], i < page ? 0x5a : 0x3c);
  pages->map(base, page);
  pages->unmap(base, page);
  pages->unmap(base + 4 * page, 2 * page);
  pages->release(base, 8 * page);
}

TEST(CudaPages, KeepTheContentsOfAllocationsWhenAPoolGrows) {
  auto pages = make_pages();
  ASSERT_NE(pages, nullptr);
  bytes const page = pages->page_bytes();
  stitched_pool<cuda_pages> source{std::move(*pages), {.alignment = 256}};
  std::vector<void*> reserved;
  for (int i = 0; i < 16; ++i) {
    reserved.push_back(source.allocate(page));
    ASSERT_EQ(cudaMemset(reserved.back(), i, page), cudaSuccess);
  }
  for (std::size_t i = 0; i < 16; i += 2) source.deallocate(reserved[i]);
  void* const large = source.allocate(8 * page);
  ASSERT_EQ(cudaMemset(large, 0xff, 8 * page), cudaSuccess);
  EXPECT_EQ(source.counts().reserved, 16 * page);
  std::vector<unsigned char> contents(page);
  for (std::size_t i = 1; i < 16; i += 2) {
    ASSERT_EQ(cudaMemcpy(contents.data(), reserved[i], page, cudaMemcpyDeviceToHost), cudaSuccess);
    for (auto const byte : contents) ASSERT_EQ(byte, i);
  }
}

TEST(CudaPages, LoseNothingWhenTheGpuIsOutOfMemory) {
  auto pages = make_pages();
  ASSERT_NE(pages, nullptr);
  stitched_pool<cuda_pages> source{std::move(*pages), {.alignment = 256}};
  void* const small = source.allocate(100);
  auto const old_counts = source.counts();
  std::size_t free_bytes = 0, total_bytes = 0;
  void* filler = nullptr;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&filler, free_bytes - (bytes{1} << 30)), cudaSuccess);
  EXPECT_THROW((void)source.allocate(bytes{2} << 30), out_of_memory);
  cudaFree(filler);
  EXPECT_EQ(source.counts().reserved, old_counts.reserved);
  EXPECT_EQ(source.counts().allocated, old_counts.allocated);
  EXPECT_TRUE(source.deallocate(small));
}
#endif

}  // namespace cuda_pages_test
}  // namespace quarry::test

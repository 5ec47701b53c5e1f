// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

namespace simt = quarry::simt;

#ifdef __CUDA_ARCH__
/// The address within the block's shared memory.
[[nodiscard]] __device__ inline std::uint32_t address_in_block(void const* word) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(word));
}
#endif

/// An atomic reference to a word that only the ranks of one block use. On the GPU the word lies in
/// the block's shared memory.
class block_word {
 public:
  QUARRY_HD explicit block_word(std::uint32_t& of) : word_{&of} {}

  /// `order` is relaxed or acquire.
  [[nodiscard]] QUARRY_HD std::uint32_t load(simt::memory_order order) const {
#ifdef __CUDA_ARCH__
    std::uint32_t result;
    if (order == simt::relaxed) {
      asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];"
                   : "=r"(result)
                   : "r"(address_in_block(word_)));
    } else {
      asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
                   : "=r"(result)
                   : "r"(address_in_block(word_))
                   : "memory");
    }
    return result;
#else
    return simt::atomic_ref<std::uint32_t>{*word_}.load(order);
#endif
  }
  /// `order` is relaxed or release.
  QUARRY_HD void store(std::uint32_t value, simt::memory_order order) const {
#ifdef __CUDA_ARCH__
    if (order == simt::relaxed) {
      asm volatile("st.relaxed.cta.shared.u32 [%0], %1;"
                   :
                   : "r"(address_in_block(word_)), "r"(value));
    } else {
      asm volatile("st.release.cta.shared.u32 [%0], %1;"
                   :
                   : "r"(address_in_block(word_)), "r"(value)
                   : "memory");
    }
#else
    simt::atomic_ref<std::uint32_t>{*word_}.store(value, order);
#endif
  }
  /// On the GPU the order is acq_rel.
  QUARRY_HD std::uint32_t fetch_add(std::uint32_t value,
                                    [[maybe_unused]] simt::memory_order order) const {
#ifdef __CUDA_ARCH__
    std::uint32_t result;
    asm volatile("atom.acq_rel.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(result)
                 : "r"(address_in_block(word_)), "r"(value)
                 : "memory");
    return result;
#else
    return simt::atomic_ref<std::uint32_t>{*word_}.fetch_add(value, order);
#endif
  }

 private:
  std::uint32_t* word_;
};

/// The same for a word of 64 bits. All orders are relaxed.
class long_block_word {
 public:
  QUARRY_HD explicit long_block_word(std::uint64_t& of) : word_{&of} {}

  [[nodiscard]] QUARRY_HD std::uint64_t load() const {
#ifdef __CUDA_ARCH__
    std::uint64_t result;
    asm volatile("ld.relaxed.cta.shared.u64 %0, [%1];"
                 : "=l"(result)
                 : "r"(address_in_block(word_)));
    return result;
#else
    return simt::atomic_ref<std::uint64_t>{*word_}.load(simt::relaxed);
#endif
  }
  QUARRY_HD std::uint64_t fetch_or(std::uint64_t bits) const {
#ifdef __CUDA_ARCH__
    std::uint64_t result;
    asm volatile("atom.relaxed.cta.shared.or.b64 %0, [%1], %2;"
                 : "=l"(result)
                 : "r"(address_in_block(word_)), "l"(bits));
    return result;
#else
    return simt::atomic_ref<std::uint64_t>{*word_}.fetch_or(bits, simt::relaxed);
#endif
  }
  QUARRY_HD std::uint64_t fetch_add(std::uint64_t value) const {
#ifdef __CUDA_ARCH__
    std::uint64_t result;
    asm volatile("atom.relaxed.cta.shared.add.u64 %0, [%1], %2;"
                 : "=l"(result)
                 : "r"(address_in_block(word_)), "l"(value));
    return result;
#else
    return simt::atomic_ref<std::uint64_t>{*word_}.fetch_add(value, simt::relaxed);
#endif
  }

 private:
  std::uint64_t* word_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

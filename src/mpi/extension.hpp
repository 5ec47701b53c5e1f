// SPDX-License-Identifier: Apache-2.0
// The data of a message that is too long for its slot: numbered units, as in the slot.
#pragma once

#include "thread_copy.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Which granules of a message a lane copies: every `step`-th from `first` on.
struct lane_share {
  std::uint32_t first;
  std::uint32_t step;
};
inline constexpr lane_share whole_share{0, 1};

/// Reads 16 bytes from an address that is a multiple of `Alignment`.
template <std::uint32_t Alignment>
[[nodiscard]] QUARRY_HD inline granule load_granule(char const* from) {
  if constexpr (Alignment == 16) {
    return *reinterpret_cast<granule const*>(from);
  } else {
    std::uint32_t words[4];
    QUARRY_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      if constexpr (Alignment == 4) {
        words[i] = reinterpret_cast<narrow_word const*>(from)[i];
      } else {
        words[i] = 0;
        QUARRY_UNROLL
        for (std::uint32_t k = 0; k < 4; ++k)
          words[i] |= std::uint32_t{static_cast<unsigned char>(from[4 * i + k])} << 8 * k;
      }
    }
    return {words[0], words[1], words[2], words[3]};
  }
}
template <std::uint32_t Alignment>
QUARRY_HD inline void store_granule(char* to, granule const& data) {
  if constexpr (Alignment == 16) {
    *reinterpret_cast<granule*>(to) = data;
  } else {
    std::uint32_t const words[4] = {data.x, data.y, data.z, data.w};
    QUARRY_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) {
      if constexpr (Alignment == 4) {
        reinterpret_cast<narrow_word*>(to)[i] = words[i];
      } else {
        QUARRY_UNROLL
        for (std::uint32_t k = 0; k < 4; ++k) to[4 * i + k] = static_cast<char>(words[i] >> 8 * k);
      }
    }
  }
}

/// The data of a message in units of 8 bytes: a word of it, and the message's number. So the
/// receiver sees which words have arrived, and no fence is needed. mailbox.hpp says why the numbers
/// are enough.
class numbered_units {
 public:
  QUARRY_HD numbered_units(std::uint64_t* units, std::uint32_t number)
      : units_{units}, number_{number} {}
  [[nodiscard]] QUARRY_HD std::uint64_t* first() const { return units_; }
  [[nodiscard]] QUARRY_HD std::uint32_t number() const { return number_; }

  /// Writes a lane's share of the data.
  template <std::uint32_t Alignment>
  QUARRY_HD void store(char const* data, std::uint32_t size, lane_share share) const {
    constexpr std::uint32_t batch = Alignment == 16 ? 8 : Alignment == 4 ? 4 : 1;
    std::uint32_t const granules = size / granule_bytes;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = share.first; i < granules; i += batch * share.step) {
      granule loaded[batch];
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < batch; ++k)
        if (i + k * share.step < granules)
          loaded[k] = load_granule<Alignment>(data + granule_bytes * (i + k * share.step));
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < batch; ++k)
        if (i + k * share.step < granules) store_units(i + k * share.step, loaded[k]);
    }
    if (share.first == 0 && size % granule_bytes != 0)
      store_units(granules, part_of_granule(data, size, granules));
  }

  /// Reads a lane's share of the data. Waits for words that the sender has not written yet: it
  /// needs nothing from other ranks to do so.
  template <std::uint32_t Alignment, std::uint32_t Batch>
  QUARRY_HD void load(char* to, std::uint32_t size, lane_share share) const {
    std::uint32_t const granules = size / granule_bytes;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = share.first; i < granules; i += Batch * share.step) {
#ifdef __CUDA_ARCH__
      simt::word_pair loaded[2 * Batch];
#else
      simt::word_pair loaded[2 * Batch] = {};
#endif
      QUARRY_NO_UNROLL
      for (;;) {
        QUARRY_UNROLL
        for (std::uint32_t k = 0; k < Batch; ++k) {
          if (i + k * share.step < granules) load_units(i + k * share.step, &loaded[2 * k]);
        }
        std::uint32_t wrong = 0;
        QUARRY_UNROLL
        for (std::uint32_t k = 0; k < Batch; ++k)
          if (i + k * share.step < granules) wrong |= difference(&loaded[2 * k]);
        if (wrong == 0) break;
        wait();
      }
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < Batch; ++k)
        if (i + k * share.step < granules)
          store_granule<Alignment>(to + granule_bytes * (i + k * share.step),
                                   data_of(&loaded[2 * k]));
    }
    if (share.first == 0 && size % granule_bytes != 0) {
      simt::word_pair last[2];
      load_units(granules, last);
      QUARRY_NO_UNROLL
      while (difference(last) != 0) {
        wait();
        load_units(granules, last);
      }
      granule const data = data_of(last);
      std::uint32_t const words[4] = {data.x, data.y, data.z, data.w};
      QUARRY_UNROLL
      for (std::uint32_t k = 0; k < granule_bytes - 1; ++k)
        if (granules * granule_bytes + k < size)
          to[granules * granule_bytes + k] = static_cast<char>(words[k / 4] >> 8 * (k % 4));
    }
  }

 private:
  /// The bytes after the last whole granule, and zeros.
  [[nodiscard]] QUARRY_HD static granule part_of_granule(char const* data, std::uint32_t size,
                                                         std::uint32_t index) {
    std::uint32_t words[4] = {0, 0, 0, 0};
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < granule_bytes - 1; ++k)
      if (index * granule_bytes + k < size)
        words[k / 4] |= std::uint32_t{static_cast<unsigned char>(data[index * granule_bytes + k])}
                        << 8 * (k % 4);
    return {words[0], words[1], words[2], words[3]};
  }
  [[nodiscard]] QUARRY_HD static granule data_of(simt::word_pair const* loaded) {
    return {
        static_cast<std::uint32_t>(loaded[0].first), static_cast<std::uint32_t>(loaded[0].second),
        static_cast<std::uint32_t>(loaded[1].first), static_cast<std::uint32_t>(loaded[1].second)};
  }
  [[nodiscard]] QUARRY_HD std::uint64_t unit(std::uint32_t data) const {
    return std::uint64_t{number_} << 32 | data;
  }
  QUARRY_HD void store_units(std::uint32_t index, granule const& data) const {
    std::uint64_t* const first = units_ + 4 * index;
#ifdef __CUDA_ARCH__
    simt::store_pair(first[0], {unit(data.x), unit(data.y)});
    simt::store_pair(first[2], {unit(data.z), unit(data.w)});
#else
    std::uint32_t const words[4] = {data.x, data.y, data.z, data.w};
    for (std::uint32_t i = 0; i < 4; ++i)
      simt::atomic_ref<std::uint64_t>{first[i]}.store(unit(words[i]), simt::relaxed);
#endif
  }
  QUARRY_HD void load_units(std::uint32_t index, simt::word_pair* loaded) const {
    loaded[0] = simt::load_pair(units_[4 * index]);
    loaded[1] = simt::load_pair(units_[4 * index + 2]);
  }
  [[nodiscard]] QUARRY_HD std::uint32_t difference(simt::word_pair const* loaded) const {
    return (static_cast<std::uint32_t>(loaded[0].first >> 32) ^ number_) |
           (static_cast<std::uint32_t>(loaded[0].second >> 32) ^ number_) |
           (static_cast<std::uint32_t>(loaded[1].first >> 32) ^ number_) |
           (static_cast<std::uint32_t>(loaded[1].second >> 32) ^ number_);
  }
  QUARRY_HD static void wait() {
#ifndef __CUDA_ARCH__
    deliver_some();
    simt::pause();
#endif
  }

  std::uint64_t* units_;
  std::uint32_t number_;
};

/// Writes a lane's share of a message's data to numbered units.
QUARRY_FAST void store_numbered(numbered_units const& into, char const* data, std::uint32_t size,
                                lane_share share) {
  auto const address = reinterpret_cast<std::uint64_t>(data);
  if (address % 16 == 0) {
    into.store<16>(data, size, share);
  } else if (address % 4 == 0) {
    into.store<4>(data, size, share);
  } else {
    into.store<1>(data, size, share);
  }
}
/// Writes a message's data to numbered units of a process that is not mapped, one word after
/// another.
template <class Way>
QUARRY_SLOW void put_numbered(Way const& way, numbered_units const& into, char const* data,
                              std::uint32_t size) {
  std::uint32_t const words = (size + granule_bytes - 1) / granule_bytes * (granule_bytes / 4);
  for (std::uint32_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    for (std::uint32_t k = 0; k < 4 && 4 * i + k < size; ++k)
      word |= std::uint32_t{static_cast<unsigned char>(data[4 * i + k])} << 8 * k;
    way.put(into.first()[i], std::uint64_t{into.number()} << 32 | word);
  }
}

/// Reads a lane's share of a message's data from numbered units.
QUARRY_FAST void load_numbered(numbered_units const& from, char* to, std::uint32_t size,
                               lane_share share) {
  auto const address = reinterpret_cast<std::uint64_t>(to);
  if (address % 16 == 0 && share.step != 1) {
    from.load<16, 8>(to, size, share);
  } else if (address % 16 == 0) {
    from.load<16, 4>(to, size, share);
  } else if (address % 4 == 0) {
    from.load<4, 4>(to, size, share);
  } else {
    from.load<1, 2>(to, size, share);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

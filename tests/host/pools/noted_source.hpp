// SPDX-License-Identifier: Apache-2.0
// What gives memory in the order of streams, and labels how it was asked.
#pragma once

#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

/// Memory of a resource, of which it says that it is of the kind that the constructor names. A
/// label names the function, the size and the stream's handle: "allocate 100 on 16".
template <class Resource>
class noted_source_over {
 public:
  explicit noted_source_over(memory_location location = {}) : place_{location} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    label("allocate", size, stream);
    return memory_.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment, cuda_stream stream) noexcept {
    label("deallocate", size, stream);
    memory_.deallocate(pointer, size, alignment);
  }
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment) {
    calls->push_back("allocate_sync " + std::to_string(size));
    return memory_.allocate(size, alignment);
  }
  void deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept {
    calls->push_back("deallocate_sync " + std::to_string(size));
    memory_.deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return place_; }

  std::shared_ptr<std::vector<std::string>> calls = std::make_shared<std::vector<std::string>>();

 private:
  void label(char const* function, bytes size, cuda_stream stream) {
    calls->push_back(function + (" " + std::to_string(size)) + " on " +
                     std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
  }

  Resource memory_;
  memory_location place_;
};
using noted_source = noted_source_over<host_resource>;

/// Calls an adaptor in all ways, with two streams; its noted source must have been asked the same.
template <class Adaptor>
void expect_calls_pass(Adaptor& source, std::vector<std::string> const& calls) {
  auto const stream = reinterpret_cast<cuda_stream>(std::uintptr_t{16});
  auto const second = reinterpret_cast<cuda_stream>(std::uintptr_t{32});
  void* const one = source.allocate(100, 16, stream);
  void* const other = source.allocate(200, 16, second);
  void* const third = source.allocate_sync(300, 16);
  EXPECT_NE(one, other);
  source.deallocate(one, 100, 16, second);
  source.deallocate(other, 200, 16, stream);
  source.deallocate_sync(third, 300, 16);
  EXPECT_EQ(calls, (std::vector<std::string>{"allocate 100 on 16", "allocate 200 on 32",
                                             "allocate_sync 300", "deallocate 100 on 32",
                                             "deallocate 200 on 16", "deallocate_sync 300"}));
}

}  // namespace quarry::test

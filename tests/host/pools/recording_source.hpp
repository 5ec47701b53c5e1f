// SPDX-License-Identifier: Apache-2.0
// A stream-ordered source that records each call.
#pragma once

#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace quarry::test {

/// Allocates from a resource, and reports the location that the constructor receives. Each record
/// has the function, the size and the stream's handle: "allocate 100 on 16".
template <class Resource>
class recording_source_over {
 public:
  explicit recording_source_over(memory_location location = {}) : place_{location} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    record("allocate", size, stream);
    return memory_.allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment, cuda_stream stream) noexcept {
    record("deallocate", size, stream);
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
  void record(char const* function, bytes size, cuda_stream stream) {
    calls->push_back(function + (" " + std::to_string(size)) + " on " +
                     std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
  }

  Resource memory_;
  memory_location place_;
};
using recording_source = recording_source_over<host_resource>;

/// Makes every kind of call to an adaptor, with two streams, and checks that the recording source
/// below received the same calls.
template <class Adaptor>
void expect_calls_pass(Adaptor& source, std::vector<std::string> const& calls) {
  auto const stream = reinterpret_cast<cuda_stream>(std::uintptr_t{16});
  auto const second = reinterpret_cast<cuda_stream>(std::uintptr_t{32});
  void* const first_memory = source.allocate(100, 16, stream);
  void* const second_memory = source.allocate(200, 16, second);
  void* const third = source.allocate_sync(300, 16);
  EXPECT_NE(first_memory, second_memory);
  source.deallocate(first_memory, 100, 16, second);
  source.deallocate(second_memory, 200, 16, stream);
  source.deallocate_sync(third, 300, 16);
  EXPECT_EQ(calls, (std::vector<std::string>{"allocate 100 on 16", "allocate 200 on 32",
                                             "allocate_sync 300", "deallocate 100 on 32",
                                             "deallocate 200 on 16", "deallocate_sync 300"}));
}

}  // namespace quarry::test

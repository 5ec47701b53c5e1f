// SPDX-License-Identifier: Apache-2.0
// The C library's functions that write text.
#include "c_format.hpp"
#include "output.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Collects text and writes it in parts to an output stream.
class stream_sink {
 public:
  QUARRY_HD stream_sink(rank_state& rank, std::uint8_t stream) : rank_{rank}, stream_{stream} {}
  QUARRY_HD void add_char(char c) {
    buffer_[length_++] = c;
    ++wanted_;
    if (length_ == sizeof(buffer_)) flush();
  }
  QUARRY_HD void flush() {
    if (length_ != 0) write_text(rank_, stream_, buffer_, length_);
    length_ = 0;
  }
  [[nodiscard]] QUARRY_HD std::uint64_t wanted() const { return wanted_; }

 private:
  rank_state& rank_;
  std::uint8_t stream_;
  char buffer_[output_record::text_bytes];
  std::uint32_t length_ = 0;
  std::uint64_t wanted_ = 0;
};

QUARRY_HD int print(std::uint8_t stream, char const* format, arguments& values) {
  stream_sink sink{self(), stream};
  formatter<stream_sink>{sink}.format(format, values);
  sink.flush();
  return static_cast<int>(sink.wanted());
}

QUARRY_HD int print_to(char* buffer, std::uint64_t capacity, char const* format,
                       arguments& values) {
  text_buffer sink{buffer, capacity};
  formatter<text_buffer>{sink}.format(format, values);
  sink.terminate();
  return static_cast<int>(sink.wanted());
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

#ifdef __CUDACC__
#define QUARRY_VARIADIC(result, name, call, ...)               \
  __device__ result quarry_c_##name(__VA_ARGS__, void* list) { \
    arguments values{list};                                    \
    return call;                                               \
  }
#define QUARRY_V(result, name, call, ...)                       \
  __device__ result quarry_c_v##name(__VA_ARGS__, void* list) { \
    arguments values{list};                                     \
    return call;                                                \
  }
#else
#define QUARRY_VARIADIC(result, name, call, ...) \
  result quarry_c_##name(__VA_ARGS__, ...) {     \
    va_list list;                                \
    va_start(list, format);                      \
    int total;                                   \
    {                                            \
      arguments values{list};                    \
      total = call;                              \
    }                                            \
    va_end(list);                                \
    return total;                                \
  }
#define QUARRY_V(result, name, call, ...)              \
  result quarry_c_v##name(__VA_ARGS__, va_list list) { \
    arguments values{list};                            \
    return call;                                       \
  }
#endif
#define QUARRY_BOTH(...) QUARRY_VARIADIC(__VA_ARGS__) QUARRY_V(__VA_ARGS__)

QUARRY_BOTH(int, printf, print(1, format, values), char const* format)
QUARRY_BOTH(int, sprintf, print_to(buffer, ~std::uint64_t{0}, format, values), char* buffer,
            char const* format)
QUARRY_BOTH(int, snprintf, print_to(buffer, size, format, values), char* buffer, unsigned long size,
            char const* format)

QUARRY_HD int quarry_c_puts(char const* text) {
  stream_sink sink{self(), 1};
  for (; *text != 0; ++text) sink.add_char(*text);
  sink.add_char('\n');
  sink.flush();
  return 1;
}
QUARRY_HD int quarry_c_putchar(int c) {
  char const text = static_cast<char>(c);
  write_text(self(), 1, &text, 1);
  return c;
}

}  // extern "C"

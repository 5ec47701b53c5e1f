// SPDX-License-Identifier: Apache-2.0
// The C library's functions that write text.
#include "c_files.hpp"
#include "c_format.hpp"
#include "output.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Collects text and writes it in parts to a file, or to the standard output if `file` is null.
class file_sink {
 public:
  QUARRY_HD file_sink(rank_state& rank, c_file* file) : rank_{rank}, file_{file} {}
  QUARRY_SLOW void add_char(char c) {
    buffer_[length_++] = c;
    ++wanted_;
    if (length_ == sizeof(buffer_)) flush();
  }
  QUARRY_HD void flush() {
    if (length_ == 0) return;
    if (file_ == nullptr) {
      write_text(rank_, 1, buffer_, length_);
    } else {
      has_failed_ |= write_bytes(rank_, *file_, buffer_, length_) != length_;
    }
    length_ = 0;
  }
  /// The number of characters; -1 if they could not be written.
  [[nodiscard]] QUARRY_HD int result() const {
    return has_failed_ ? -1 : static_cast<int>(wanted_);
  }
  [[nodiscard]] QUARRY_HD std::uint64_t wanted() const { return wanted_; }

 private:
  rank_state& rank_;
  c_file* file_;
  char buffer_[output_record::text_bytes];
  std::uint32_t length_ = 0;
  bool has_failed_ = false;
  std::uint64_t wanted_ = 0;
};

QUARRY_SLOW int write_formatted(c_file* file, char const* format, arguments& values) {
  file_sink sink{self(), file};
  formatter<file_sink>{sink}.format(format, values);
  sink.flush();
  return sink.result();
}

QUARRY_SLOW int print_to(char* buffer, std::uint64_t capacity, char const* format,
                         arguments& values) {
  text_buffer sink{buffer, capacity};
  formatter<text_buffer>{sink}.format(format, values);
  sink.terminate();
  return static_cast<int>(sink.wanted());
}

/// Writes to a buffer from the heap that the caller frees.
QUARRY_SLOW int print_to_new(char** result, char const* format, arguments& values) {
  bytes capacity = 128;
  for (;;) {
    auto* const buffer = static_cast<char*>(allocate(capacity));
    if (buffer == nullptr) return -1;
    arguments same{values};
    int const length = print_to(buffer, capacity, format, same);
    if (static_cast<bytes>(length) < capacity) {
      *result = buffer;
      return length;
    }
    release(buffer);
    capacity = static_cast<bytes>(length) + 1;
  }
}

QUARRY_SLOW int put(c_file* file, int c) {
  char const text = static_cast<char>(c);
  bool const is_written = write_bytes(self(), *file, &text, 1) == 1;
  return is_written ? static_cast<unsigned char>(text) : -1;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD char* quarry_c_strerror(int code);

#define QUARRY_PRINTS(name, call, ...)       \
  QUARRY_VARIADIC(name, call, __VA_ARGS__)   \
  QUARRY_WITH_SLOTS(name, call, __VA_ARGS__) \
  QUARRY_WITH_LIST(v##name, call, __VA_ARGS__)
QUARRY_PRINTS(printf, write_formatted(nullptr, format, values), char const* format)
QUARRY_PRINTS(fprintf, write_formatted(file, format, values), c_file* file, char const* format)
QUARRY_PRINTS(sprintf, print_to(buffer, ~std::uint64_t{0}, format, values), char* buffer,
              char const* format)
QUARRY_PRINTS(snprintf, print_to(buffer, size, format, values), char* buffer, unsigned long size,
              char const* format)
QUARRY_PRINTS(asprintf, print_to_new(result, format, values), char** result, char const* format)
#undef QUARRY_PRINTS

QUARRY_HD int quarry_c_puts(char const* text) {
  rank_state& rank = self();
  bytes const length = length_of(text);
  if (length < output_record::text_bytes) {  // one record: the line cannot be torn
    char line[output_record::text_bytes];
    std::memcpy(line, text, length);
    line[length] = '\n';
    write_text(rank, 1, line, length + 1);
  } else {
    write_text(rank, 1, text, length);
    write_text(rank, 1, "\n", 1);
  }
  return 1;
}
QUARRY_HD int quarry_c_putchar(int c) {
  char const text = static_cast<char>(c);
  write_text(self(), 1, &text, 1);
  return static_cast<unsigned char>(text);
}
QUARRY_HD int quarry_c_fputc(int c, c_file* file) { return put(file, c); }
QUARRY_HD int quarry_c_putc(int c, c_file* file) { return put(file, c); }
QUARRY_HD int quarry_c_fputs(char const* text, c_file* file) {
  bytes const length = length_of(text);
  return write_bytes(self(), *file, text, length) == length ? 1 : -1;
}
QUARRY_HD void quarry_c_perror(char const* prefix) {
  rank_state& rank = self();
  char line[output_record::text_bytes];
  text_buffer text{line, sizeof(line) - 1};
  int const code = rank.error_number;
  if (prefix != nullptr && *prefix != 0) {
    text.add(prefix);
    text.add(": ");
  }
  text.add(quarry_c_strerror(code));
  bytes const length = text.length();
  line[length] = '\n';
  write_text(rank, 2, line, length + 1);
}

}  // extern "C"

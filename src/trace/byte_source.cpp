// SPDX-License-Identifier: Apache-2.0
#include "trace/byte_source.hpp"

#include "quarry/core/errors.hpp"
#include "quarry/trace/reader.hpp"

#ifdef QUARRY_WITH_ZLIB
#include <zlib.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::size_t read_size = 1 << 18;

[[nodiscard]] resource_failed cannot(char const* verb, std::string const& path) {
  return resource_failed{path + ": cannot " + verb, std::strerror(errno)};
}

}  // namespace

#ifdef QUARRY_WITH_ZLIB
/// zlib also reads files that are not compressed.
class byte_source::input {
 public:
  explicit input(std::string const& path) : path_{path}, file_{gzopen(path.c_str(), "rb")} {
    if (file_ == nullptr) throw cannot("open the file", path);
    (void)gzbuffer(file_, read_size);
  }
  ~input() { gzclose(file_); }

  [[nodiscard]] std::size_t read(unsigned char* target, std::size_t size) {
    int const count = gzread(file_, target, static_cast<unsigned>(size));
    int status = Z_OK;
    char const* const text = gzerror(file_, &status);
    if (status == Z_ERRNO) throw cannot("read the file", path_);
    if (count < 0 || status == Z_DATA_ERROR || status == Z_BUF_ERROR)
      throw bad_trace{path_ + ": the compressed data are damaged: " + text};
    return static_cast<std::size_t>(count);
  }
  void rewind() {
    if (gzrewind(file_) != 0) throw cannot("rewind the file", path_);
  }

 private:
  std::string const& path_;
  gzFile file_;
};
#else
class byte_source::input {
 public:
  explicit input(std::string const& path) : path_{path}, file_{std::fopen(path.c_str(), "rb")} {
    if (file_ == nullptr) throw cannot("open the file", path);
  }
  ~input() { std::fclose(file_); }

  [[nodiscard]] std::size_t read(unsigned char* target, std::size_t size) {
    std::size_t const count = std::fread(target, 1, size, file_);
    if (count < size && std::ferror(file_) != 0) throw cannot("read the file", path_);
    return count;
  }
  void rewind() { std::rewind(file_); }

 private:
  std::string const& path_;
  std::FILE* file_;
};
#endif

byte_source::byte_source(std::string const& path)
    : path_{path}, input_{std::make_unique<input>(path_)} {}
byte_source::~byte_source() = default;

void byte_source::fill(std::size_t count) {
  if (end_ - begin_ >= count) return;
  std::copy(window_.begin() + static_cast<std::ptrdiff_t>(begin_),
            window_.begin() + static_cast<std::ptrdiff_t>(end_), window_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (window_.size() < count + read_size) window_.resize(count + read_size);
  while (end_ < count) {
    std::size_t const got = input_->read(window_.data() + end_, read_size);
    if (got == 0) return;
    end_ += got;
    if (window_.size() - end_ < read_size) window_.resize(end_ + read_size);
  }
}

std::span<unsigned char const> byte_source::peek(std::size_t count) {
  fill(count);
  return {window_.data() + begin_, end_ - begin_};
}

void byte_source::skip(std::size_t count) {
  begin_ += count;
  offset_ += count;
}

std::optional<std::string_view> byte_source::line() {
  std::size_t searched = 0;
  for (;;) {
    auto const found = peek(searched + 1);
    if (found.empty()) return std::nullopt;
    auto const* const text = reinterpret_cast<char const*>(found.data());
    auto const* const end =
        static_cast<char const*>(std::memchr(text + searched, '\n', found.size() - searched));
    bool const is_last = end == nullptr && found.size() == searched;
    std::size_t const length = end != nullptr ? static_cast<std::size_t>(end - text) : found.size();
    if (end != nullptr || is_last || length >= max_line) {
      skip(length + (end != nullptr ? 1 : 0));
      bool const has_return = length > 0 && text[length - 1] == '\r';
      return std::string_view{text, length - (has_return ? 1 : 0)};
    }
    searched = found.size();
  }
}

void byte_source::rewind() {
  input_->rewind();
  begin_ = end_ = 0;
  offset_ = 0;
}

}  // namespace quarry::inline QUARRY_ABI::trace

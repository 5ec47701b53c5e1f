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
#include <new>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::size_t read_size = 1 << 16;

[[nodiscard]] resource_failed cannot(char const* verb, std::string const& path) {
  return resource_failed{path + ": cannot " + verb, std::strerror(errno)};
}

}  // namespace

/// The bytes of a file. Decompresses files whose first bytes are those of gzip.
class byte_source::input {
 public:
  explicit input(std::string const& path) : path_{path}, file_{std::fopen(path.c_str(), "rb")} {
    if (file_ == nullptr) throw cannot("open the file", path);
  }
  input(input const&) = delete;
  input& operator=(input const&) = delete;
  ~input() { std::fclose(file_); }

  /// Reads at most `size` bytes; returns their number, and 0 only at the end. If the compressed
  /// data are damaged, returns all bytes before the damage first.
  [[nodiscard]] std::size_t read(unsigned char* target, std::size_t size) {
    if (raw_.empty()) refill();
    if (!is_begun_) is_compressed_ = raw_.size() >= 2 && raw_[0] == 0x1f && raw_[1] == 0x8b;
    is_begun_ = true;
    if (is_compressed_) return decompress(target, size);
    std::size_t const count = std::min(size, raw_.size());
    std::copy_n(raw_.begin(), count, target);
    raw_ = raw_.subspan(count);
    return count;
  }
  void rewind() {
    if (std::fseek(file_, 0, SEEK_SET) != 0) throw cannot("rewind the file", path_);
    raw_ = {};
    is_begun_ = is_compressed_ = false;
    decoder_.reset();
  }

 private:
#ifdef QUARRY_WITH_ZLIB
  struct decoder {
    decoder() {
      if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc{};  // 16: gzip's header
    }
    decoder(decoder const&) = delete;
    decoder& operator=(decoder const&) = delete;
    ~decoder() { inflateEnd(&stream); }
    z_stream stream = {};
    bool is_inside = false;  // a compressed part that has not ended
    std::string damage = {};
  };

  void set_damaged(std::string const& reason) {
    decoder_->damage = "the compressed data are damaged: " + reason;
  }
  [[nodiscard]] std::size_t decompress(unsigned char* target, std::size_t size) {
    if (!decoder_) decoder_ = std::make_unique<decoder>();
    z_stream& stream = decoder_->stream;
    stream.next_out = target;
    stream.avail_out = static_cast<unsigned>(size);
    while (stream.avail_out == size) {
      if (!decoder_->damage.empty()) throw bad_trace{path_ + ": " + decoder_->damage};
      if (raw_.empty()) refill();
      if (raw_.empty() && decoder_->is_inside) {
        set_damaged("the file ends too early");
        continue;
      }
      if (!decoder_->is_inside && !finds_next_part()) continue;
      if (raw_.empty()) return 0;
      decoder_->is_inside = true;
      stream.next_in = const_cast<unsigned char*>(raw_.data());
      stream.avail_in = static_cast<unsigned>(raw_.size());
      int const status = inflate(&stream, Z_NO_FLUSH);
      raw_ = raw_.last(stream.avail_in);
      if (status == Z_STREAM_END) {
        decoder_->is_inside = false;
        (void)inflateReset(&stream);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        set_damaged(stream.msg != nullptr ? stream.msg : "unknown error");
      }
    }
    return size - stream.avail_out;
  }
  /// Compressed parts may follow each other, and zeros may fill the file up, as on tapes. Returns
  /// false if other bytes follow: they may be events, for example of a log that was not compressed
  /// when a program went on writing.
  [[nodiscard]] bool finds_next_part() {
    while (!raw_.empty() && raw_[0] == 0) {
      raw_ = raw_.subspan(1);
      if (raw_.empty()) refill();
    }
    if (raw_.empty() || raw_[0] == 0x1f) return true;
    decoder_->damage = "bytes that are not compressed follow the compressed data, and are ignored";
    return false;
  }
#else
  struct decoder {};

  [[nodiscard]] std::size_t decompress(unsigned char*, std::size_t) {
    throw bad_trace{path_ +
                    ": the file is compressed, but Quarry was built without zlib; "
                    "decompress it with gunzip"};
  }
#endif

  void refill() {
    std::size_t const count = std::fread(buffer_.data(), 1, buffer_.size(), file_);
    if (count < buffer_.size() && std::ferror(file_) != 0) throw cannot("read the file", path_);
    raw_ = std::span{buffer_}.first(count);
  }

  std::string const& path_;
  std::FILE* file_;
  std::vector<unsigned char> buffer_ = std::vector<unsigned char>(read_size);
  std::span<unsigned char const> raw_;  // bytes of the file in `buffer_` that are not consumed
  bool is_begun_ = false, is_compressed_ = false;
  std::unique_ptr<decoder> decoder_;
};

byte_source::byte_source(std::string const& path)
    : path_{path}, input_{std::make_unique<input>(path_)} {}
byte_source::~byte_source() = default;

void byte_source::fill(std::size_t count) {
  while (end_ - begin_ < count && !is_at_end_) {
    if (window_.size() - end_ < read_size) make_room();
    std::size_t const got = input_->read(window_.data() + end_, read_size);
    is_at_end_ = got == 0;
    end_ += got;
  }
}

/// Moves the window's bytes to its front if they fill at most half of it; else doubles it. So each
/// byte moves O(1) times, and the window grows only as bytes arrive.
void byte_source::make_room() {
  if (begin_ < window_.size() / 2) {
    window_.resize(2 * window_.size());
    return;
  }
  std::copy(window_.begin() + static_cast<std::ptrdiff_t>(begin_),
            window_.begin() + static_cast<std::ptrdiff_t>(end_), window_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (window_.size() < 2 * read_size) window_.resize(2 * read_size);
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
  is_at_end_ = false;
}

}  // namespace quarry::inline QUARRY_ABI::trace

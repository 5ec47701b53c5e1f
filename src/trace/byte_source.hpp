// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The bytes of a file, decompressed if gzip compressed it. Keeps one window of the file.
class byte_source {
 public:
  /// Throws `resource_failed` if the file cannot be opened.
  explicit byte_source(std::string const& path);
  byte_source(byte_source const&) = delete;
  byte_source& operator=(byte_source const&) = delete;
  ~byte_source();

  [[nodiscard]] std::string const& path() const { return path_; }
  /// Bytes consumed until now, of the decompressed file.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

  /// At least `count` of the next bytes, or all that are left if these are fewer. Does not consume
  /// them. They stay valid until the next call. Throws `bad_trace` if the compressed data are
  /// damaged, and `resource_failed` if the file cannot be read.
  [[nodiscard]] std::span<unsigned char const> peek(std::size_t count);
  /// The next bytes that are already read, at least those that the last `peek` returned. After
  /// damaged compressed data: all bytes before the damage.
  [[nodiscard]] std::span<unsigned char const> read_ahead() const {
    return {window_.data() + begin_, end_ - begin_};
  }
  /// Consumes bytes that `peek` returned.
  void skip(std::size_t count);
  /// Consumes the next line and returns it without its end; nullopt at the end of the file. Valid
  /// until the next call. A line longer than `max_line` is returned in parts.
  [[nodiscard]] std::optional<std::string_view> line();
  /// Starts again at the first byte.
  void rewind();

  static constexpr std::size_t max_line = 1 << 20;

 private:
  class input;
  /// Reads until the window has `count` bytes after the present position, or the file ends.
  void fill(std::size_t count);
  void make_room();

  std::string path_;
  std::unique_ptr<input> input_;
  std::vector<unsigned char> window_;
  std::size_t begin_ = 0, end_ = 0;  // what `window_` has not yet given out
  std::uint64_t offset_ = 0;
  bool is_at_end_ = false;  // the window has the file's last byte
};

}  // namespace quarry::inline QUARRY_ABI::trace

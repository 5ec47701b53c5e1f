// SPDX-License-Identifier: Apache-2.0
#include "opencl/file_cache.hpp"

#include <atomic>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <system_error>

#include <unistd.h>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

constexpr std::string_view magic = "quarry-opencl-cache 1\n";

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char const byte : text) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}
std::string hex(std::uint64_t value) {
  char digits[16];
  auto const end = std::to_chars(digits, digits + sizeof digits, value, 16).ptr;
  return {digits, end};
}
std::filesystem::path file_of(std::filesystem::path const& folder, std::string const& key) {
  return folder / (hex(hash_of(key)) + ".bin");
}
/// The whole file: magic, length of the key, checksum, key, value.
std::string contents_of(std::string const& key, std::string const& value) {
  return std::string{magic} + hex(key.size()) + ' ' + hex(hash_of(key + value)) + '\n' + key +
         value;
}

}  // namespace

std::optional<std::string> load_entry(std::filesystem::path const& folder,
                                      std::string const& key) noexcept {
  if (folder.empty()) return std::nullopt;
  try {
    auto const path = file_of(folder, key);
    if (!std::filesystem::is_regular_file(path)) return std::nullopt;  // a pipe would block
    std::ifstream file{path, std::ios::binary};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    auto const value = text.find('\n', magic.size());
    if (value == std::string::npos || text.size() < value + 1 + key.size()) return std::nullopt;
    std::string result = text.substr(value + 1 + key.size());
    if (text != contents_of(key, result)) return std::nullopt;
    return result;
  } catch (...) {  // a folder of another user, or a file too large for memory
    return std::nullopt;
  }
}

void store_entry(std::filesystem::path const& folder, std::string const& key,
                 std::string const& value) noexcept {
  if (folder.empty()) return;
  static std::atomic<unsigned> count{0};  // threads may store one key at the same time
  try {
    std::filesystem::create_directories(folder);
    auto const file = file_of(folder, key);
    auto part = file;
    part += std::string{"."}
                .append(std::to_string(getpid()))
                .append("-")
                .append(std::to_string(++count));
    std::error_code error;
    if (std::ofstream output{part, std::ios::binary}; output << contents_of(key, value)) {
      output.close();
      if (output) std::filesystem::rename(part, file, error);
      if (output && !error) return;
    }
    std::filesystem::remove(part, error);
  } catch (...) {  // no memory, or a folder of another user: the next build takes as long again
  }
}

}  // namespace quarry::inline QUARRY_ABI::opencl

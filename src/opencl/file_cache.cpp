// SPDX-License-Identifier: Apache-2.0
#include "opencl/file_cache.hpp"

#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>

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

std::optional<std::string> load_entry(std::filesystem::path const& folder, std::string const& key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream file{file_of(folder, key), std::ios::binary};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  auto const value = text.find('\n', magic.size());
  if (value == std::string::npos || text.size() < value + 1 + key.size()) return std::nullopt;
  std::string result = text.substr(value + 1 + key.size());
  if (text != contents_of(key, result)) return std::nullopt;
  return result;
}

void store_entry(std::filesystem::path const& folder, std::string const& key,
                 std::string const& value) noexcept {
  if (folder.empty()) return;
  try {
    std::filesystem::create_directories(folder);
    auto const file = file_of(folder, key);
    auto part = file;
    part += "." + std::to_string(getpid());
    {
      std::ofstream output{part, std::ios::binary};
      output << contents_of(key, value);
      if (!output.flush()) {
        std::filesystem::remove(part);
        return;
      }
    }
    std::filesystem::rename(part, file);
  } catch (...) {  // a full disk, or a folder of another user: the next build takes as long again
  }
}

}  // namespace quarry::inline QUARRY_ABI::opencl

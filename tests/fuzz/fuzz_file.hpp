// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace quarry::test {

/// A file that ends with the process.
class fuzz_file {
 public:
  explicit fuzz_file(std::string const& name)
      : path_{std::filesystem::path{std::filesystem::is_directory("/dev/shm")
                                        ? "/dev/shm"  // in memory: 10 times faster
                                        : std::filesystem::temp_directory_path()}
                  .string() +
              "/quarry-fuzz-" + std::to_string(getpid()) + name} {}
  ~fuzz_file() { (void)unlink(path_.c_str()); }
  fuzz_file(fuzz_file const&) = delete;
  fuzz_file& operator=(fuzz_file const&) = delete;
  [[nodiscard]] std::string const& path() const { return path_; }
  void write(std::string_view bytes) const {
    std::ofstream{path_, std::ios::binary}.write(bytes.data(),
                                                 static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::string path_;
};

}  // namespace quarry::test

// SPDX-License-Identifier: Apache-2.0
// A step of the build: writes the runtime for several GPUs.
#include "system_scope.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: quarry-widen-scope PTX OUTPUT\n");
    return 2;
  }
  std::ifstream file{argv[1], std::ios::binary};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", argv[1]);
    return 1;
  }
  try {
    std::ofstream output{argv[2], std::ios::binary};
    output << quarry::mpi::with_system_scope(text);
    output.close();
    if (output) return 0;
    std::fprintf(stderr, "%s: cannot be written\n", argv[2]);
  } catch (std::exception const& refused) {
    std::fprintf(stderr, "%s: %s\n", argv[1], refused.what());
  }
  (void)std::remove(argv[2]);  // the next build must not take a part for the whole
  return 1;
}

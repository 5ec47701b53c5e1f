// SPDX-License-Identifier: Apache-2.0
// quarry-mpirun: runs a program that quarry-mpicc made.
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv) {
  int i = 1;
  auto const value = [&](std::string const& option) -> std::string {
    if (i + 1 < argc) return argv[++i];
    std::fprintf(stderr, "quarry-mpirun: option %s needs a value\n", option.c_str());
    std::exit(2);
  };
  for (; i < argc && argv[i][0] == '-'; ++i) {
    std::string const option = argv[i];
    if (option == "-n" || option == "-np" || option == "-c") {
      setenv("QUARRY_MPI_RANKS", value(option).c_str(), 1);
    } else if (option == "--device" || option == "--heap" || option == "--stack" ||
               option == "--ranks-per-warp" || option == "--seed" || option == "--malloc") {
      std::string name = "QUARRY_MPI_" + option.substr(2);
      for (char& c : name)
        c = static_cast<char>(c == '-' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
      setenv(name.c_str(), value(option).c_str(), 1);
    } else if (option == "--verbose" || option == "-v") {
      setenv("QUARRY_MPI_VERBOSE", "1", 1);
    } else {
      std::fprintf(
          stderr,
          "quarry-mpirun: unknown option %s\nusage: quarry-mpirun -n RANKS [--device "
          "cpu|gpu] [--heap BYTES] [--stack BYTES] [--ranks-per-warp N] [--seed N] [--malloc NAME] "
          "[--verbose] PROGRAM [ARGUMENT...]\n",
          option.c_str());
      return 2;
    }
  }
  if (i == argc) {
    std::fprintf(stderr, "quarry-mpirun: no program\n");
    return 2;
  }
  std::string program = argv[i];
  if (program.find('/') == std::string::npos && access(program.c_str(), X_OK) == 0)
    program = "./" + program;
  execvp(program.c_str(), argv + i);
  std::perror(("quarry-mpirun: " + program).c_str());
  return 127;
}

// SPDX-License-Identifier: Apache-2.0
// quarry-mpirun: runs a program that quarry-mpicc made. The program reads its options from the
// environment, so it also runs without quarry-mpirun.
#include "needed_libraries.hpp"
#include "process_group.hpp"
#include "tuning.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr char usage[] = "usage: quarry-mpirun -n RANKS [OPTION...] PROGRAM [ARGUMENT...]\n";

struct option {
  char const* name;
  char const* value;  // what the value is, or null if the option has none
  char const* variable;
  char const* help;
};

constexpr option options[] = {
    {"-n", "N", "RANKS", "the number of ranks (1); also -np and -c"},
    {"--device", "cpu|gpu", "DEVICE",
     "where the ranks run (the GPU, if there is one and the program has code for it)"},
    {"--gpus", "K", "GPUS",
     "GPU: how many GPUs share the ranks, in consecutive parts (1); NVLink must connect them"},
    {"--processes", "K", "PROCESSES",
     "how many processes share the ranks, each with its own GPU (1); compile with "
     "quarry-mpicc --processes"},
    {"--process", "I", "PROCESS",
     "starts process I of --processes alone, 0 to K - 1, on each host; needs --meeting-file"},
    {"--meeting-file", "FILE", "MEETING_FILE",
     "by which processes that were started alone find each other: process 0 makes it"},
    {"--stack", "SIZE", "STACK",
     "the stack of each rank (GPU: what the program needs; CPU: 1 MiB)"},
    {"--heap", "SIZE", "HEAP",
     "the memory for malloc and for messages, of all ranks together "
     "(GPU: half of what is free, at most 16 GiB; CPU: 1 GiB)"},
    {"--malloc", "NAME", "MALLOC",
     "what serves malloc: collective (the default), dynamic, cuda, "
     "cuda-dynamic, cuda-map"},
    {"--ranks-per-warp", "N", "RANKS_PER_WARP",
     "GPU: how many ranks share a warp, a power of two up to 32 "
     "(1 or 2 if all ranks fit so, else 32)"},
    {"--registers", "N", "REGISTERS",
     "GPU: the most registers of a rank: 32, 64, 128 or 255 (as many as all ranks can have, "
     "but fewer, at least 64, if fewer ranks share a warp so)"},
    {"--tune", "FILE", "TUNE",
     "GPU: chooses --ranks-per-warp and --registers by short runs of the program, and keeps the "
     "choice in FILE"},
    {"--threads", "K", "THREADS",
     "CPU: how many threads run the ranks; 0: one for each core (1, so that a run repeats "
     "exactly)"},
    {"--seed", "N", "SEED",
     "CPU: also switches ranks where they do not wait, in an order "
     "that depends on N (0: only where they wait)"},
    {"--trace", "FILE", "TRACE",
     "writes each rank's calls of MPI, malloc and free to FILE, for quarry report; "
     "compile with quarry-mpicc --trace"},
    {"--trace-events", "N", "TRACE_EVENTS",
     "the most calls of each rank in a trace (as many as take 256 MB, at most 1,048,575)"},
    {"--verbose", nullptr, "VERBOSE",
     "says what each rank gets and which faults the heap recorded"},
};

void print_help() {
  std::fputs(usage, stdout);
  std::fputs(
      "Runs a program that quarry-mpicc made, each rank as a thread of a GPU or a fiber of the "
      "CPU.\n\n",
      stdout);
  for (option const& each : options) {
    std::string left = each.name;
    if (each.value != nullptr) left += std::string{" "} + each.value;
    std::printf("  %-20s  %s\n", left.c_str(), each.help);
  }
  std::fputs(
      "\nSIZE is a number of bytes, or a number with a binary unit: 64K, 16M, 1.5G.\n"
      "The exit status is that of MPI_Abort, else the first status of a rank that is not 0.\n",
      stdout);
}

option const* find(std::string const& name) {
  for (option const& each : options)
    if (name == each.name) return &each;
  if (name == "-np" || name == "-c") return &options[0];
  return name == "-v" ? find("--verbose") : nullptr;
}

/// Whether the file is a program that was linked with another MPI's library. It would run as one
/// rank, without a message.
bool is_of_other_mpi(std::string const& path) {
  auto const libraries = quarry::mpi::needed_libraries(path);
  return std::ranges::any_of(libraries, [](std::string const& name) {
    return name.starts_with("libmpi.") || name.starts_with("libmpich.");
  });
}

/// Processes of one host that quarry-mpirun starts.
constexpr unsigned most_processes = 1024;

/// What an option was set to; empty if it was not.
std::string value_of(char const* variable) {
  char const* const text = std::getenv((std::string{"QUARRY_MPI_"} + variable).c_str());
  return text == nullptr ? "" : text;
}

}  // namespace

int main(int argc, char** argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    std::string const name = argv[i];
    if (name == "--help" || name == "-h") {
      print_help();
      return 0;
    }
    option const* const known = find(name);
    if (known == nullptr) {
      std::fprintf(stderr, "quarry-mpirun: unknown option %s\n%sSee quarry-mpirun --help\n",
                   name.c_str(), usage);
      return 2;
    }
    bool const lacks_value = known->value != nullptr && (i + 1 == argc || argv[i + 1][0] == 0);
    if (lacks_value) {
      std::fprintf(stderr, "quarry-mpirun: option %s needs a value\n", name.c_str());
      return 2;
    }
    setenv((std::string{"QUARRY_MPI_"} + known->variable).c_str(),
           known->value == nullptr ? "1" : argv[++i], 1);
  }
  if (i == argc) {
    std::fprintf(stderr, "quarry-mpirun: no program\n%s", usage);
    return 2;
  }
  std::string program = argv[i];
  if (program.find('/') == std::string::npos && access(program.c_str(), X_OK) == 0)
    program = "./" + program;
  if (is_of_other_mpi(program)) {
    std::fprintf(stderr, "quarry-mpirun: %s was compiled for another MPI; use quarry-mpicc\n",
                 program.c_str());
    return 2;
  }
  if (char const* const file = std::getenv("QUARRY_MPI_TUNE"); file != nullptr && *file != 0) {
    std::vector<std::string> command{program};
    command.insert(command.end(), argv + i + 1, argv + argc);
    if (int const status = quarry::mpi_tuning::tune(file, command); status != 0) return status;
    unsetenv("QUARRY_MPI_TUNE");  // the program may be a script that calls quarry-mpirun
  }
  std::string const processes = value_of("PROCESSES");
  if (!processes.empty() && processes != "1" && value_of("PROCESS").empty()) {
    std::vector<std::string> command{program};
    command.insert(command.end(), argv + i + 1, argv + argc);
    auto const count = static_cast<unsigned>(std::strtoul(processes.c_str(), nullptr, 10));
    // The program itself refuses a wrong number.
    if (count >= 1 && count <= most_processes) return quarry::mpi_processes::run(count, command);
  }
  execvp(program.c_str(), argv + i);
  std::perror(("quarry-mpirun: " + program).c_str());
  return 127;
}

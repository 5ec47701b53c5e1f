// SPDX-License-Identifier: Apache-2.0
#include "tuning.hpp"

#include "short_run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace quarry::inline QUARRY_ABI::mpi_tuning {
namespace {

constexpr char seconds_of_run[] = "1";
constexpr unsigned most_seconds = 30;  // of a short run with its start and its end

std::string setting(char const* name, char const* fallback) {
  char const* const value = std::getenv(name);
  return value == nullptr || *value == 0 ? fallback : value;
}

unsigned number(char const* name) {
  return static_cast<unsigned>(std::strtoul(setting(name, "0").c_str(), nullptr, 10));
}

void put(char const* name, unsigned value) {
  if (value == 0)
    unsetenv(name);
  else
    setenv(name, std::to_string(value).c_str(), 1);
}

void put(placement const& chosen) {
  put("QUARRY_MPI_RANKS_PER_WARP", chosen.ranks_per_warp);
  put("QUARRY_MPI_REGISTERS", chosen.registers);
}

std::string text_of(placement const& chosen) {
  auto const value = [](unsigned one) { return one == 0 ? "default" : std::to_string(one); };
  return "--ranks-per-warp " + value(chosen.ranks_per_warp) + ", --registers " +
         value(chosen.registers);
}

std::string text_of(outcome const& found) {
  char text[80];
  if (found.is_done)
    std::snprintf(text, sizeof text, "%.3g s", found.seconds);
  else
    std::snprintf(text, sizeof text, "%.3g steps a second", found.steps / found.seconds);
  return text;
}

/// In the child: runs the program without input and output.
[[noreturn]] void run_program(std::vector<std::string> const& command, placement const& chosen,
                              int report) {
  put(chosen);
  setenv(short_run::seconds_variable, seconds_of_run, 1);
  setenv(short_run::report_variable, std::to_string(report).c_str(), 1);
  unsetenv("QUARRY_MPI_TRACE");
  int const nothing = open("/dev/null", O_RDWR);
  for (int const stream : {0, 1, 2}) dup2(nothing, stream);
  alarm(most_seconds);
  std::vector<char*> arguments;
  for (auto const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

/// A short run. `uses_gpu` becomes false if the program says that it runs on the CPU.
outcome run_shortly(std::vector<std::string> const& command, placement const& chosen,
                    bool& uses_gpu) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  pid_t const child = fork();
  if (child == 0) {
    close(ends[0]);
    run_program(command, chosen, ends[1]);
  }
  close(ends[1]);
  std::string text;
  char part[256];
  for (ssize_t size; (size = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(size));
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return {};
  if (text.starts_with(short_run::on_cpu)) uses_gpu = false;
  outcome found;
  std::istringstream words{text};
  std::string how;
  words >> how >> found.seconds >> found.steps;
  found.is_done = how == short_run::done;
  bool const is_right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  found.exists = !words.fail() && is_right && (found.is_done || how == short_run::stopped) &&
                 found.seconds > 0;
  return found;
}

}  // namespace

bool is_better(outcome const& other, outcome const& best) {
  if (!other.exists || !best.exists) return other.exists;
  if (other.is_done != best.is_done) return other.is_done;
  constexpr double clearly = 1.03;
  if (other.is_done) return other.seconds * clearly < best.seconds;
  return other.steps / other.seconds > clearly * best.steps / best.seconds;
}

std::vector<placement> placements(placement const& fixed) {
  std::vector<placement> all{fixed};
  for (unsigned const ranks : {1u, 2u, 4u, 8u, 16u, 32u})
    for (unsigned const registers : {255u, 128u, 64u, 32u})
      if ((fixed.ranks_per_warp == 0 || fixed.ranks_per_warp == ranks) &&
          (fixed.registers == 0 || fixed.registers == registers))
        all.push_back({ranks, registers});
  return all;
}

tuning_file::tuning_file(std::string path, std::vector<std::string> const& command,
                         std::string const& ranks, std::string const& gpus)
    : path_{std::move(path)} {
  char host[256] = "unknown";
  (void)gethostname(host, sizeof host - 1);
  struct stat program{};
  (void)stat(command[0].c_str(), &program);
  std::ostringstream key;
  key << host << '\t' << ranks << '\t' << gpus << '\t' << program.st_size << '.'
      << program.st_mtim.tv_sec << '.' << program.st_mtim.tv_nsec << '\t';
  for (auto const& word : command) {  // a line has one entry, and tabs divide it
    for (char const letter : word) key << (letter == '\t' || letter == '\n' ? ' ' : letter);
    key << ' ';
  }
  key_ = key.str();
}

bool tuning_file::find(placement& found) const {
  std::ifstream file{path_};
  bool exists = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields{line};
    placement entry;
    std::string key;
    if (!(fields >> entry.ranks_per_warp >> entry.registers) || fields.get() != '\t') continue;
    std::getline(fields, key);
    if (key != key_) continue;
    found = entry;
    exists = true;
  }
  return exists;
}

bool tuning_file::add(placement const& chosen) const {
  std::string const line = std::to_string(chosen.ranks_per_warp) + ' ' +
                           std::to_string(chosen.registers) + '\t' + key_ + '\n';
  int const file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return false;
  bool const is_written =
      write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  int const reason = errno;
  close(file);
  errno = reason;
  return is_written;
}

int tune(std::string const& file, std::vector<std::string> const& command) {
  placement const fixed{number("QUARRY_MPI_RANKS_PER_WARP"), number("QUARRY_MPI_REGISTERS")};
  tuning_file const kept{file, command, setting("QUARRY_MPI_RANKS", "1"),
                         setting("QUARRY_MPI_GPUS", "1")};
  placement best = fixed;
  if (!kept.find(best)) {
    bool uses_gpu = true;
    bool is_first = true;
    outcome first, found_best;
    for (placement const& each : placements(fixed)) {
      outcome const found = run_shortly(command, each, uses_gpu);
      if (!uses_gpu) {
        std::fputs("quarry-mpirun: --tune: the ranks run on the CPU, which needs no choice\n",
                   stderr);
        return 0;
      }
      if (is_first) first = found;
      is_first = false;
      if (!is_better(found, found_best)) continue;
      best = each;
      found_best = found;
    }
    if (!found_best.exists) {
      std::fputs(
          "quarry-mpirun: --tune: the program failed in all short runs; run it without "
          "--tune to see why\n",
          stderr);
      return 1;
    }
    std::fprintf(stderr, "quarry-mpirun: --tune: %s: %s; without: %s\n", text_of(best).c_str(),
                 text_of(found_best).c_str(), first.exists ? text_of(first).c_str() : "fails");
    if (!kept.add(best)) {
      std::fprintf(stderr, "quarry-mpirun: --tune %s: %s\n", file.c_str(), std::strerror(errno));
      return 2;
    }
  }
  put({fixed.ranks_per_warp != 0 ? fixed.ranks_per_warp : best.ranks_per_warp,
       fixed.registers != 0 ? fixed.registers : best.registers});
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi_tuning

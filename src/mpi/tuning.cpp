// SPDX-License-Identifier: Apache-2.0
#include "tuning.hpp"

#include "short_run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
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
constexpr unsigned most_seconds = 30;  // of a short run with its start
constexpr int status_of_refusal = 2, status_without_program = 127;
constexpr char separator = '\x1f';  // of words, which may have spaces

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

/// In the child: runs the program without input and output. It ends with its parent.
[[noreturn]] void run_program(std::vector<std::string> const& command, placement const& chosen,
                              int report) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  report = fcntl(report, F_DUPFD, 3);
  put(chosen);
  setenv(short_run::seconds_variable, seconds_of_run, 1);
  setenv(short_run::report_variable, std::to_string(report).c_str(), 1);
  unsetenv("QUARRY_MPI_TRACE");
  unsetenv("QUARRY_MPI_TUNE");  // the program may be a script that calls quarry-mpirun
  int const nothing = open("/dev/null", O_RDWR);
  for (int const stream : {0, 1, 2}) dup2(nothing, stream);
  std::vector<char*> arguments;
  for (auto const& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(status_without_program);
}

[[nodiscard]] bool has_ended(pid_t child) {
  siginfo_t state{};
  return waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         state.si_pid == child;
}

/// The line that the child writes within `most_seconds`; less if it ends before. Processes that it
/// leaves behind may keep the file open.
std::string line_from(int file, pid_t child) {
  std::string text;
  for (int i = 0; i < static_cast<int>(most_seconds) * 20; ++i) {
    bool const is_last_look = has_ended(child);
    pollfd wanted{file, POLLIN, 0};
    while (poll(&wanted, 1, is_last_look ? 0 : 50) > 0) {
      char part[256];
      ssize_t const size = read(file, part, sizeof part);
      if (size <= 0) return text;
      text.append(part, static_cast<std::size_t>(size));
      if (text.find('\n') != std::string::npos) return text;
    }
    if (is_last_look) break;
  }
  return text;
}

/// Waits for the child's end, and kills it after a second. Returns its status as of a shell.
int end_of(pid_t child) {
  for (int i = 0;; ++i) {
    int status = 0;
    pid_t const ended = waitpid(child, &status, WNOHANG);
    if (ended < 0) return 1;
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (i == 100) kill(child, SIGKILL);
    usleep(10'000);
  }
}

/// A short run. `uses_gpu` becomes false if the program says that it runs on the CPU.
outcome run_shortly(std::vector<std::string> const& command, placement const& chosen,
                    bool& uses_gpu) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  pid_t const child = fork();
  if (child == 0) run_program(command, chosen, ends[1]);
  close(ends[1]);
  std::string const text = child < 0 ? std::string{} : line_from(ends[0], child);
  close(ends[0]);
  if (child < 0) return {};
  int const status = end_of(child);
  if (text.starts_with(short_run::on_cpu)) uses_gpu = false;
  outcome found;
  std::istringstream words{text};
  std::string how;
  words >> how >> found.seconds >> found.steps;
  found.is_done = how == short_run::done;
  found.exists = !words.fail() && status == 0 && (found.is_done || how == short_run::stopped) &&
                 found.seconds > 0;
  found.is_refused =
      text.empty() && (status == status_of_refusal || status == status_without_program);
  return found;
}

/// The file that execvp would run.
std::string file_of(std::string const& program) {
  std::string found = program;
  if (program.find('/') == std::string::npos) {
    std::istringstream folders{setting("PATH", "")};
    for (std::string folder; std::getline(folders, folder, ':');)
      if (access((folder + '/' + program).c_str(), X_OK) == 0) {
        found = folder + '/' + program;
        break;
      }
  }
  char* const whole = realpath(found.c_str(), nullptr);
  if (whole != nullptr) found = whole;
  std::free(whole);
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

tuning_file::tuning_file(std::string path, std::vector<std::string> const& command)
    : path_{std::move(path)} {
  char host[256] = "unknown";
  (void)gethostname(host, sizeof host - 1);
  char* const folder = getcwd(nullptr, 0);
  std::string const program = file_of(command[0]);
  struct stat state{};
  (void)stat(program.c_str(), &state);
  std::ostringstream key;
  key << host << ' ' << (folder == nullptr ? "" : folder);
  std::free(folder);
  for (char const* const name :
       {"QUARRY_MPI_RANKS", "QUARRY_MPI_GPUS", "QUARRY_MPI_RANKS_PER_WARP", "QUARRY_MPI_REGISTERS",
        "QUARRY_MPI_STACK", "QUARRY_MPI_HEAP", "QUARRY_MPI_MALLOC", "CUDA_VISIBLE_DEVICES"})
    key << ' ' << setting(name, "-");
  key << ' ' << state.st_size << '.' << state.st_mtim.tv_sec << '.' << state.st_mtim.tv_nsec;
  key << ' ' << program;
  for (std::size_t i = 1; i < command.size(); ++i) key << separator << command[i];
  for (char const letter : key.str()) key_ += letter == '\n' || letter == '\t' ? ' ' : letter;
}

bool tuning_file::is_writable() const {
  int const file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) close(file);
  return file >= 0;
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
  tuning_file const kept{file, command};
  placement best = fixed;
  if (!kept.find(best)) {
    if (!kept.is_writable()) {
      std::fprintf(stderr, "quarry-mpirun: --tune %s: %s\n", file.c_str(), std::strerror(errno));
      return 2;
    }
    std::signal(SIGCHLD, SIG_DFL);
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
      if (is_first && found.is_refused) return 0;  // the run that follows says why
      if (is_first) first = found;
      is_first = false;
      if (!is_better(found, found_best)) continue;
      best = each;
      found_best = found;
    }
    if (!found_best.exists) {
      std::fputs(
          "quarry-mpirun: --tune: the program fails in all short runs, which have no input; "
          "it runs with the default placement\n",
          stderr);
      return 0;
    }
    std::fprintf(stderr, "quarry-mpirun: --tune: %s: %s; without: %s\n", text_of(best).c_str(),
                 text_of(found_best).c_str(), first.exists ? text_of(first).c_str() : "fails");
    if (!kept.add(best))
      std::fprintf(stderr, "quarry-mpirun: --tune %s: %s; the choice is not kept\n", file.c_str(),
                   std::strerror(errno));
  }
  put(best);
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi_tuning

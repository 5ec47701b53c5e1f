// SPDX-License-Identifier: Apache-2.0
#include "process_group.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace quarry::inline QUARRY_ABI::mpi_processes {
namespace {

namespace fs = std::filesystem;

std::sig_atomic_t volatile received_signal = 0;

/// A folder for the file by which the processes find each other, in memory if the system has such.
class meeting_folder {
 public:
  meeting_folder() {
    for (char const* const base : {"/dev/shm", "/tmp"}) {
      path_ = std::string{base} + "/quarry-mpirun.XXXXXX";
      if (mkdtemp(path_.data()) != nullptr) return;
    }
    path_.clear();
  }
  meeting_folder(meeting_folder const&) = delete;
  ~meeting_folder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  [[nodiscard]] bool exists() const { return !path_.empty(); }
  [[nodiscard]] std::string file() const { return path_ + "/meeting"; }

 private:
  std::string path_;
};

/// What a shell reports.
int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/// Becomes process `number` of the program.
[[noreturn]] void become(unsigned number, std::vector<std::string> const& command) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody else would end a process that waits for another
  setenv("QUARRY_MPI_PROCESS", std::to_string(number).c_str(), 1);
  setenv("QUARRY_MPI_NUMBER_ON_HOST", std::to_string(number).c_str(), 1);
  if (number != 0) {  // the standard input is that of process 0
    int const nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
  }
  std::vector<char*> words;
  for (std::string const& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  std::fprintf(stderr, "quarry-mpirun: %s: %s\n", words[0], std::strerror(errno));
  _exit(127);
}

/// The processes that run.
class children {
 public:
  void add(pid_t child) { running_.push_back(child); }
  [[nodiscard]] bool empty() const { return running_.empty(); }
  void signal(int number) const {
    for (pid_t const child : running_) kill(child, number);
  }
  /// Forgets those that have ended. Returns the first status that is not 0, else 0.
  int collect() {
    int first = 0;
    for (std::size_t i = 0; i < running_.size();) {
      int status = 0;
      if (waitpid(running_[i], &status, WNOHANG) == 0) {
        ++i;
        continue;
      }
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      if (first == 0) first = status_of(status);
    }
    return first;
  }

 private:
  std::vector<pid_t> running_;
};

}  // namespace

int run(unsigned count, std::vector<std::string> const& command) {
  meeting_folder const folder;
  if (!folder.exists()) {
    std::perror("quarry-mpirun: no folder for the processes' file in /dev/shm or /tmp");
    return 1;
  }
  setenv("QUARRY_MPI_MEETING_FILE", folder.file().c_str(), 1);
  for (int const number : {SIGINT, SIGTERM})
    std::signal(number, [](int signal) { received_signal = signal; });
  children all;
  int status = 0;
  // A process has crashed or could not begin. A rank that returns a status does not end others, and
  // one that aborts the program tells them itself.
  bool has_failed = false;
  for (unsigned i = 0; i < count; ++i) {
    pid_t const child = fork();
    if (child == 0) become(i, command);
    if (child > 0) {
      all.add(child);
      continue;
    }
    std::perror("quarry-mpirun: fork");
    all.signal(SIGKILL);
    status = 1;
    break;
  }
  constexpr int ticks_a_second = 100;
  constexpr int grace = ticks_a_second / 2;  // ranks that run may learn from each other of the end
  int ticks = 0;                             // since a process has failed
  while (!all.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1000 / ticks_a_second});
    int const ended = all.collect();
    if (status == 0) status = ended;
    if (ended >= 128 || (ended != 0 && fs::exists(failed_file(folder.file())))) has_failed = true;
    if (int const number = received_signal; number != 0) {
      received_signal = 0;
      all.signal(number);
    }
    if (!has_failed) continue;
    ++ticks;
    if (ticks == grace) all.signal(SIGTERM);
    if (ticks == 10 * grace) all.signal(SIGKILL);
  }
  return status;
}

}  // namespace quarry::inline QUARRY_ABI::mpi_processes

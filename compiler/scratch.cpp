// SPDX-License-Identifier: Apache-2.0
#include "scratch.hpp"

#include "failure.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace quarry::compiler {
namespace {

namespace fs = std::filesystem;

/// The file in the scratch folder that names the unfinished file beside an output.
constexpr char const* unfinished = "unfinished";

std::sig_atomic_t volatile received = 0;
pid_t volatile worker = 0;

/// The worker leads a process group, to which Clang and ptxas belong.
void stop_worker(int signal) {
  received = signal;
  if (worker > 0) kill(-worker, SIGKILL);
}

constexpr int stopping_signals[] = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

scratch_folder::scratch_folder() {
  path_ = (fs::temp_directory_path() / "quarry-mpicc-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr)
    throw failure{"cannot create a folder in " + fs::temp_directory_path().string()};
}

void scratch_folder::publish(std::string const& source, std::string const& output) const {
  if (fs::exists(output) && !fs::is_regular_file(output)) {  // as /dev/null
    std::ifstream bytes{source, std::ios::binary};
    std::ofstream{output, std::ios::binary} << bytes.rdbuf();
    return;
  }
  std::string const beside = output + ".quarry-" + std::to_string(getpid());
  std::ofstream{*this / unfinished} << fs::absolute(beside).string();
  std::error_code error;
  fs::copy_file(source, beside, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(beside, output, error);
  if (error) throw failure{output + " cannot be written: " + error.message()};
}

void scratch_folder::remove() const {
  std::error_code ignored;
  std::string beside;
  if (std::getline(std::ifstream{*this / unfinished}, beside)) fs::remove(beside, ignored);
  fs::remove_all(path_, ignored);
}

int run_and_clean(scratch_folder const& scratch, bool keeps, std::function<int()> const& work) {
  sigset_t all{};
  sigset_t before{};
  sigemptyset(&all);
  for (int const signal : stopping_signals) sigaddset(&all, signal);
  sigprocmask(SIG_BLOCK, &all, &before);  // until `worker` is known
  pid_t const child = fork();
  if (child < 0) throw failure{"cannot start a process"};
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    int const status = work();
    std::fflush(nullptr);
    _exit(status);
  }
  setpgid(child, child);
  worker = child;
  for (int const signal : stopping_signals) std::signal(signal, stop_worker);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  worker = 0;
  if (keeps) {
    std::fprintf(stderr, "quarry-mpicc: the temporary files are in %s\n", scratch.path().c_str());
  } else {
    scratch.remove();
  }
  if (received != 0) {
    std::signal(received, SIG_DFL);
    std::raise(received);
  }
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr, "quarry-mpicc: internal error: ended by signal %d\n", WTERMSIG(status));
    return 1;
  }
  return WEXITSTATUS(status);
}

}  // namespace quarry::compiler

// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"

#include "failure.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <map>
#include <thread>

namespace quarry::compiler {
namespace {

pid_t start(command const& command) {
  std::vector<char*> arguments;
  for (auto const& word : command.words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t const child = fork();
  if (child < 0) throw failure{"cannot start " + command.words[0]};
  if (child != 0) return child;
  if (!command.log.empty()) {
    int const file = open(command.log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 1);
    dup2(file, 2);
  }
  execvp(arguments[0], arguments.data());
  std::fprintf(stderr, "quarry-mpicc: %s was not found\n", arguments[0]);
  _exit(127);
}

}  // namespace

std::string text_of(command const& command) {
  std::string line;
  for (auto const& word : command.words) {
    bool const is_plain =
        word.find_first_of(" \t\n\"'\\$&|;<>()*?#`") == std::string::npos && !word.empty();
    if (!line.empty()) line += ' ';
    if (is_plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (char const letter : word) line += letter == '\'' ? "'\\''" : std::string(1, letter);
    line += '\'';
  }
  return line;
}

std::vector<int> run_all(std::vector<command> const& commands, bool is_verbose) {
  std::vector<int> statuses(commands.size(), 1);
  std::size_t const cores = std::max(1u, std::thread::hardware_concurrency());
  std::map<pid_t, std::size_t> running;
  for (std::size_t next = 0; next < commands.size() || !running.empty();) {
    if (next < commands.size() && running.size() < cores) {
      if (is_verbose) std::fprintf(stderr, "%s\n", text_of(commands[next]).c_str());
      running[start(commands[next])] = next;
      ++next;
      continue;
    }
    int status = 0;
    pid_t const ended = waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) continue;
    auto const found = running.find(ended);
    if (found == running.end()) continue;
    statuses[found->second] = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    running.erase(found);
  }
  return statuses;
}

void run(std::vector<std::string> const& words, bool is_verbose) {
  if (run_all({{words, {}}}, is_verbose)[0] != 0) throw failure{};
}

}  // namespace quarry::compiler

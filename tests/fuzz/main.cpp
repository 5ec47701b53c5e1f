// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: the files of the command line, or random inputs and
// mutations of them until the time is up.
//
//   PROGRAM [--seconds N] [--seed S] [--crash-file PATH] [FILE...]
//
// Each input is written to the crash file before it runs, so that the file exists whatever the
// input does to the program. The same seed gives the same sequence of inputs; the number of inputs
// depends on the time.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
/// A sanitizer that ends the program calls this callback and sends no signal. Null if no sanitizer
/// is linked.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(
    void (*)());  // NOLINT(bugprone-reserved-identifier)

namespace {

using input = std::vector<std::uint8_t>;

constexpr std::size_t max_input = 4096;
constexpr std::size_t max_kept = 64;
constexpr int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

char message[4200];  // made in advance: a signal handler cannot make it
std::size_t message_size = 0;
struct sigaction old_actions[std::size(fatal)];

void print_crash_file() {
  [[maybe_unused]] auto const written = write(STDERR_FILENO, message, message_size);
  message_size = 0;  // a sanitizer and its final signal print it only once
}

/// Prints the path of the input, and restores the previous signal handler: the signal comes again.
void on_signal(int number) {
  print_crash_file();
  for (std::size_t i = 0; i < std::size(fatal); ++i) {
    if (fatal[i] == number) sigaction(number, &old_actions[i], nullptr);
  }
}

/// The input that runs, on disk.
class crash_file {
 public:
  explicit crash_file(std::string path)
      : path_{std::move(path)},
        file_{open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644)} {
    if (file_ < 0) {
      std::fprintf(stderr, "cannot write to %s\n", path_.c_str());
      std::exit(2);
    }
    std::snprintf(message, sizeof message, "\nthe input that failed: %s\n", path_.c_str());
    message_size = std::strlen(message);
    struct sigaction action{};
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < std::size(fatal); ++i)
      sigaction(fatal[i], &action, &old_actions[i]);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(print_crash_file);
  }
  crash_file(crash_file const&) = delete;
  crash_file& operator=(crash_file const&) = delete;
  /// No input failed.
  ~crash_file() {
    close(file_);
    unlink(path_.c_str());
  }

  void put(input const& data) const {
    if (pwrite(file_, data.data(), data.size(), 0) != static_cast<ssize_t>(data.size()) ||
        ftruncate(file_, static_cast<off_t>(data.size())) != 0) {
      std::fprintf(stderr, "cannot write to %s\n", path_.c_str());
      std::exit(2);
    }
  }

 private:
  std::string path_;
  int file_;
};

class generator {
 public:
  explicit generator(std::uint64_t seed) : random_{seed} {}

  [[nodiscard]] input next() {
    input result = kept_.empty() || random_below(4) == 0
                       ? random_input()
                       : mutated(kept_[random_below(kept_.size())]);
    if (result.size() > max_input) result.resize(max_input);
    keep(result);
    return result;
  }

 private:
  [[nodiscard]] std::size_t random_below(std::size_t count) {
    return static_cast<std::size_t>(random_() % count);
  }
  [[nodiscard]] std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  /// Half of the inputs are short. Some have few different bytes, so that the same calls repeat.
  [[nodiscard]] input random_input() {
    input result(1 + random_below(random_below(2) == 0 ? 128 : max_input));
    std::size_t const variety = random_below(3) == 0 ? 2 + random_below(14) : 256;
    input alphabet(variety);
    for (auto& value : alphabet) value = byte();
    for (auto& value : result) value = variety == 256 ? byte() : alphabet[random_below(variety)];
    return result;
  }

  [[nodiscard]] input mutated(input data) {
    for (std::size_t remaining = 1 + random_below(8); remaining != 0; --remaining) {
      std::size_t const start = random_below(data.size());
      std::size_t const count = std::min(data.size() - start, 1 + random_below(64));
      auto const base = data.begin() + static_cast<std::ptrdiff_t>(start);
      auto const end = base + static_cast<std::ptrdiff_t>(count);
      switch (random_below(7)) {
        case 0:
          data[start] = byte();
          break;
        case 1:
          data[start] = static_cast<std::uint8_t>(data[start] ^ 1u << random_below(8));
          break;
        case 2:
          std::generate(base, end, [&] { return byte(); });
          break;
        case 3:
          data.erase(base, end);
          break;
        case 4: {  // repeats the range
          input const copy(base, end);
          data.insert(end, copy.begin(), copy.end());
          break;
        }
        case 5: {  // appends the end of another input
          input const& other = kept_[random_below(kept_.size())];
          data.resize(start);
          data.insert(data.end(),
                      other.begin() + static_cast<std::ptrdiff_t>(std::min(start, other.size())),
                      other.end());
          break;
        }
        default:
          data.insert(base, count, byte());
          break;
      }
      if (data.empty()) data.push_back(byte());
    }
    return data;
  }

  /// There is no coverage information, so the generator keeps long inputs and inputs with many
  /// different bytes.
  void keep(input const& candidate) {
    std::size_t const variety = std::set<std::uint8_t>(candidate.begin(), candidate.end()).size();
    if (candidate.size() < 64 && variety < 16) return;
    if (kept_.size() < max_kept) {
      kept_.push_back(candidate);
    } else if (random_below(4) == 0) {
      kept_[random_below(max_kept)] = candidate;
    }
  }

  std::mt19937_64 random_;
  std::vector<input> kept_;
};

void run(crash_file const& file, input const& data) {
  file.put(data);
  // A copy of exactly that size, so that a sanitizer detects reads behind its end.
  input const exact(data);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

[[noreturn]] void say_usage(char const* program) {
  std::fprintf(stderr, "usage: %s [--seconds N] [--seed S] [--crash-file PATH] [FILE...]\n",
               program);
  std::exit(2);
}

std::uint64_t number(char const* program, char const* text) {
  char* end = nullptr;
  std::uint64_t const result = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') say_usage(program);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  std::uint64_t seconds = 10;
  std::uint64_t seed = 1;
  std::string crash_path =
      (std::filesystem::temp_directory_path() / ("quarry-fuzz-input-" + std::to_string(getpid())))
          .string();
  std::vector<std::string> files;
  for (int i = 1; i < count; ++i) {
    std::string const argument = arguments[i];
    bool const is_option = argument.starts_with("--");
    if (is_option && i + 1 == count) say_usage(arguments[0]);
    if (argument == "--seconds") {
      seconds = number(arguments[0], arguments[++i]);
    } else if (argument == "--seed") {
      seed = number(arguments[0], arguments[++i]);
    } else if (argument == "--crash-file") {
      crash_path = arguments[++i];
    } else if (is_option) {
      say_usage(arguments[0]);
    } else {
      files.push_back(argument);
    }
  }

  std::vector<input> file_inputs;  // read before the crash file is made: it may be one of them
  for (auto const& path : files) {
    std::ifstream stream{path, std::ios::binary};
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 2;
    }
    file_inputs.emplace_back(std::istreambuf_iterator<char>{stream},
                             std::istreambuf_iterator<char>{});
  }
  crash_file const file{crash_path};
  auto const start = std::chrono::steady_clock::now();
  auto const passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t inputs = 0;
  for (auto const& data : file_inputs) {
    run(file, data);
    ++inputs;
  }
  if (files.empty()) {
    generator source{seed};
    for (; passed() < static_cast<double>(seconds); ++inputs) run(file, source.next());
  }
  std::printf("%llu inputs, %.1f seconds, seed %llu\n", static_cast<unsigned long long>(inputs),
              passed(), static_cast<unsigned long long>(seed));
}

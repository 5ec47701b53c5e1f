// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target where there is no libFuzzer: files that are given, or random inputs and
// mutations of them until time is up.
//
//   PROGRAM [--seconds N] [--seed S] [--crash-file PATH] [FILE...]
//
// Each input lies in the crash file before it runs, so that it is there whatever the input does to
// the program. The same seed gives the same inputs, but for how many of them there are.
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
/// A sanitizer that ends the program calls what it is given here, and sends no signal. Null where
/// none is linked.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(
    void (*)());  // NOLINT(bugprone-reserved-identifier)

namespace {

using input = std::vector<std::uint8_t>;

constexpr std::size_t longest = 4096;
constexpr std::size_t max_kept = 64;
constexpr int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

char message[4200];  // ready beforehand: a signal handler cannot make one
std::size_t message_size = 0;
struct sigaction before[std::size(fatal)];

void say_where() {
  [[maybe_unused]] auto const written = write(STDERR_FILENO, message, message_size);
  message_size = 0;  // once is enough, of a sanitizer and the signal that it ends with
}

/// Says where the input is, and leaves the rest to who would have had the signal: it comes again.
void on_signal(int number) {
  say_where();
  for (std::size_t i = 0; i < std::size(fatal); ++i) {
    if (fatal[i] == number) sigaction(number, &before[i], nullptr);
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
    for (std::size_t i = 0; i < std::size(fatal); ++i) sigaction(fatal[i], &action, &before[i]);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_where);
  }
  crash_file(crash_file const&) = delete;
  crash_file& operator=(crash_file const&) = delete;
  /// Nothing failed.
  ~crash_file() {
    close(file_);
    unlink(path_.c_str());
  }

  void put(input const& what) const {
    if (pwrite(file_, what.data(), what.size(), 0) != static_cast<ssize_t>(what.size()) ||
        ftruncate(file_, static_cast<off_t>(what.size())) != 0) {
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
    input fresh =
        kept_.empty() || below(4) == 0 ? random_input() : mutated(kept_[below(kept_.size())]);
    if (fresh.size() > longest) fresh.resize(longest);
    keep(fresh);
    return fresh;
  }

 private:
  [[nodiscard]] std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(random_() % count);
  }
  [[nodiscard]] std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  /// Half of them short; some of few different bytes, so that the same thing is done again and
  /// again.
  [[nodiscard]] input random_input() {
    input fresh(1 + below(below(2) == 0 ? 128 : longest));
    std::size_t const variety = below(3) == 0 ? 2 + below(14) : 256;
    input alphabet(variety);
    for (auto& one : alphabet) one = byte();
    for (auto& one : fresh) one = variety == 256 ? byte() : alphabet[below(variety)];
    return fresh;
  }

  [[nodiscard]] input mutated(input what) {
    for (std::size_t left = 1 + below(8); left != 0; --left) {
      std::size_t const from = below(what.size());
      std::size_t const count = std::min(what.size() - from, 1 + below(64));
      auto const base = what.begin() + static_cast<std::ptrdiff_t>(from);
      auto const end = base + static_cast<std::ptrdiff_t>(count);
      switch (below(7)) {
        case 0:
          what[from] = byte();
          break;
        case 1:
          what[from] = static_cast<std::uint8_t>(what[from] ^ 1u << below(8));
          break;
        case 2:
          std::generate(base, end, [&] { return byte(); });
          break;
        case 3:
          what.erase(base, end);
          break;
        case 4: {  // the same once more
          input const again(base, end);
          what.insert(end, again.begin(), again.end());
          break;
        }
        case 5: {  // the end of another
          input const& other = kept_[below(kept_.size())];
          what.resize(from);
          what.insert(what.end(),
                      other.begin() + static_cast<std::ptrdiff_t>(std::min(from, other.size())),
                      other.end());
          break;
        }
        default:
          what.insert(base, count, byte());
          break;
      }
      if (what.empty()) what.push_back(byte());
    }
    return what;
  }

  /// Nothing says what an input reached, so the long ones are kept, and the diverse ones.
  void keep(input const& one) {
    std::size_t const variety = std::set<std::uint8_t>(one.begin(), one.end()).size();
    if (one.size() < 64 && variety < 16) return;
    if (kept_.size() < max_kept) {
      kept_.push_back(one);
    } else if (below(4) == 0) {
      kept_[below(max_kept)] = one;
    }
  }

  std::mt19937_64 random_;
  std::vector<input> kept_;
};

void run(crash_file const& file, input const& what) {
  file.put(what);
  // A copy of just that size, so that a sanitizer sees who reads behind its end.
  input const exact(what);
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

  std::vector<input> given;  // read before the crash file is made, which may be one of them
  for (auto const& path : files) {
    std::ifstream in{path, std::ios::binary};
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", path.c_str());
      return 2;
    }
    given.emplace_back(std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{});
  }
  crash_file const file{crash_path};
  auto const start = std::chrono::steady_clock::now();
  auto const passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t inputs = 0;
  for (auto const& one : given) {
    run(file, one);
    ++inputs;
  }
  if (files.empty()) {
    generator from{seed};
    for (; passed() < static_cast<double>(seconds); ++inputs) run(file, from.next());
  }
  std::printf("%llu inputs, %.1f seconds, seed %llu\n", static_cast<unsigned long long>(inputs),
              passed(), static_cast<unsigned long long>(seed));
}

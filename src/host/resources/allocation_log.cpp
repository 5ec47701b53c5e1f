// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/allocation_log.hpp"

#include "quarry/core/errors.hpp"

#include <ctime>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <ostream>
#include <utility>

#include <unistd.h>

namespace quarry::inline QUARRY_ABI {
namespace {

constexpr char columns[] = "Thread,Time,Action,Pointer,Size,Stream\n";

char const* name_of(allocation_log::action event) {
  constexpr char const* names[] = {"allocate", "allocate failure", "free"};
  return names[static_cast<std::size_t>(event)];
}

/// A stream's handle as RMM writes it. RMM writes handles with a C++ stream, which prints 0 for a
/// null pointer. It writes addresses with C's printf, which prints (nil).
std::array<char, 24> text_of_stream(void const* stream) {
  std::array<char, 24> result{"0"};
  if (stream != nullptr) std::snprintf(result.data(), result.size(), "%p", stream);
  return result;
}

std::unique_ptr<std::ofstream> opened(std::string const& path) {
  auto file = std::make_unique<std::ofstream>(path);
  if (!*file) throw resource_failed{"allocation_log: opening " + path, std::strerror(errno)};
  return file;
}

}  // namespace

allocation_log::allocation_log(std::ostream& output) : output_{output} {
  write_line(columns, sizeof columns - 1);
}

allocation_log::allocation_log(std::string const& path)
    : file_{opened(path).release()}, output_{*file_} {
  write_line(columns, sizeof columns - 1);
}

allocation_log::~allocation_log() { delete file_; }

void allocation_log::write(action event, void const* pointer, bytes size,
                           void const* stream) noexcept {
  thread_local long const thread = gettid();
  std::lock_guard const lock{mutex_};  // so that the lines are in the order of their times
  std::timespec time{};
  std::timespec_get(&time, TIME_UTC);
  std::tm local{};
  localtime_r(&time.tv_sec, &local);
  std::array<char, 160> line{};
  int const length =
      std::snprintf(line.data(), line.size(), "%ld,%02d:%02d:%02d.%06ld,%s,%p,%llu,%s\n", thread,
                    local.tm_hour, local.tm_min, local.tm_sec, time.tv_nsec / 1000, name_of(event),
                    pointer, static_cast<unsigned long long>(size), text_of_stream(stream).data());
  write_line(line.data(), static_cast<std::size_t>(length));
}

void allocation_log::write_line(char const* line, std::size_t length) noexcept {
  bool const was_good = output_.good();
  try {
    if (output_.write(line, static_cast<std::streamsize>(length))) {
      ++unflushed_;
      return;
    }
  } catch (...) {  // a stream may be set to throw
  }
  ++lost_;
  if (was_good) lost_ += std::exchange(unflushed_, 0);  // the buffered lines are lost, too
}

void allocation_log::flush() noexcept {
  std::lock_guard const lock{mutex_};
  bool is_flushed = false;
  try {
    is_flushed = static_cast<bool>(output_.flush());
  } catch (...) {  // a stream may be set to throw
  }
  std::uint64_t const lines = std::exchange(unflushed_, 0);
  if (!is_flushed) lost_ += lines;
}

std::uint64_t allocation_log::lost() const {
  std::lock_guard const lock{mutex_};
  return lost_;
}

}  // namespace quarry::inline QUARRY_ABI

// SPDX-License-Identifier: Apache-2.0
// The host's side of host calls. Not a part of the runtime for the GPU.
#include "host_calls.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <ctime>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Calls again while a signal interrupts the call.
template <class Call>
std::int64_t repeat(Call const& call) {
  for (;;) {
    auto const result = static_cast<std::int64_t>(call());
    if (result >= 0 || errno != EINTR) return result;
  }
}

std::int64_t make_call(host_request const& request) {
  switch (request.function) {
    case host_function::open:
      return repeat([&] { return open(request.text, request.handle | O_CLOEXEC, 0666); });
    case host_function::close:
      return close(request.handle);
    case host_function::read:
      return repeat([&] { return read(request.handle, request.text, request.length); });
    case host_function::write:
      return write_all(request.handle, request.text, request.length) ? request.length : -1;
    case host_function::seek:
      return lseek(request.handle, request.offset, request.origin);
    case host_function::remove:
      return std::remove(request.text);
    case host_function::rename:
      return std::rename(request.text, request.text + std::strlen(request.text) + 1);
    case host_function::make_folder:
      return mkdir(request.text, static_cast<mode_t>(request.handle));
    case host_function::access:
      return access(request.text, request.handle);
    case host_function::time_offset: {
      std::time_t const time = request.offset;
      std::tm local{};
      return localtime_r(&time, &local) != nullptr ? local.tm_gmtoff : 0;
    }
  }
  errno = ENOSYS;
  return -1;
}

}  // namespace

bool write_all(int file, char const* data, bytes size) {
  while (size != 0) {
    std::int64_t const written = repeat([&] { return write(file, data, size); });
    if (written >= 0) {
      data += written;
      size -= static_cast<bytes>(written);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd output{.fd = file, .events = POLLOUT, .revents = 0};
    if (poll(&output, 1, -1) < 0 && errno != EINTR) return false;
  }
  return true;
}

bool is_ready(host_request const& request) {
  if (request.function != host_function::read || request.handle != 0) return true;
  pollfd input{.fd = 0, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) != 0;
}

host_answer perform(host_request const& request) {
  int const before = errno;
  errno = 0;
  std::int64_t const result = make_call(request);
  bool const fails = result == -1 && request.function != host_function::time_offset;
  host_answer const answer{result, fails ? errno : 0};
  errno = before;
  return answer;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/abi.hpp"

#include "signal_watch.hpp"

#include "quarry/core/errors.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The signals that the process does not ignore. A shell lets its background jobs ignore SIGINT.
sigset_t watched_signals() {
  sigset_t watched;
  sigemptyset(&watched);
  for (int const signal : {SIGINT, SIGTERM}) {
    struct sigaction current{};
    if (sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN)
      sigaddset(&watched, signal);
  }
  return watched;
}

int opened(int file, char const* call) {
  if (file < 0) throw resource_failed{call, std::strerror(errno)};
  return file;
}

}  // namespace

void block_signals() {
  sigset_t const watched = watched_signals();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
}

signal_watch::signal_watch(std::function<void(int)> on_signal, std::function<void()> on_tick)
    : on_signal_{std::move(on_signal)},
      on_tick_{std::move(on_tick)},
      signals_{[] {
        sigset_t const watched = watched_signals();
        return opened(signalfd(-1, &watched, SFD_CLOEXEC), "signalfd");
      }()},
      stop_{opened(eventfd(0, EFD_CLOEXEC), "eventfd")},
      thread_{[this] { run(); }} {}

signal_watch::~signal_watch() {
  std::uint64_t const one = 1;
  [[maybe_unused]] ssize_t const written = write(stop_, &one, sizeof(one));
  thread_.join();
  close(signals_);
  close(stop_);
}

void signal_watch::run() {
  constexpr int tick_milliseconds = 100;
  constexpr auto time_for_copies = std::chrono::milliseconds{100};
  using clock = std::chrono::steady_clock;
  std::optional<clock::time_point> first_signal;
  for (;;) {
    pollfd files[] = {{stop_, POLLIN, 0}, {signals_, POLLIN, 0}};
    if (poll(files, 2, tick_milliseconds) < 0 && errno != EINTR) return;
    if (files[0].revents != 0) return;
    if (signalfd_siginfo details;
        files[1].revents != 0 && read(signals_, &details, sizeof(details)) == sizeof(details)) {
      auto const signal = static_cast<int>(details.ssi_signo);
      if (!first_signal) {
        first_signal = clock::now();
        on_signal_(signal);
      } else if (clock::now() - *first_signal > time_for_copies) {
        _exit(status_of_signal(signal));
      }
    }
    on_tick_();
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

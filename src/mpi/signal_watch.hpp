// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <thread>

namespace quarry::inline QUARRY_ABI::mpi {

/// The exit status that a shell gives a program which the signal has ended.
[[nodiscard]] constexpr int status_of_signal(int signal) { return 128 + signal; }

/// How long ranks may take to end after an abort or a signal: they notice it at their next wait.
inline constexpr double grace_seconds = 2;

/// Blocks SIGINT and SIGTERM for this thread and for those that it starts later, unless the process
/// ignores them. Call it before any thread starts.
void block_signals();

/// Waits for the signals that `block_signals` blocks, on a thread of its own, so that what it calls
/// need not be safe in signal handlers. The second signal ends the process at once, except
/// one within 100 ms: timeout(1) sends its signal to the process and to its group.
class signal_watch {
 public:
  /// At the first signal, calls `on_signal(signal)`. Calls `on_tick()` ten times a second. Both run
  /// on the watch's thread.
  signal_watch(std::function<void(int)> on_signal, std::function<void()> on_tick);
  signal_watch(signal_watch const&) = delete;
  ~signal_watch();

 private:
  void run();

  std::function<void(int)> on_signal_;
  std::function<void()> on_tick_;
  int signals_;  // a signalfd
  int stop_;     // an eventfd: the destructor wakes the thread
  std::thread thread_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi

// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/fence_all_threads.hpp"

#if __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif

namespace quarry::inline QUARRY_ABI::detail {

bool fence_all_threads() noexcept {
#if __has_include(<linux/membarrier.h>)
  int const errno_before = errno;
  auto const call = [](int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; };
  // A process registers once, which takes longer than the barrier. The barrier fails before that.
  bool const is_done =
      call(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
      (call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
  errno = errno_before;
  return is_done;
#else
  return false;
#endif
}

}  // namespace quarry::inline QUARRY_ABI::detail

# SPDX-License-Identifier: Apache-2.0
"""Work at the end of a process. Uses the standard library only."""

import atexit
import os
import sys
from collections.abc import Callable


def at_process_end(work: Callable[[], object]) -> None:
    """Calls `work` once when this process exits normally, also if `multiprocessing` forked it."""
    process = os.getpid()

    def work_once() -> None:
        nonlocal process
        if process == os.getpid():
            process = 0
            work()

    atexit.register(work_once)
    # A child that `multiprocessing` forks does not call the functions of atexit.
    if "multiprocessing" in sys.modules:
        from multiprocessing import util

        util.Finalize(None, work_once, exitpriority=-100)

# SPDX-License-Identifier: Apache-2.0
"""The exceptions of Quarry. `except quarry.Error` catches each of them.

Each class also derives from a built-in exception, so code that does not know Quarry can catch it.
"""


class Error(Exception):
    """The base of Quarry's exceptions."""


class OutOfMemory(Error, MemoryError):
    """`resource` has no memory for `requested` bytes."""

    def __init__(self, message: str, resource: str = "", requested: int = 0) -> None:
        super().__init__(message)
        self.resource = resource
        self.requested = requested


class BadArgument(Error, ValueError):
    """An argument is outside the range that the function accepts."""


class WasDestroyed(BadArgument):
    """The allocator or pool that a handle refers to was destroyed."""


class BadRange(Error, IndexError):
    """An offset or a count exceeds the memory or the list that it refers to."""


class BadState(Error, RuntimeError):
    """The program's earlier calls do not allow this call."""


class ResourceFailed(Error, OSError):
    """The operating system or the driver failed. The message has the call and the reason."""


class BadPlan(Error, ValueError):
    """A file is not a plan, or is damaged. The message names the file, the line and the reason."""


class BadTrace(Error, ValueError):
    """A file is not a trace, or is damaged. The message names file, line or offset, and reason."""

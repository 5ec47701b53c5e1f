# SPDX-License-Identifier: Apache-2.0
"""The registry: finds the allocation that contains any address, for all pools of the process."""

from quarry import _core
from quarry._core import Allocation, Allocator

__all__ = ["Allocation", "Allocator", "allocations", "allocators", "find", "label_of", "report"]


def find(address: int) -> Allocation | None:
    """The record of the allocation that contains `address`, or None."""
    return _core.registry_find(address)


def label_of(address: int) -> str | None:
    """The name of the allocation that contains `address`, or None."""
    return _core.registry_label_of(address)


def allocators() -> list[Allocator]:
    """All pools and tracked resources of the process, in the order of their numbers."""
    return _core.registry_allocators()


def allocations(allocator: int = 0) -> list[Allocation]:
    """The records of an allocator's allocations. 0 means all allocators."""
    return _core.registry_allocations(allocator)


def report(allocator: int = 0) -> str:
    """A line for each allocation and each allocator. At the end of a program these are leaks."""
    return _core.registry_report(allocator)

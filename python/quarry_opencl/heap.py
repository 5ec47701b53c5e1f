# SPDX-License-Identifier: Apache-2.0
"""Heaps and programs."""

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pyopencl as cl

from quarry_opencl.library import BadArgument, call, library, text_of

_STATES = ("unknown", "intact", "overrun", "reserved")


class _Options(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("size", "bytes", "max_bytes", "hints", "debug")]


class _Faults(ctypes.Structure):
    _fields_ = [
        *((name, c_uint64) for name in ("out_of_memory", "double_free", "interior_reference", "foreign_reference", "overrun")),
        ("first", ctypes.c_char * 128),
    ]


class _Usage(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("usable", "reserved", "allocated", "allocations_in_use")]


class _LiveAllocation(ctypes.Structure):
    _fields_ = [
        ("reference", c_uint32),
        ("state", c_uint32),
        ("slot_size", c_uint64),
        ("requested_size", c_uint64),
        ("number", c_uint32),
        ("work_item", c_uint32),
    ]


@dataclasses.dataclass(frozen=True)
class Faults:
    """How many faults of each kind kernels and the host made, and a sentence about the first one, which may be empty."""

    out_of_memory: int
    double_free: int
    interior_reference: int
    foreign_reference: int
    overrun: int
    first: str


@dataclasses.dataclass(frozen=True)
class Usage:
    """How full a heap is: bytes, and in the last field the number of allocations."""

    usable: int
    reserved: int
    allocated: int
    allocations_in_use: int


@dataclasses.dataclass(frozen=True)
class LiveAllocation:
    """An allocation that is not freed. `state` is "unknown" except in debug heaps. There it is "intact", "overrun" or
    "reserved" (a reserve claimed the slot, and neither handed it out nor returned it). Sizes are in bytes."""

    reference: int
    state: str
    slot_size: int
    requested_size: int
    number: int
    work_item: int


def sources() -> str:
    """The OpenCL C of the heap and its containers, which `build` puts before a program's own source."""
    text: bytes = library().quarry_opencl_sources()
    return text.decode()


def build_options(device: cl.Device) -> str:
    """The build options that `sources()` need on a device."""
    return text_of("quarry_opencl_build_options", c_void_p(device.int_ptr))


def build(context: cl.Context, device: cl.Device, source: str, options: str = "") -> cl.Program:
    """Builds `source` with the heap's functions before it. Raises OpenclFailed with the build log, and BadArgument for an
    option -cl-std that is too old."""
    program = c_void_p()
    call(
        "quarry_opencl_build",
        c_void_p(context.int_ptr),
        c_void_p(device.int_ptr),
        c_char_p(source.encode()),
        c_char_p(options.encode()),
        byref(program),
    )
    assert program.value is not None
    built: cl.Program = cl.Program.from_int_ptr(program.value, retain=False)
    return built


class Heap:
    """A heap of `size` bytes in a buffer of the queue's device, metadata included. It can grow up to `max_bytes` bytes; 0
    means not at all. `hints` is the number of hints of each size class, a power of two; 0 selects it by the device. In a debug
    heap a free reports writes past an allocation's end, and each allocation takes 16 bytes more.

    Kernels, and functions of this class, must not run at the same time. Each function waits for the queue first. Raises
    BadArgument for sizes that the device or the heap does not support, and OpenclFailed."""

    def __init__(
        self, queue: cl.CommandQueue, size: int = 64 << 20, *, max_bytes: int = 0, hints: int = 0, debug: bool = False
    ) -> None:
        self._handle = c_void_p()
        self.queue = queue
        self.context: cl.Context = queue.context
        self.device: cl.Device = queue.device
        self.is_debug = debug
        for name, value in (("size", size), ("max_bytes", max_bytes), ("hints", hints)):
            if not 0 <= value < 1 << 64:
                raise BadArgument(f"Heap: {name} is {value}; it must be from 0 to 2**64 - 1")
        options = _Options(ctypes.sizeof(_Options), size, max_bytes, hints, debug)
        call(
            "quarry_opencl_heap_create",
            c_void_p(self.context.int_ptr),
            c_void_p(self.device.int_ptr),
            c_void_p(queue.int_ptr),
            byref(options),
            byref(self._handle),
        )

    def call(self, name: str, *arguments: Any) -> None:
        """Calls the function quarry_opencl_NAME of the library with this heap."""
        call("quarry_opencl_" + name, self._handle, *arguments)

    @property
    def buffer(self) -> cl.Buffer:
        """The kernels' argument of type `quarry_heap`. Another one after `grow`."""
        memory = c_void_p()
        self.call("heap_buffer", byref(memory))
        assert memory.value is not None
        retained: Any = cl.Buffer.from_int_ptr(memory.value)
        buffer: cl.Buffer = retained
        return buffer

    @property
    def size(self) -> int:
        """The bytes of the buffer."""
        size = c_uint64()
        self.call("heap_size", byref(size))
        return size.value

    def build(self, source: str, options: str = "") -> cl.Program:
        """The same as `build`, with QUARRY_DEBUG defined if this is a debug heap."""
        return build(self.context, self.device, source, ("-DQUARRY_DEBUG=1 " if self.is_debug else "") + options)

    def grow(self, size: int) -> None:
        """Moves the heap into a buffer of `size` bytes. References stay valid. Pass the new `buffer` to kernels."""
        self.call("heap_grow", c_uint64(size))

    def reset(self) -> None:
        """Makes all memory free. References and containers from before must not be used."""
        self.call("heap_reset")

    def faults(self) -> Faults:
        """The faults of kernels and of the host since the heap was made, or since the last `clear_faults`."""
        faults = _Faults()
        self.call("heap_get_faults", byref(faults))
        values = {field.name: getattr(faults, field.name) for field in dataclasses.fields(Faults)}
        return Faults(**values | {"first": faults.first.decode()})

    def clear_faults(self) -> None:
        """Sets all counts of faults to 0."""
        self.call("heap_clear_faults")

    def usage(self) -> Usage:
        """How full the heap is. Reads all metadata."""
        usage = _Usage()
        self.call("heap_get_usage", byref(usage))
        return Usage(*(getattr(usage, field.name) for field in dataclasses.fields(Usage)))

    def live_allocations(self, max_count: int = 1000) -> list[LiveAllocation]:
        """The allocations that are not freed, in the order of their references, but at most `max_count`."""
        live = (_LiveAllocation * max_count)()
        count = c_uint64()
        self.call("heap_get_live_allocations", live, c_uint64(max_count), byref(count))
        return [
            LiveAllocation(
                each.reference, _STATES[each.state], each.slot_size, each.requested_size, each.number, each.work_item
            )
            for each in live[: count.value]
        ]

    def audit(self) -> None:
        """Checks the heap's invariants. Raises Error if a kernel overwrote the metadata."""
        self.call("heap_audit")

    @contextlib.contextmanager
    def mapped(self) -> Iterator["MappedHeap"]:
        """Maps the heap into the host's memory. Until the end of the `with` block kernels must not run, and other functions
        of the heap raise BadArgument."""
        base = c_void_p()
        self.call("heap_map", byref(base))
        view = MappedHeap(self)
        try:
            yield view
        finally:
            view.heap = None
            self.call("heap_unmap")

    def close(self) -> None:
        """Destroys the heap, and unmaps it. OpenCL frees the buffer when kernels that use it are complete."""
        handle, self._handle = self._handle, c_void_p()
        call("quarry_opencl_heap_destroy", handle)

    def __enter__(self) -> "Heap":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class MappedHeap:
    """A heap in the host's memory. `Heap.mapped` makes it."""

    def __init__(self, heap: Heap) -> None:
        self.heap: Heap | None = heap

    def call(self, name: str, *arguments: Any) -> None:
        """Calls the function quarry_opencl_NAME of the library with the heap."""
        if self.heap is None:
            raise BadArgument(f"quarry_opencl_{name}: the heap is not mapped any more")
        self.heap.call(name, *arguments)

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes, and returns the reference. Raises OutOfMemory."""
        reference = c_uint32()
        self.call("heap_allocate", c_uint64(size), byref(reference))
        return reference.value

    def free(self, reference: int) -> None:
        """Frees an allocation of a kernel or of the host; 0 is ignored. Raises BadArgument if no allocation begins there."""
        self.call("heap_deallocate", c_uint32(reference))

    def usable_size(self, reference: int) -> int:
        """How many bytes an allocation can hold."""
        size = c_uint64()
        self.call("heap_usable_size", c_uint32(reference), byref(size))
        return size.value

    def view(self, reference: int, dtype: Any, count: int = 1) -> "np.ndarray[Any, Any]":
        """An array of `count` elements over the memory of an allocation, without a copy. Raises BadArgument if no allocation
        begins there, or if it is too small. Do not use the array after the `with` block: its memory is gone then."""
        wanted = np.dtype(dtype)
        size = wanted.itemsize * count
        has = self.usable_size(reference)
        if count < 0 or size > has:
            raise BadArgument(f"MappedHeap.view: {count} elements take {size} bytes; reference {reference} has {has} bytes")
        memory = c_void_p()
        self.call("heap_at", c_uint32(reference), byref(memory))
        assert memory.value is not None
        return np.frombuffer((ctypes.c_char * size).from_address(memory.value), wanted, count)

# SPDX-License-Identifier: Apache-2.0
"""Containers that kernels and the host share. Each one keeps its struct in a buffer, which is the kernels' argument."""

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref, c_uint32, c_uint64
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from quarry_opencl.heap import Heap, MappedHeap
from quarry_opencl.library import BadArgument, library

Words = npt.NDArray[np.uint32]


class _Container:
    """A struct in a buffer. `words` is the size of the struct."""

    words: int

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        #: The kernels' argument: a pointer to the container's struct.
        self.buffer = cl.Buffer(heap.context, cl.mem_flags.READ_WRITE, self.words * 4)
        self._write((c_uint32 * self.words)())

    def _write(self, struct: Any) -> None:
        cl.enqueue_copy(self.heap.queue, self.buffer, np.frombuffer(struct, np.uint32), is_blocking=True)

    def _read(self) -> Any:
        struct = np.empty(self.words, np.uint32)
        cl.enqueue_copy(self.heap.queue, struct, self.buffer, is_blocking=True)
        return (c_uint32 * self.words)(*struct.tolist())

    @contextlib.contextmanager
    def _open(self, *, changes: bool = False) -> Iterator[tuple[MappedHeap, Any]]:
        """The mapped heap and the struct, which is written to the buffer at the end if the block changes it."""
        struct = self._read()
        try:
            with self.heap.mapped() as mapped:
                yield mapped, struct
        finally:
            if changes:
                self._write(struct)


def _words_of(values: npt.ArrayLike) -> Words:
    """32-bit words of integers. Raises BadArgument for a value outside of the range."""
    given = np.asarray(values)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() > 0xFFFFFFFF):
        raise BadArgument("keys and values must be integers from 0 to 2**32 - 1")
    return np.ascontiguousarray(given, np.uint32).reshape(-1)


def _address(array: "np.ndarray[Any, Any]") -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class _Elements(_Container):
    """Elements of one type. The struct begins with their size in bytes and their number."""

    name: str

    def __init__(self, heap: Heap, dtype: npt.DTypeLike) -> None:
        #: The type of the elements.
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype.itemsize == 0 or self.dtype.hasobject:
            raise BadArgument(f"{type(self).__name__}: the type {self.dtype} has no fixed size in memory")
        super().__init__(heap)
        self._write((c_uint32 * self.words)(self.dtype.itemsize))

    def __len__(self) -> int:
        return int(self._read()[1])

    def read(self, first: int = 0, count: int | None = None) -> "np.ndarray[Any, Any]":
        """A copy of `count` elements from index `first` on; by default, of all that follow."""
        with self._open() as (mapped, struct):
            wanted = max(struct[1] - first, 0) if count is None else count
            if first < 0 or wanted < 0 or first + wanted > struct[1]:
                raise BadArgument(
                    f"{type(self).__name__}.read: elements {first} up to {first + wanted} exceed the size, which is {struct[1]}"
                )
            elements = np.empty(wanted, self.dtype)
            mapped.call(self.name + "_read", byref(struct), c_uint32(first), c_uint32(wanted), _address(elements))
        return elements

    def _elements(self, values: npt.ArrayLike) -> "np.ndarray[Any, Any]":
        added = np.ascontiguousarray(values, self.dtype).reshape(-1)
        if not 0 < added.size < 1 << 31:
            raise BadArgument(f"{type(self).__name__}.extend: {added.size} values; give from 1 to 2**31 - 1")
        return added

    def clear(self) -> None:
        """Frees all elements."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call(self.name + "_clear", byref(struct))


class Vector(_Elements):
    """A vector of elements of one type. Kernels: `__global quarry_vector*` (opencl/vector.cl)."""

    words = 30
    name = "vector"

    def extend(self, values: npt.ArrayLike) -> int:
        """Adds elements, and returns the index of the first. Raises OutOfMemory, and adds none, if there is no memory."""
        added = self._elements(values)
        first = c_uint32()
        with self._open(changes=True) as (mapped, struct):
            mapped.call("vector_push", byref(struct), c_uint32(added.size), byref(first))
            mapped.call("vector_write", byref(struct), first, c_uint32(added.size), _address(added))
        return first.value


class ArrayList(_Elements):
    """An array list of elements of one type. Kernels: `__global quarry_array_list*` (opencl/array_list.cl)."""

    words = 3
    name = "array_list"

    def extend(self, values: npt.ArrayLike) -> int:
        """Adds elements, and returns the index of the first. Raises OutOfMemory, and adds none, if there is no memory."""
        added = self._elements(values)
        first, memory = c_uint32(), ctypes.c_void_p()
        with self._open(changes=True) as (mapped, struct):
            mapped.call("array_list_grow", byref(struct), c_uint32(added.size), byref(first), byref(memory))
            assert memory.value is not None
            ctypes.memmove(memory.value, added.ctypes.data, added.nbytes)
        return first.value


class Queue(_Container):
    """A queue of 32-bit values. Kernels: `__global quarry_queue*` (opencl/queue.cl)."""

    words = 3

    def push(self, values: npt.ArrayLike) -> None:
        """Adds values in their order. If the heap has no memory, raises OutOfMemory; the first values stay in the queue."""
        added = _words_of(values)
        with self._open(changes=True) as (mapped, struct):
            for value in added:
                mapped.call("queue_push", byref(struct), c_uint32(int(value)))

    def pop(self, max_count: int) -> Words:
        """Removes the oldest values, at most `max_count`, and returns them in their order."""
        values = np.empty(max_count, np.uint32)
        count = c_uint64()
        with self._open(changes=True) as (mapped, struct):
            mapped.call("queue_pop", byref(struct), _address(values), c_uint64(max_count), byref(count))
        return values[: count.value]

    def clear(self) -> None:
        """Removes all values, and frees their memory."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call("queue_clear", byref(struct))


class _Keyed(_Container):
    """A map from 32-bit keys to 32-bit values. `size_at` is the word of the struct that has its size."""

    name: str
    size_at: int

    def __len__(self) -> int:
        return int(self._read()[self.size_at])

    def get(self, key: int) -> int | None:
        """The value of `key`, or None."""
        value = ctypes.POINTER(c_uint32)()
        with self._open() as (mapped, struct):
            mapped.call(self.name + "_find", byref(struct), c_uint32(int(_words_of(key)[0])), byref(value))
            return int(value[0]) if value else None

    def update(self, keys: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Sets the values of keys, in their order. If the heap has no memory, raises OutOfMemory; the first keys stay set."""
        given, wanted = _words_of(keys), _words_of(values)
        if given.size != wanted.size:
            raise BadArgument(f"{type(self).__name__}.update: {given.size} keys and {wanted.size} values")
        with self._open(changes=True) as (mapped, struct):
            for key, value in zip(given, wanted, strict=True):
                mapped.call(self.name + "_set", byref(struct), c_uint32(int(key)), c_uint32(int(value)))

    def _items(self, *first_key: c_uint32) -> tuple[Words, Words]:
        with self._open() as (mapped, struct):
            size = struct[self.size_at]
            keys, values, count = np.empty(size, np.uint32), np.empty(size, np.uint32), c_uint64()
            mapped.call(
                self.name + "_read", byref(struct), *first_key, _address(keys), _address(values), c_uint64(size), byref(count)
            )
        return keys[: count.value], values[: count.value]


class Map(_Keyed):
    """A hash map with a table of `buckets` buckets; twice the expected number of keys is a good number. Kernels:
    `__global quarry_map*` (opencl/map.cl). Raises OutOfMemory if the heap has no memory for the table."""

    words = 4
    name = "map"
    size_at = 2

    def __init__(self, heap: Heap, buckets: int) -> None:
        super().__init__(heap)
        if not 0 < buckets <= 1 << 31:
            raise BadArgument(f"{type(self).__name__}: {buckets} buckets are not between 1 and 2**31")
        with self._open(changes=True) as (mapped, struct):
            mapped.call("map_init", byref(struct), c_uint32(buckets))

    def erase(self, key: int) -> None:
        """Removes a key. Raises BadArgument if the map does not have it."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call("map_erase", byref(struct), c_uint32(int(_words_of(key)[0])))

    def items(self) -> tuple[Words, Words]:
        """All keys, in no order, and their values."""
        return self._items()

    def destroy(self) -> None:
        """Frees all entries and the table. No entry can be added afterwards."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call("map_destroy", byref(struct))


class OrderedMap(_Keyed):
    """A map whose keys are in order. Kernels: `__global quarry_ordered_map*` (opencl/ordered_map.cl)."""

    words = 13
    name = "ordered_map"
    size_at = 0

    def items(self, first_key: int = 0) -> tuple[Words, Words]:
        """The keys from `first_key` on, in ascending order, and their values."""
        return self._items(c_uint32(int(_words_of(first_key)[0])))

    def clear(self) -> None:
        """Frees all entries."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call("ordered_map_clear", byref(struct))


class _Csr(ctypes.Structure):
    _fields_ = [
        ("vertices", c_uint64),
        ("edges", c_uint64),
        ("ids", ctypes.POINTER(c_uint32)),
        ("offsets", ctypes.POINTER(c_uint64)),
        ("targets", ctypes.POINTER(c_uint32)),
    ]


class Graph(Map):
    """A directed graph: a map from ids to links. Kernels: `__global quarry_graph*` (opencl/graph.cl)."""

    def csr(self) -> tuple[Words, npt.NDArray[np.uint64], Words]:
        """The graph as compressed sparse rows: ids, offsets and targets. The edges of vertex v are
        `targets[offsets[v]:offsets[v + 1]]`, indices into `ids`. The ids ascend, and so do the targets of a vertex."""
        rows = _Csr()
        with self._open() as (mapped, struct):
            mapped.call("graph_get_csr", byref(struct), byref(rows))
        try:
            ids = np.ctypeslib.as_array(rows.ids, (rows.vertices,)).copy()
            offsets = np.ctypeslib.as_array(rows.offsets, (rows.vertices + 1,)).copy()
            targets = np.ctypeslib.as_array(rows.targets, (rows.edges,)).copy()
        finally:
            library().quarry_opencl_csr_free(byref(rows))
        return ids, offsets, targets

    def destroy(self) -> None:
        """Frees all vertices, edges and the table. No edge can be added afterwards."""
        with self._open(changes=True) as (mapped, struct):
            mapped.call("graph_destroy", byref(struct))

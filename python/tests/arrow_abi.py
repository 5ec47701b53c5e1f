# SPDX-License-Identifier: Apache-2.0
"""A small consumer of Arrow's C data interface, so that streams are tested without pyarrow."""

import ctypes

import numpy as np


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


def release_of(structure):
    return ctypes.CFUNCTYPE(None, ctypes.POINTER(structure))


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.POINTER(Schema)),
    ("release", release_of(Schema)),
    ("private_data", ctypes.c_void_p),
]
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.POINTER(Array)),
    ("release", release_of(Array)),
    ("private_data", ctypes.c_void_p),
]
Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))),
    ("release", release_of(Stream)),
    ("private_data", ctypes.c_void_p),
]
TYPES = {b"L": np.uint64, b"c": np.int8, b"i": np.int32}


def memory(address, count, kind):
    size = count * np.dtype(kind).itemsize
    return np.frombuffer(ctypes.string_at(address, size), kind) if size else np.zeros(0, kind)


def values_of(schema, array):
    """The values of a column: a NumPy array, or a list of texts."""
    if schema.format == b"u":
        begins = memory(array.buffers[1], array.length + 1, np.int32)
        text = ctypes.string_at(array.buffers[2], int(begins[-1]))
        return [text[a:b].decode() for a, b in zip(begins[:-1], begins[1:], strict=True)]
    numbers = memory(array.buffers[1], array.length, TYPES[schema.format])
    if not schema.dictionary:
        return numbers
    names = values_of(schema.dictionary[0], array.dictionary[0])
    return [names[number] for number in numbers]


def read_stream(source):
    """The batches of a stream: for each a dictionary of columns. Raises ValueError if it fails."""
    capsule = source.__arrow_c_stream__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    stream = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), ctypes.POINTER(Stream))
    schema, batches = Schema(), []
    assert stream[0].get_schema(stream, ctypes.byref(schema)) == 0
    assert schema.format == b"+s"
    while True:
        batch = Array()
        if stream[0].get_next(stream, ctypes.byref(batch)) != 0:
            schema.release(ctypes.byref(schema))
            raise ValueError(stream[0].get_last_error(stream).decode())
        if not batch.release:
            break
        columns = [schema.children[i][0] for i in range(schema.n_children)]
        batches.append(
            {
                column.name.decode(): values_of(column, batch.children[i][0])
                for i, column in enumerate(columns)
            }
        )
        batch.release(ctypes.byref(batch))
        assert not batch.release  # a released structure says so
    schema.release(ctypes.byref(schema))
    return batches

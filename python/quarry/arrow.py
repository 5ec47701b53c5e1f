# SPDX-License-Identifier: Apache-2.0
"""Arrow tables of traces: pyarrow makes them, and other libraries take a trace as it is."""

import importlib
from typing import Any

import numpy as np

from quarry.errors import BadArgument, ResourceFailed

#: The columns that hold numbers of names, and the argument of `Trace` that has the names.
NAMES = {
    "thread": "threads",
    "stream": "streams",
    "allocator": "allocators",
    "call_site": "call_sites",
}


def import_pyarrow(user: str) -> Any:
    """The package pyarrow. Raises ResourceFailed if it is not installed."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError as failed:
        raise ResourceFailed(f"{user}: pyarrow is not installed: pip install pyarrow") from failed


def is_arrow(data: object) -> bool:
    """Whether `data` offers itself as a stream of Arrow's record batches."""
    return hasattr(data, "__arrow_c_stream__")


def columns_of(data: Any, kinds: dict[str, int]) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The columns of a table as NumPy arrays, and the names of those that are texts.

    `kinds` has the number of each kind of event. Raises BadArgument if a value is missing or of the
    wrong type.
    """
    pyarrow = import_pyarrow("make_trace")
    table = pyarrow.table(data)
    columns: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    for name in table.column_names:
        column = table.column(name)
        if _has_texts(pyarrow, column.type):
            columns[name], texts = _numbered(pyarrow, column)
            if name == "kind":
                columns[name] = _kinds(texts, kinds)[columns[name]]
            elif name in NAMES:
                names[NAMES[name]] = texts
            else:
                raise BadArgument(f"make_trace: column {name!r} has texts instead of numbers")
        elif column.null_count:
            raise BadArgument(f"make_trace: column {name!r} has {column.null_count} missing values")
        else:
            columns[name] = column.to_numpy()
    return columns, names


def _has_texts(pyarrow: Any, kind: Any) -> bool:
    types = pyarrow.types
    value = kind.value_type if types.is_dictionary(kind) else kind
    return bool(
        types.is_string(value) or types.is_large_string(value) or types.is_string_view(value)
    )


def _numbered(pyarrow: Any, column: Any) -> tuple[np.ndarray, list[str]]:
    """The number of each row's text, and the texts. Text 0 is empty, and stands for a missing one.

    The numbers are those of the dictionary if all chunks have the same one, and it begins with the
    empty text: so a trace that was made a table becomes the same trace.
    """
    chunks = [
        chunk if pyarrow.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        for chunk in column.chunks
    ]
    texts, numbers = [""], [np.zeros(0, np.int64)]
    place = {"": 0}
    is_first = True
    previous = None
    for chunk in chunks:
        own = chunk.dictionary.to_pylist()
        if is_first and own[:1] == [""]:
            texts = [text or "" for text in own]
            place = {text: i for i, text in reversed(list(enumerate(texts)))}
            number_of = np.arange(len(own))
        elif previous is None or own != previous:
            for text in own:
                if text and text not in place:
                    place[text] = len(texts)
                    texts.append(text)
            number_of = np.array([place[text or ""] for text in own], np.int64)
        is_first, previous = False, own
        indices = chunk.indices.cast(pyarrow.int64())
        present = indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = number_of[present] if len(own) else np.zeros(len(chunk), np.int64)
        if chunk.indices.null_count:
            found[indices.is_null().to_numpy(zero_copy_only=False)] = 0
        numbers.append(found)
    return np.concatenate(numbers), texts


def _kinds(texts: list[str], kinds: dict[str, int]) -> np.ndarray:
    """The kind of each text."""
    unknown = sorted(set(texts) - set(kinds) - {""})
    if unknown:
        raise BadArgument(
            f"make_trace: there is no kind {unknown[0]!r}; there are {', '.join(kinds)}"
        )
    return np.array([kinds.get(text, 0) for text in texts])

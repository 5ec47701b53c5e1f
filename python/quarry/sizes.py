# SPDX-License-Identifier: Apache-2.0
"""Sizes in bytes as people write them: `512MiB`, `2GB`, `1.5 GiB`, `4096`."""

import re

from quarry.errors import BadArgument

_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*(?:([kmgt]?)(i?)b?)\s*", re.IGNORECASE)


def parse_size(text: int | str) -> int:
    """The bytes of a number or of a text: `2GB` is 2 * 10**9, `2GiB` and `2G` are 2 * 2**30.

    Raises BadArgument for a text of another form, and unless the size is from 0 to 2**64 - 1.
    """
    size = text if isinstance(text, int) else _parse(text)
    if not 0 <= size < 2**64:
        raise BadArgument(f"'{text}' is not a size: it is not from 0 to 2^64 - 1 bytes")
    return size


def _parse(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if not match or (match[3] and not match[2]):
        raise BadArgument(f"'{text}' is not a size. Examples: 4096, 512MiB, 1.5GiB, 2GB")
    number, prefix, binary = match[1], match[2].lower(), match[3]
    is_decimal = not binary and text.strip().lower().endswith("b")
    unit = (_DECIMAL if is_decimal else _BINARY)[prefix]
    if "." not in number:
        return int(number) * unit
    return round(float(number) * unit)


def format_size(size: float) -> str:
    """A size with three digits and a binary unit: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    if unit == "B":
        return f"{size:.0f} B"
    digits = 2 if abs(size) < 10 else 1 if abs(size) < 100 else 0
    text = f"{size:.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}"


def exact_size(size: int) -> str:
    """A size as text that `parse_size` reads as the same size: `1536MiB`."""
    for unit in ("", "KiB", "MiB", "GiB", "TiB"):
        if size == 0 or size % 1024 or unit == "TiB":
            break
        size //= 1024
    return f"{size}{unit}"

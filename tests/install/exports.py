#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a shared library of Quarry exports exactly the declarations of its public headers.

usage: exports.py LIBRARY OBJECTS HEADERS, where OBJECTS is the folder of its object files.
"""

import re
import subprocess
import sys
from pathlib import Path

ABI = re.compile(r"v\d+_\d+_layout_\d+")  # the inline namespace of all of Quarry
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def symbols(files, *columns):
    """The demangled defined symbols whose binding and visibility are in `columns`."""
    text = subprocess.run(
        ["readelf", "-W", *columns[0], *map(str, files)], capture_output=True, text=True, check=True
    ).stdout
    names = []
    for line in text.splitlines():
        field = line.split()
        if len(field) < 8 or not field[0].rstrip(":").isdigit() or field[6] == "UND":
            continue
        if field[4] in columns[1] and field[5] == columns[2]:
            names.append(field[7])
    out = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    ).stdout
    return sorted(set(out.splitlines()))


def path_of(symbol):
    """quarry::v0_1_layout_7::registry::name_of[abi:cxx11](unsigned int) -> quarry, registry, name_of"""
    path = re.sub(r"\[abi:\w+\]", "", symbol).split("(")[0].split("::")
    return [name for name in path if not ABI.fullmatch(name)]


def main(library, objects, headers):
    code = "\n".join(
        COMMENT.sub("", path.read_text(encoding="utf-8"))
        for path in sorted(Path(headers).rglob("*"))
        if path.suffix in (".h", ".hpp", ".cuh")
    )
    exported = symbols([library], ["--dyn-syms"], ("GLOBAL", "UNIQUE"), "DEFAULT")
    hidden = symbols(Path(objects).rglob("*.o"), ["--syms"], ("GLOBAL",), "HIDDEN")
    faults = []
    for symbol in exported:
        if symbol.startswith(("std::", "__")):  # from the C++ library's headers and from sanitizers
            continue
        if symbol.startswith("quarry_"):
            # headers declare the name itself, or a text to which they add a number
            stem = re.sub(r"\d+$", "", symbol)
            is_declared = re.search(rf'\b{symbol}\b|"{stem}" ', code)
        else:
            # headers declare the name itself, or its class
            is_declared = symbol.startswith("quarry::") and any(
                re.search(rf"QUARRY_API[^;{{]*?(?<!\w){re.escape(name)}(?!\w)", code)
                for name in path_of(symbol)[1:]
            )
            if not ABI.search(symbol):
                faults.append(f"{symbol}: is not in the inline namespace QUARRY_ABI")
        if not is_declared:
            faults.append(f"{symbol}: is exported, but no public header declares it")
    for symbol in hidden:
        *scope, name = path_of(symbol)
        scope = "::".join(scope)
        is_known = scope == "quarry" or re.search(rf"\bnamespace ({scope}|{scope[8:]})\b", code)
        if is_known and re.search(rf"(?<!\w){re.escape(name)}\(", code):
            faults.append(f"{symbol}: a public header declares it, but it is not exported")
    if not exported or not hidden:
        faults.append(f"{len(exported)} exported and {len(hidden)} hidden symbols: there is nothing to compare")
    sys.exit("\n".join(faults) or None)


main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No inline function has two meanings in programs of which a part is built with AddressSanitizer.

usage: poison_symbols.py COMPILER INCLUDE SOURCE

Compiles SOURCE to assembly twice, once as if with AddressSanitizer, but without its
instrumentation. Linkers keep one of the inline functions and variables that have the same name in
both, so these must be the same.
"""

import re
import subprocess
import sys

MERGED = re.compile(r"^\t\.weak\t(\S+)|^\t\.type\t(\S+),\s*[@%]gnu_unique_object", re.MULTILINE)
FUNCTION = re.compile(r"^(\w*6quarry\w*):[^\n]*\n(.*?)^\t\.size\t\1,", re.MULTILINE | re.DOTALL)
DATA = r"((?:\t\.(?:string|asci[iz]|zero|byte|value|short|long|quad)\t[^\n]*\n)+)"
VARIABLE = re.compile(rf"^(\w*6quarry\w*):[^\n]*\n{DATA}", re.MULTILINE)
LITERAL = re.compile(rf"^(\.L[\w.]+):[^\n]*\n{DATA}", re.MULTILINE)
LABEL = re.compile(r"\.L[\w.]+|GCC_except_table\d+")


def assembly(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def shared_names(text):
    """The symbols that linkers merge: weak and unique ones."""
    return {weak or unique for weak, unique in MERGED.findall(text)}


def bodies(text):
    """The lines of each function and variable of Quarry. A label becomes its literal or number."""
    literals = dict(LITERAL.findall(text))

    def comparable(body):
        labels = {}
        return LABEL.sub(
            lambda label: literals.get(label[0]) or labels.setdefault(label[0], f"L{len(labels)}"),
            body,
        )

    found = FUNCTION.findall(text) + VARIABLE.findall(text)
    return {name: comparable(body) for name, body in found}


def main(compiler, include, source):
    command = [compiler, "-std=c++20", "-O0", "-fno-asynchronous-unwind-tables", "-I", include]
    command += ["-fno-verbose-asm", "-S", source, "-o", "-"]
    plain, asan = (assembly(*command, *more) for more in ([], ["-D__SANITIZE_ADDRESS__=1"]))
    names = shared_names(plain) & shared_names(asan)
    ours = {name for name in names if "6quarry" in name}
    plain, asan = bodies(plain), bodies(asan)
    only_asan = [name for name in asan if "B4asan" in name]
    if len(ours) < 100 or len(only_asan) < 100:
        sys.exit(f"{len(ours)} functions of both, {len(only_asan)} of one: too few to compare")
    faults = [name for name in sorted(ours) if plain.get(name) != asan.get(name)]
    if faults:
        text = subprocess.run(
            ["c++filt"], input="\n".join(faults), capture_output=True, text=True, check=True
        ).stdout
        sys.exit("These are not the same with AddressSanitizer and without:\n" + text)


main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No inline function has two meanings in programs of which a part is built with AddressSanitizer.

usage: poison_symbols.py COMPILER INCLUDE SOURCE

Compiles SOURCE twice, once as if with AddressSanitizer, but without its instrumentation. Linkers keep one of the
inline functions and variables that have the same name in both, so these must be the same.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
LOCATION = re.compile(r"^\s*[0-9a-f]+:\s")
TARGET = re.compile(r"\b[0-9a-f]+ <")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def shared_names(path):
    """The symbols that linkers merge: weak and unique ones."""
    return {
        line.split()[-1]
        for line in output("nm", "--defined-only", str(path)).splitlines()
        if line.split()[-2] in "WVu"
    }


def functions(path):
    """The instructions of each function of Quarry and what they refer to, without addresses."""
    result, body = {}, None
    for line in output("objdump", "-dr", "--no-show-raw-insn", str(path)).splitlines():
        if found := FUNCTION.match(line):
            name = found.group(1)
            body = result.setdefault(name, []) if "6quarry" in name else None
        elif body is not None and LOCATION.match(line):
            body.append(TARGET.sub("<", LOCATION.sub("", line).strip()))
    return result


def variables(path):
    """The contents of the sections of Quarry's merged variables."""
    text = output("readelf", "-SW", str(path))
    names = re.findall(r"\s(\.(?:rodata|data|bss)\.\S*6quarry\S*)", text)
    return {
        name: output("objdump", "-s", "-j", name, str(path)).split("\n", 3)[-1] for name in names
    }


def main(compiler, include, source):
    with tempfile.TemporaryDirectory() as folder:
        objects = [Path(folder, name) for name in ("plain.o", "asan.o")]
        for path, more in zip(objects, ([], ["-D__SANITIZE_ADDRESS__=1"])):
            command = [compiler, "-std=c++20", "-O0", "-fno-asynchronous-unwind-tables", *more]
            subprocess.run([*command, "-I", include, "-c", source, "-o", str(path)], check=True)
        names = shared_names(objects[0]) & shared_names(objects[1])
        ours = {name for name in names if "6quarry" in name}
        plain, asan = (functions(path) for path in objects)
        faults = [name for name in sorted(ours) if plain.get(name) != asan.get(name)]
        constants = [variables(path) for path in objects]
        faults += [
            name
            for name in sorted(constants[0].keys() & constants[1].keys())
            if constants[0][name] != constants[1][name]
        ]
        only_asan = [name for name in asan if "6quarry" in name and "B4asan" in name]
        if len(ours) < 100 or len(only_asan) < 100:
            sys.exit(f"{len(ours)} functions of both, {len(only_asan)} of one: too few to compare")
        if faults:
            text = subprocess.run(
                ["c++filt"], input="\n".join(faults), capture_output=True, text=True, check=True
            ).stdout
            sys.exit("These are not the same with AddressSanitizer and without:\n" + text)


main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the functions of a PTX file that have inline assembly. All others become declarations of functions elsewhere.

Only the assembler knows whether inline assembly is correct, and it takes a minute for the whole runtime of MPI.
usage: inline_assembly.py PTX OUTPUT
"""

import re
import sys
from pathlib import Path

BEGIN = "// begin inline asm"
# A function without `.visible`, `.weak` or `.extern`, its name, and `;` or a body. nvcc writes a body's braces at the beginning of lines.
FUNCTION = re.compile(
    r"^(?:\.visible |\.weak |\.extern )?(\.func\b[^{;]*?([\w$]+)\s*\([^()]*\)[^{;()]*?)(;|^\{\n.*?^\}\n)", re.MULTILINE | re.DOTALL
)


def main(ptx, output):
    text = Path(ptx).read_text(encoding="utf-8")
    kept = {found[2] for found in FUNCTION.finditer(text) if BEGIN in found[3]}
    declared = set()

    def written(function):
        head, name, body = function.groups()
        if name in kept or name in declared:
            return function[0] if name in kept else ""
        declared.add(name)
        return f".extern {head.rstrip()};\n"

    result = FUNCTION.sub(written, text)
    if len(kept) < 20 or result.count(BEGIN) != text.count(BEGIN):
        sys.exit(f"{ptx}: {len(kept)} functions have {result.count(BEGIN)} of {text.count(BEGIN)} pieces of inline assembly: too few")
    Path(output).write_text(result, encoding="utf-8")


main(*sys.argv[1:])

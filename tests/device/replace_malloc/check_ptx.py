#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the kernels call the symbols of simt/renamed_malloc.cuh. Needs no GPU.

usage: check_ptx.py <unchanged_kernels.ptx>, compiled with -G so that no call is inlined
"""

import re
import sys
from pathlib import Path

CUDA_NAMES = {"malloc", "free", "__cuda_syscall_aligned_malloc"}
QUARRY_NAME = re.compile(r"quarry_kernel_(malloc|free)\w*$")
DEFINITION = re.compile(r"^(?:\.\w+ )*\.(entry|func)\s+(?:\(.*?\)\s*)?([\w$]+)\s*\(", re.MULTILINE)
CALL = re.compile(r"\bcall(?:\.uni)?\s+(?:\([^)]*\),\s*)?([\w$]+)\s*,")


def calls_of_functions(ptx):
    """Kind and name of each function that has a body, and the names that it calls."""
    starts = list(DEFINITION.finditer(ptx))
    for start, following in zip(starts, [*starts[1:], None]):
        text = ptx[start.end() : following.start() if following else None]
        if text.find("{") != -1 and (";" not in text[: text.find("{")]):
            yield start.group(1), start.group(2), set(CALL.findall(text))


def main(path):
    functions = list(calls_of_functions(Path(path).read_text(encoding="utf-8")))
    defined = {name for _, name, _ in functions}
    wrong = []
    for kind, name, calls in functions:
        for missed in sorted(calls & CUDA_NAMES):
            if "platform_malloc" not in name and name != "__nv_aligned_device_malloc":
                wrong.append(f"{kind} {name} calls CUDA's {missed}")
        for symbol in sorted(filter(QUARRY_NAME.match, calls)):
            if symbol not in defined:
                wrong.append(f"{kind} {name} calls {symbol}, which is not defined")
    kernel_calls = set().union(*(calls for kind, _, calls in functions if kind == "entry"))
    for expected in ("quarry_kernel_malloc", "quarry_kernel_malloc_aligned", "quarry_kernel_free"):
        if expected not in kernel_calls:
            wrong.append(f"no kernel calls {expected}")
    print("\n".join(wrong) or f"{len(functions)} functions; only platform_malloc calls CUDA's malloc")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

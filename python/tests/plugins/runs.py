# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of the plug-ins' tests, each in a process of its own."""

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from quarry import _core

PROGRAMS = Path(__file__).parent / "programs"
needs_gpu = pytest.mark.skipif(not _core.cuda_devices(), reason="needs a GPU and a build with CUDA")


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        importlib.util.find_spec(package) is None, reason=f"needs the package {package}"
    )


@cache
def run(program: str, *arguments: str) -> dict[str, Any]:
    """The object that the program prints last. The program must end with status 0."""
    # -P: a program's folder is not searched for modules.
    command = [sys.executable, "-P", str(PROGRAMS / program), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, (
        f"{command} ended with {ended.returncode}:\n{ended.stderr[-4000:]}"
    )
    return json.loads(ended.stdout.splitlines()[-1])

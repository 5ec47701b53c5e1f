# SPDX-License-Identifier: Apache-2.0
"""What this installation of Quarry is, and what it can do."""

import importlib.util
import platform
from typing import Any

from quarry import _core
from quarry.options import STRATEGIES
from quarry.sizes import format_size

FORMATS = ["quarry", "pytorch", "rmm", "umpire", "text"]


def information() -> dict[str, Any]:
    """Versions, devices and abilities as plain values."""
    return {
        "version": _core.version,
        "python": platform.python_version(),
        "has_cuda": _core.has_cuda,
        "has_graph": _core.has_graph,
        "devices": [device.to_dict() for device in _core.cuda_devices()],
        "trace_formats": FORMATS,
        "strategies": list(STRATEGIES),
        "has_matplotlib": importlib.util.find_spec("matplotlib") is not None,
    }


def rows_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same as rows of a table."""
    if not found["has_cuda"]:
        cuda = "not in this build, which was made without nvcc"
    elif not found["devices"]:
        cuda = "in this build, but no GPU can be used: there is none, or no driver that is new enough"
    else:
        cuda = f"{len(found['devices'])} GPUs" if len(found["devices"]) > 1 else "1 GPU"
    rows = [("quarry", found["version"]), ("Python", found["python"]), ("CUDA", cuda)]
    for number, device in enumerate(found["devices"]):
        memory = format_size(device["memory"])
        rows.append((f"device {number}", f"{device['name']}, {memory}, {device['architecture']}"))
    rows.append(("traces", ", ".join(found["trace_formats"])))
    rows.append(("strategies", ", ".join(found["strategies"])))
    graph = "yes" if found["has_graph"] else "no: zlib was not found when it was built"
    rows.append(("graph", graph))
    png = "yes" if found["has_matplotlib"] else "no: pip install matplotlib"
    rows.append(("report --png", png))
    return rows

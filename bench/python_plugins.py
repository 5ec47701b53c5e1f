# SPDX-License-Identifier: Apache-2.0
"""Times programs with the stock allocators and with Quarry's plug-ins, and prints JSON lines.

usage: python_plugins.py [RUNS [ALLOCATOR...]]
The package quarry must be importable, with CUDA; needs a GPU. If allocators are named, only
programs that have all of them run. Runs of the allocators alternate. Each line has the median over
the runs, and a line of `spread` has the largest value over the smallest. QUARRY_COMMIT and
QUARRY_MACHINE are the commit and the machine.
"""

import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[1] / "python" / "tests" / "plugins" / "programs"
CASES = [
    ("training.py", ["gpt"], ["stock", "quarry", "one_block", "pool"]),
    ("training.py", ["resnet"], ["stock", "quarry", "one_block", "pool"]),
    ("cupy_arrays.py", [], ["stock", "quarry"]),
    ("numba_kernels.py", [], ["stock", "quarry"]),
]
UNITS = {
    "step_ms": "ms",
    "first_step_ms": "ms",
    "round_ms": "ms",
    "loop_ms": "ms",
    "peak_reserved": "bytes",
    "peak_allocated": "bytes",
}


def run(program: str, arguments: list[str]) -> dict:
    command = [sys.executable, "-P", str(PROGRAMS / program), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr[-2000:]}"
        )
    return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    wanted = sys.argv[2:]
    for program, first, known in CASES:
        if not set(wanted) <= set(known):
            continue
        allocators = wanted or known
        steps = ["30"] if program == "training.py" else []
        found: dict[str, list[dict]] = {allocator: [] for allocator in allocators}
        for _ in range(runs):
            for allocator in allocators:
                found[allocator].append(run(program, [*first, allocator, *steps]))
        for allocator in allocators:
            for what, unit in UNITS.items():
                values = [result[what] for result in found[allocator] if what in result]
                if values:
                    name = "_".join([Path(program).stem, *first])
                    write(name, allocator, what, statistics.median(values), unit, runs)
                    if unit == "ms":
                        spread = max(values) / min(values)
                        write(name, allocator, f"{what} spread", spread, "max/min", runs)


def write(name: str, allocator: str, what: str, value: float, unit: str, runs: int) -> None:
    line = {
        "bench": f"python/plugins/{name}",
        "params": {"allocator": allocator, "measure": what, "runs": runs, "statistic": "median"},
        "value": round(value, 4),
        "unit": unit,
        "machine": os.environ.get("QUARRY_MACHINE", "unknown"),
        "date": datetime.date.today().isoformat(),
        "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
    }
    print(json.dumps(line, separators=(",", ":")), flush=True)


main()

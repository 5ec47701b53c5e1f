# SPDX-License-Identifier: Apache-2.0
"""Times an allocation and its free in Python, with and without a recording. Prints JSON lines.

usage: python_recording.py [SERIES]
The package quarry must be importable; needs no GPU. A value is the median over SERIES series of
20,000 pairs, in processor time of the thread, since other programs may run. `pool` is quarry.Pool.
`torch` are the functions that PyTorch calls, through ctypes and without Python's lock, over host
memory.
QUARRY_COMMIT and QUARRY_MACHINE are the commit and the machine.
"""

import datetime
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import quarry
import quarry.plugins

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))
from plugins.host_pools import TorchFunctions, make_pool

PAIRS = 20_000
CASES = ["no recording", "file", "file with call sites"]


def seconds_of(work: Callable[[], None]) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def pool_pairs(case: str, folder: str) -> Callable[[], None]:
    recorder = None
    if case != "no recording":
        recorder = quarry.Recorder(Path(folder) / case, call_sites=case != "file")
    pool = quarry.Pool(recorder=recorder)

    def work() -> None:
        for _ in range(PAIRS):
            pool.deallocate(pool.allocate(100))

    return work


def torch_pairs(case: str, folder: str) -> Callable[[], None]:
    torch, device = TorchFunctions(with_lock=False), make_pool()

    def pairs() -> None:
        for _ in range(PAIRS):
            torch.deallocate(torch.allocate(100, device, None), 100, device, None)

    def work() -> None:
        if case != "no recording":
            path = Path(folder) / f"torch, {case}"
            quarry.plugins.start_recording(path, call_sites=case != "file")
        pairs()
        quarry.plugins.stop_recording()

    return work


def main() -> None:
    series = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("pool", pool_pairs), ("torch", torch_pairs)):
            works = {case: make(case, folder) for case in CASES}
            found: dict[str, list[float]] = {case: [] for case in CASES}
            for _ in range(series):
                for case, work in works.items():
                    found[case].append(1e9 * seconds_of(work) / PAIRS)
            for case, values in found.items():
                write(name, case, sorted(values))


def write(name: str, case: str, values: list[float]) -> None:
    tenths = statistics.quantiles(values, n=10)
    line = {
        "bench": f"python/record/{name}",
        "params": {"allocator": "quarry", "case": case, "statistic": "median"},
        "value": round(statistics.median(values), 1),
        "spread": {"p10": round(tenths[0], 1), "p90": round(tenths[-1], 1), "runs": len(values)},
        "unit": "ns",
        "machine": os.environ.get("QUARRY_MACHINE", "unknown"),
        "date": datetime.date.today().isoformat(),
        "commit": os.environ.get("QUARRY_COMMIT", "unknown"),
    }
    print(json.dumps(line, separators=(",", ":")), flush=True)


main()

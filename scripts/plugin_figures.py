# SPDX-License-Identifier: Apache-2.0
"""What Python programs measure: bench/python_plugins.py for docs/guide/pytorch.md, and
bench/python_recording.py for docs/design/traces.md."""

from dataclasses import dataclass, field

from bench_records import machines, origin, points, value_text
from markdown import first_with, table

BENCH = "python/plugins/"
# Column -> program, measure, unit's size.
COLUMNS = {
    "gpt: step (ms)": ("training_gpt", "step_ms", 1),
    "gpt: peak reserved (GiB)": ("training_gpt", "peak_reserved", 1 << 30),
    "resnet: step (ms)": ("training_resnet", "step_ms", 1),
    "resnet: peak reserved (GiB)": ("training_resnet", "peak_reserved", 1 << 30),
}
ALLOCATORS = {
    "stock": "stock",
    "quarry": "`use()`",
    "one_block": "`use()` in one block",
    "pool": "`pool()`",
}


@dataclass
class Session:
    """The runs of one commit, which alternated between the allocators."""

    runs: set = field(default_factory=set)
    spreads: list = field(default_factory=list)  # of the times of a step
    values: dict = field(default_factory=dict)  # by allocator and blocks: {program, measure: value}


def sessions_of(records, machine):
    """{(date, commit): Session}, oldest first, of the last day of the machine."""
    found = {}
    for record in records:
        bench, params = record["bench"], record["params"]
        if record["machine"] != machine or not bench.startswith(BENCH):
            continue
        program, measure = bench.removeprefix(BENCH), params["measure"]
        if (program, measure.removesuffix(" spread")) not in {c[:2] for c in COLUMNS.values()}:
            continue
        session = found.setdefault((record["date"], record["commit"]), Session())
        session.runs.add(params["runs"])
        if measure.endswith(" spread"):
            session.spreads.append(record["value"])
            continue
        sizes = [params[name] for name in ("first_block", "next_block") if name in params]
        series = session.values.setdefault((params["allocator"], " and ".join(sizes)), {})
        series[program, measure] = record["value"]
    last = max((date for date, _ in found), default=None)
    return {origin: session for origin, session in found.items() if origin[0] == last}


def training(records):
    """The time of a step and the reserved memory of two models, in each session."""
    for machine in machines(records):
        sessions = sessions_of(records, machine)
        if sessions:
            return lines_of(machine, sessions)
    return ["Not measured yet: `bench/python_plugins.py`."]


def lines_of(machine, sessions):
    rows = []
    for (_, commit), session in sessions.items():
        runs = ", ".join(map(str, sorted(session.runs)))
        for (allocator, blocks), values in session.values.items():
            title = ALLOCATORS[allocator] + (f", blocks: {blocks}" if blocks else "")
            row = [title, f"{commit}, {runs} runs"]
            for program, measure, size in COLUMNS.values():
                value = values.get((program, measure))
                row.append("–" if value is None else value_text(value / size))
            rows.append(row)
    date = next(iter(sessions))[0]
    spread = max(spread for session in sessions.values() for spread in session.spreads)
    return [
        f"{machine}, {date}. Medians of the runs. In one session, the times of a step in two runs",
        f"with the same allocator differ by a factor of up to {value_text(spread)}:",
        "",
        *table(["", "session", *COLUMNS], rows),
    ]


RECORDED = {
    "pool": "`quarry.Pool`",
    "torch": "PyTorch's functions, through ctypes and without Python's lock",
}
CASES = ["no recording", "file", "file with call sites"]


def python_recording(records):
    """What recording costs Python programs."""
    benches = [f"python/record/{name}" for name in RECORDED]
    machine = first_with(records, benches)
    if machine is None:
        return ["Not measured yet: `bench/python_recording.py`."]
    rows, everything = [], []
    for bench, title in zip(benches, RECORDED.values(), strict=True):
        series = points(records, machine, bench, "case")["quarry"]
        everything += [series[case] for case in CASES]
        rows.append(
            [title]
            + [
                f"{value_text(point.median)} ({value_text(point.values['p10'])} to "
                f"{value_text(point.values['p90'])})"
                for point in map(series.get, CASES)
            ]
        )
    head = ["ns of processor time for an allocation and its free, median (p10 to p90)", *CASES]
    return [f"{machine}, {origin(everything)}:", "", *table(head, rows)]


SECTIONS = {"training": training}
DESIGN_SECTIONS = {"python_recording": python_recording}  # of docs/design/traces.md

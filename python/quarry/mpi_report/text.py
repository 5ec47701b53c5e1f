# SPDX-License-Identifier: Apache-2.0
"""A report of an MPI program as text."""

from quarry.mpi_report.analysis import MpiContent
from quarry.sizes import format_size

MAX_ROWS = 8


def duration(nanoseconds: float) -> str:
    if nanoseconds >= 1e12:
        return f"{nanoseconds / 1e9:,.0f} s"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def at(function: str, place: str) -> str:
    return f"{function} at {place}" if place else function


def notes_of(content: MpiContent) -> list[str]:
    """What limits the figures."""
    trace, notes = content.trace, []
    if trace.missing:
        ranks = int(trace.is_after_gap.sum())
        verb = "is" if trace.missing == 1 else "are"
        notes.append(
            f"{counted(trace.missing, 'later call')} of {counted(ranks, 'rank')} did not fit in the "
            f"trace, and {verb} in none of the figures: run with --trace-events "
            f"{int(trace.written.max())}"
        )
    if content.is_reconstructed:
        threads = "one thread" if trace.threads == 1 else f"{trace.threads} threads"
        notes.append(
            f"The ranks took turns on {threads} of the CPU. Times are as if each rank had a "
            "processor: work between calls as measured, and a wait ends when what it waits for "
            "begins."
        )
    else:
        notes.append(f"The clock advances in steps of {duration(trace.resolution_ns)} or less.")
    open_calls = int(trace.is_open.sum())
    if len(trace.gpu_ranks) > 1:
        if trace.clock_error_ns is None:
            notes.append(
                "Each GPU has its own clock, so that times of ranks on different GPUs may differ."
            )
        else:
            notes.append(
                "Times are those of the first GPU's clock. When the ranks began, times of two GPUs "
                f"were wrong by at most {duration(trace.clock_error_ns)} against each other, and "
                "by the clock's steps. Later the clocks may drift apart."
            )
    if open_calls:
        notes.append(unfinished_note(content, open_calls))
    return notes


def unfinished_note(content: MpiContent, open_calls: int) -> str:
    note = (
        f"{counted(open_calls, 'call')} had not returned when the program ended, and last to its end."
    )
    waiting = content.unfinished
    if not len(waiting):
        return note
    lasted = content.end[waiting] - content.begin[waiting]
    longest = int(waiting[lasted.argmax()])
    trace, row = content.trace, content.trace.records[longest]
    where = at(trace.function(int(row["function"])), trace.place(int(row["place"])))
    return (
        f"{note} {len(waiting):,} of them waited, {duration(int(lasted.sum()))} together, which no "
        f"figure of lost time contains: longest rank {int(trace.rank[longest])} in {where}."
    )


def facts_of(content: MpiContent) -> list[tuple[str, str, str]]:
    """Name, value and remark of the main figures."""
    trace, matrix = content.trace, content.matrix
    messages, size = int(matrix.messages.sum()), int(matrix.bytes.sum())
    matched = len(content.matches.send)
    unmatched = messages - matched
    total = int(content.busy.sum())
    where = {"cpu": "on the CPU", "gpu": "on a GPU"}.get(trace.device, trace.device)
    gpus = len(trace.gpu_ranks)
    between, memory = content.between_gpus, content.memory
    facts = [
        ("Ranks", f"{trace.ranks:,}", f"on {gpus} GPUs" if gpus > 1 else where),
        ("Time", duration(content.duration), f"{content.call_count:,} calls"),
        (
            "Messages",
            f"{messages:,}",
            format_size(size) + (f"; {unmatched:,} not received" if unmatched else ""),
        ),
        ("Collective operations", f"{len(set(content.matches.operation.tolist())):,}", ""),
        (
            "Lost in waiting",
            duration(content.lost),
            f"{share(content.lost, total)} of the ranks' time",
        ),
        (
            "Allocations",
            f"{memory.allocations:,}",
            f"{format_size(memory.bytes)}; {memory.freed:,} frees",
        ),
    ]
    if gpus > 1:
        crossing = (
            "Messages between GPUs",
            f"{between.messages:,}",
            f"{format_size(between.bytes)}; {share(between.messages, messages)} of all messages",
        )
        facts.insert(3, crossing)
    return facts


def text_of(content: MpiContent) -> str:
    lines = []
    for name, value, remark in facts_of(content):
        lines.append(f"{name:<22} {value}" + (f"  ({remark})" if remark else ""))
    if content.culprits:
        lines += ["", "Who made others wait:"]
        for culprit in content.culprits[:MAX_ROWS]:
            lines.append(
                f"  rank {culprit.rank:<8} {duration(culprit.lost):>9} of "
                f"{counted(culprit.waiters, 'other')}, most by a late "
                + at(culprit.function, culprit.place)
            )
        if len(content.culprits) > MAX_ROWS:
            lines.append(f"  and {counted(len(content.culprits) - MAX_ROWS, 'rank')} more")
        lines += ["", "Where ranks waited:"]
        for row in [row for row in content.calls if row.lost][:MAX_ROWS]:
            lines.append(
                f"  {duration(row.lost):>9} in {counted(row.calls, 'call')} of "
                f"{at(row.function, row.place)}, "
                f"most for rank {row.culprit}"
            )
    lines += ["", *notes_of(content)]
    return "\n".join(lines)

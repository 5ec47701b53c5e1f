# SPDX-License-Identifier: Apache-2.0
"""The published heuristics on traces: Fig. 1 of the poster, and its claims, from bench/results.

The poster is Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing Heuristics to Improve
Memory Performance", 2022. draw_heuristics.py draws its Fig. 2 from the same outcomes.
"""

from dataclasses import dataclass

from .records import origin, value_text
from .specs import BLOCKS, NAMES, VARIANTS
from .table import DASH, markdown

NAME = "trace-heuristics"  # of the plot
TITLE = "Coalesces against peak memory: the poster's settings in its program and on five traces"
TRACES, SETTINGS = NAMES["traces_and_simulation"], NAMES["settings"]
TIMED_OUT = list(SETTINGS)[:3]  # in the poster


@dataclass
class Outcome:
    """What a trace needs with one setting. The poster has only the first two figures."""

    coalesces: int
    overhead: float  # percent of the peak in use
    upstream_ms: float | None = None  # modelled
    cost_ms: float | None = None  # `upstream_ms`, and the price of the peak


@dataclass
class Sweep:
    """The outcomes of one trace."""

    in_use: int  # bytes at the peak
    by_rules: dict  # {key of RULES: {setting: Outcome}}
    tuned: Outcome | None = None


def best_of(outcomes):
    """The setting with the least cost, the first of equal ones: the choice of `tune`."""
    return min(outcomes, key=lambda name: outcomes[name].cost_ms)


def front_of(outcomes):
    """The outcomes that no other one beats in coalesces and memory, by coalesces."""
    front = []
    for each in sorted(outcomes, key=lambda outcome: (outcome.coalesces, outcome.overhead)):
        if not front or each.overhead < front[-1].overhead:
            front.append(each)
    return front


def sweeps(data, machine):
    """{trace: Sweep} of a machine's records, and the records' origin; empty if there are none."""
    coalesces, peak, upstream = (
        data.points(f"trace/heuristic/{name} allocator=*", machine, ("rules", "allocator", "trace"))
        for name in ("coalesces", "peak", "upstream")
    )
    in_use = {trace: peak.get(("none", "in use", trace)) for trace in TRACES}
    result = {trace: Sweep(int(p.median), {}) for trace, p in in_use.items() if p}
    for key, point in peak.items():
        rules, setting, trace = key
        if trace not in result or rules == "none":
            continue
        sweep, time = result[trace], upstream[key]
        price = time.params["us_per_gib"] * point.median / 2**30
        overhead = 100 * (point.median / sweep.in_use - 1)
        times = time.median / 1000, (time.median + price) / 1000
        outcome = Outcome(int(coalesces[key].median), overhead, *times)
        if rules == "tuned":
            sweep.tuned = outcome
        else:
            sweep.by_rules.setdefault(rules, {})[setting] = outcome
    return result, result and origin(peak.values())


def published(data):
    """{setting: Outcome} of the poster's Fig. 1, without those that timed out."""
    chosen = (
        f"trace/heuristic/{name} trace=poster allocator=*" for name in ("coalesces", "overhead")
    )
    calls, overheads = (data.points(each, by=["allocator"]) for each in chosen)
    found = {name: (point.median, overheads.get((name,))) for (name,), point in calls.items()}
    return {
        name: Outcome(int(n), o.median) for name, (n, o) in found.items() if o and n is not None
    }


# --- The poster's claims. Each function returns a verdict of some outcomes, and its figures.


def is_published(outcomes):
    return TIMED_OUT[0] not in outcomes


def series_of(outcomes):
    """For each variant: outcomes, from few blocks to many."""
    return [[outcomes[f"blocks:{n}{v}"] for n in BLOCKS] for v in VARIANTS]


def verdict(held, text):
    """`held`: whether each case meets the claim."""
    return f"{'yes' if all(held) else 'in part' if any(held) else 'no'}: {text}"


def calls_fall(outcomes):
    rows = [[each.coalesces for each in row] for row in series_of(outcomes)]
    held = [row == sorted(row, reverse=True) for row in rows]
    return verdict(held, ", ".join(f"{row[0]:,} → {row[-1]:,}" for row in rows))


def memory_grows(outcomes):
    rows = [(row[0].overhead, row[-1].overhead) for row in series_of(outcomes)]
    return verdict([a < b for a, b in rows], ", ".join(f"{a:.0f} → {b:.0f} %" for a, b in rows))


def steps_that_grow(outcomes):
    rows = series_of(outcomes)
    steps = [a.overhead < b.overhead for row in rows for a, b in zip(row, row[1:])]
    return f"{sum(steps)} of {len(steps)}"


def cbg_calls_least(outcomes):
    rows = ([each.coalesces for each in rows] for rows in zip(*series_of(outcomes)))
    held = [before <= min(others) for *others, before in rows]
    return verdict(held, f"{sum(held)} of {len(held)}")


def cbg_is_the_sweet_spot(outcomes):
    if is_published(outcomes):
        return "yes: most of its box"
    best = best_of(outcomes)
    return verdict([best.endswith("+cbg")], SETTINGS[best])


def percent_reserves_most(outcomes):
    blocks = [outcome.overhead for row in series_of(outcomes) for outcome in row]
    own = outcomes["percent:100"].overhead
    figures = f"{own:.0f} %, {min(blocks):.0f} to {max(blocks):.0f} %"
    return verdict([own > max(blocks)], figures)


def percent_on_front(outcomes):
    if is_published(outcomes):
        return "timed out"
    front = [id(each) for each in front_of(outcomes.values())]
    found = [n for n in TIMED_OUT if outcomes[n].coalesces > 0 and id(outcomes[n]) in front]
    return f"yes: {', '.join(map(SETTINGS.get, found))}" if found else "no"


def percent_places(outcomes):
    if is_published(outcomes):
        return "timed out"
    costs = sorted(outcome.cost_ms for outcome in outcomes.values())
    return ", ".join(str(1 + costs.index(outcomes[name].cost_ms)) for name in TIMED_OUT)


CLAIMS = {
    "more blocks, fewer coalesces (2 → 12 blocks: plain, HWM, CBG)": calls_fall,
    "more blocks, more memory (2 → 12 blocks: plain, HWM, CBG)": memory_grows,
    "steps to the next number of blocks that add memory": steps_that_grow,
    "CBG coalesces least (of the five numbers of blocks)": cbg_calls_least,
    "the sweet spot is a setting with CBG": cbg_is_the_sweet_spot,
    "Percent(100) reserves more than each Blocks setting": percent_reserves_most,
    "Percent(50), (75) or (90) coalesces and lies on the front": percent_on_front,
    "places of Percent(50), (75) and (90) among the nineteen, by cost": percent_places,
}


def claims_table(data):
    """Whether the poster's claims hold on each trace of the first machine, with its rules."""
    found = [sweeps(data, machine) for machine in data.machines()]
    found, measured = next(filter(all, found), ({}, ""))
    if not found:
        return ["Not measured yet."]
    columns = [found[trace].by_rules["2022"] for trace in TRACES]
    poster = published(data)
    rows = [[claim, *map(judge, [poster, *columns])] for claim, judge in CLAIMS.items()]
    costs = [outcomes[best_of(outcomes)].cost_ms for outcomes in columns]
    ratios = [value_text(c / found[trace].tuned.cost_ms) for c, trace in zip(costs, TRACES)]
    rows.append(["cost of the sweet spot ÷ cost of the tuned setting", DASH, *ratios])
    head = ["", "the poster's program", *TRACES.values()]
    return [f"{measured}:", "", *markdown(head, rows)]

# SPDX-License-Identifier: Apache-2.0
"""The published heuristics on traces: Fig. 1 of the poster, and its claims, from bench/results.

The poster is Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing Heuristics to Improve
Memory Performance", 2022. draw_heuristics.py draws its Fig. 2 from the same outcomes.
"""

from dataclasses import dataclass

from .records import origin, value_text
from .table import markdown as table
from .table import missing

BENCH = "trace/heuristic/"
NAME = "trace-heuristics"  # of the plot
TITLE = "Coalesces against peak memory: the poster's settings in its program and on five traces"
SIMULATION = "simulation"
REAL_TRACES = {
    "gpt": "GPT training",
    "resnet": "ResNet training",
    "kvcache": "decoding with a KV cache",
    "gnn": "GNN training",
}
TRACES = {SIMULATION: "trace of the poster's shape"} | REAL_TRACES
RULES = {"2022": "the poster's rules", "2024": "rules of 2024", "quarry": "Quarry's rules"}
PERCENTS, BLOCKS = (50, 75, 90, 100), (2, 3, 5, 7, 12)
VARIANTS = {"": "Blocks", "+hwm": "Blocks, HWM", "+cbg": "Blocks, CBG"}

# Fig. 1 of the poster: coalesces and overhead in percent. The other settings timed out.
PUBLISHED = {"percent:100": (2, 73)} | {
    f"blocks:{n}{variant}": row
    for variant, rows in {
        "": [(44, 8), (30, 6), (18, 15), (11, 11), (7, 17)],
        "+hwm": [(47, 7), (34, 5), (17, 8), (12, 11), (9, 18)],
        "+cbg": [(10, 10), (8, 15), (7, 19), (5, 13), (4, 26)],
    }.items()
    for n, row in zip(BLOCKS, rows)
}
TIMED_OUT = [f"percent:{n}" for n in PERCENTS if n < 100]
SETTINGS = [f"percent:{n}" for n in PERCENTS] + [f"blocks:{n}{v}" for v in VARIANTS for n in BLOCKS]


def title_of(setting):
    """A setting in the poster's words: `Blocks(2) HWM`."""
    name, _, number = setting.partition(":")
    number, _, variant = number.partition("+")
    return f"{name.title()}({number}) {variant.upper()}".rstrip()


@dataclass
class Outcome:
    """What a trace needs with one setting. The poster has only the first two figures."""

    coalesces: int
    overhead: float  # percent of the peak in use
    upstream_ms: float | None = None  # modelled
    cost_ms: float | None = None  # `upstream_ms`, and the price of the peak

    def text(self):
        return f"{self.coalesces:,}; {self.overhead:.1f} %; {value_text(self.upstream_ms)} ms"


PUBLISHED_OUTCOMES = {name: Outcome(*row) for name, row in PUBLISHED.items()}


@dataclass
class Sweep:
    """The outcomes of one trace."""

    in_use: int  # bytes at the peak
    by_rules: dict  # {key of RULES: {setting: Outcome}}
    tuned: Outcome
    tuned_setting: str
    points: list


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


def tuned_setting_of(params):
    """The setting that `tune` chose, in a few words."""
    parts = [params["strategy"]]
    if params["heuristic"] != "never":
        parts.append(params["heuristic"])
    for name, words in (("first_block", "first block of"), ("next_block", "next blocks of")):
        if params[name]:
            parts.append(f"{words} {value_text(params[name] / 2**20)} MiB")
    if params["growth_percent"] != 4:
        parts.append(f"growth {params['growth_percent']} %")
    return ", ".join(parts)


def sweeps(data, machine):
    """{trace: Sweep} of a machine's records; empty if there are none."""

    def found(quantity, rules):
        return data.points(machine, BENCH + quantity, "trace", {"rules": rules})

    in_use = found("peak", "none").get("in use", {})
    result = {
        trace: Sweep(int(in_use[trace].median), {}, None, "", [in_use[trace]])
        for trace in TRACES
        if trace in in_use
    }
    for rules in [*RULES, "tuned"]:
        coalesces, peak, upstream = (
            found(quantity, rules) for quantity in ("coalesces", "peak", "upstream")
        )
        for trace, sweep in result.items():
            outcomes = {}
            for setting in [*SETTINGS, "tuned"]:
                point = peak.get(setting, {}).get(trace)
                if point is None:
                    continue
                sweep.points.append(point)
                time = upstream[setting][trace]
                price = time.params["us_per_gib"] * point.median / 2**30
                outcomes[setting] = Outcome(
                    int(coalesces[setting][trace].median),
                    100 * (point.median / sweep.in_use - 1),
                    time.median / 1000,
                    (time.median + price) / 1000,
                )
            if rules == "tuned":
                sweep.tuned = outcomes["tuned"]
                sweep.tuned_setting = tuned_setting_of(time.params)
            else:
                sweep.by_rules[rules] = outcomes
    return result


def column(outcomes):
    """{setting: cell of a table}. The sweet spot is bold."""
    best = best_of(outcomes)
    return {
        name: f"**{outcome.text()}**" if name == best else outcome.text()
        for name, outcome in outcomes.items()
    }


def with_sweeps(write):
    """A function that writes the lines of a part of the page, from the sweeps."""

    def part(data):
        found = next(filter(None, (sweeps(data, machine) for machine in data.machines())), None)
        if found is None:
            return missing("`trace_heuristics_bench`")
        everything = [point for sweep in found.values() for point in sweep.points]
        return [f"{origin(everything)}:", "", *write(found)]

    return part


@with_sweeps
def poster_table(found):
    """The poster's Fig. 1, beside the trace of its shape."""
    sweep = found[SIMULATION]
    columns = [column(sweep.by_rules[rules]) for rules in RULES]
    rows = []
    for setting in SETTINGS:
        published = PUBLISHED.get(setting)
        text = f"{published[0]}; {published[1]} %" if published else "timed out"
        rows.append([title_of(setting), text, *(cells.get(setting, "–") for cells in columns)])
    dashes = ["–"] * len(RULES)
    rows.append([f"tuned: {sweep.tuned_setting}", *dashes, sweep.tuned.text()])
    head = ["coalesces; overhead; modelled time", "the poster's program"]
    return table([*head, *(f"{TRACES[SIMULATION]}, {text}" for text in RULES.values())], rows)


@with_sweeps
def trace_table(found):
    """Fig. 1 of the real traces, with the poster's rules."""
    columns = [column(found[trace].by_rules["2022"]) for trace in REAL_TRACES]
    rows = [[title_of(setting), *(cells[setting] for cells in columns)] for setting in SETTINGS]
    tuned = [found[trace] for trace in REAL_TRACES]
    rows.append(["tuned", *(sweep.tuned.text() for sweep in tuned)])
    rows.append(["its setting", *(sweep.tuned_setting for sweep in tuned)])
    return table(["coalesces; overhead; modelled time", *REAL_TRACES.values()], rows)


# --- The poster's claims. Each function returns a verdict of some outcomes, and its figures.


def series_of(outcomes):
    """{variant: outcomes, from few blocks to many}"""
    return {v: [outcomes[f"blocks:{n}{v}"] for n in BLOCKS] for v in VARIANTS}


def verdict(held, text):
    """`held`: whether each case meets the claim."""
    return f"{'yes' if all(held) else 'in part' if any(held) else 'no'}: {text}"


def calls_fall(outcomes):
    rows = series_of(outcomes).values()
    held = [all(a.coalesces >= b.coalesces for a, b in zip(row, row[1:])) for row in rows]
    return verdict(held, ", ".join(f"{r[0].coalesces:,} → {r[-1].coalesces:,}" for r in rows))


def memory_grows(outcomes):
    rows = series_of(outcomes).values()
    held = [row[0].overhead < row[-1].overhead for row in rows]
    return verdict(held, ", ".join(f"{r[0].overhead:.0f} → {r[-1].overhead:.0f} %" for r in rows))


def steps_that_grow(outcomes):
    rows = series_of(outcomes).values()
    steps = [a.overhead < b.overhead for row in rows for a, b in zip(row, row[1:])]
    return f"{sum(steps)} of {len(steps)}"


def cbg_calls_least(outcomes):
    held = [
        before.coalesces <= min(plain.coalesces, high_water.coalesces)
        for plain, high_water, before in zip(*series_of(outcomes).values())
    ]
    return verdict(held, f"{sum(held)} of {len(held)}")


def cbg_is_the_sweet_spot(outcomes):
    if outcomes is PUBLISHED_OUTCOMES:
        return "yes: most of its box"
    best = best_of(outcomes)
    return f"{'yes' if best.endswith('+cbg') else 'no'}: {title_of(best)}"


def percent_reserves_most(outcomes):
    blocks = [outcome.overhead for row in series_of(outcomes).values() for outcome in row]
    least, most, own = min(blocks), max(blocks), outcomes["percent:100"].overhead
    return f"{'yes' if own > most else 'no'}: {own:.0f} %, {least:.0f} to {most:.0f} %"


def percent_on_front(outcomes):
    if outcomes is PUBLISHED_OUTCOMES:
        return "timed out"
    front = front_of(outcomes.values())
    names = [
        title_of(name)
        for name in TIMED_OUT
        if outcomes[name].coalesces > 0 and any(outcomes[name] is each for each in front)
    ]
    return f"yes: {', '.join(names)}" if names else "no"


def percent_places(outcomes):
    if outcomes is PUBLISHED_OUTCOMES:
        return "timed out"
    costs = [outcome.cost_ms for outcome in outcomes.values()]
    places = [1 + sum(cost < outcomes[name].cost_ms for cost in costs) for name in TIMED_OUT]
    return ", ".join(map(str, places))


def cost_ratio(outcomes, sweep):
    if sweep is None:
        return "–"
    return f"{value_text(outcomes[best_of(outcomes)].cost_ms / sweep.tuned.cost_ms)}"


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


@with_sweeps
def claims_table(found):
    """Whether the poster's claims hold on each trace, with the poster's rules."""
    columns = [PUBLISHED_OUTCOMES, *(found[trace].by_rules["2022"] for trace in TRACES)]
    rows = [[claim, *map(judge, columns)] for claim, judge in CLAIMS.items()]
    ratios = [cost_ratio(found[trace].by_rules["2022"], found[trace]) for trace in TRACES]
    rows.append(["cost of the sweet spot ÷ cost of the tuned setting", "–", *ratios])
    return table(["", "the poster's program", *TRACES.values()], rows)


HEURISTICS = {"fig1": poster_table, "fig1-traces": trace_table, "poster-claims": claims_table}

# SPDX-License-Identifier: Apache-2.0
"""The published heuristics on traces: Fig. 1 of the poster, and its claims, from bench/results.

The poster is Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing Heuristics to Improve
Memory Performance", 2022. draw_heuristics.py draws its Fig. 2 from the same outcomes.
"""

from dataclasses import dataclass

from .records import origin, value_text
from .table import DASH, markdown

NAME = "trace-heuristics"  # of the plot
TITLE = "Coalesces against peak memory: the poster's settings in its program and on five traces"
REAL_TRACES = {
    "gpt": "GPT training",
    "resnet": "ResNet training",
    "kvcache": "decoding with a KV cache",
    "gnn": "GNN training",
}
TRACES = {"simulation": "trace of the poster's shape"} | REAL_TRACES
RULES = {"2022": "the poster's rules", "2024": "rules of 2024", "quarry": "Quarry's rules"}
PERCENTS, BLOCKS = (50, 75, 90, 100), (2, 3, 5, 7, 12)
VARIANTS = {"": "Blocks", "+hwm": "Blocks, HWM", "+cbg": "Blocks, CBG"}
SETTINGS = [f"percent:{n}" for n in PERCENTS] + [f"blocks:{n}{v}" for v in VARIANTS for n in BLOCKS]
TIMED_OUT = SETTINGS[:3]  # in the poster
HEAD, POSTER = "coalesces; overhead; modelled time", "the poster's program"


@dataclass
class Outcome:
    """What a trace needs with one setting. The poster has only the first two figures."""

    coalesces: int
    overhead: float  # percent of the peak in use
    upstream_ms: float | None = None  # modelled
    cost_ms: float | None = None  # `upstream_ms`, and the price of the peak

    def text(self):
        if self.upstream_ms is None:
            return f"{self.coalesces}; {self.overhead} %"
        return f"{self.coalesces:,}; {self.overhead:.1f} %; {value_text(self.upstream_ms)} ms"


# Fig. 1 of the poster: coalesces and overhead in percent. The other settings timed out.
FIG_1 = "2 73; 44 8; 30 6; 18 15; 11 11; 7 17; 47 7; 34 5; 17 8; 12 11; 9 18; "
FIG_1 += "10 10; 8 15; 7 19; 5 13; 4 26"
PUBLISHED = {
    setting: Outcome(*map(int, figures.split()))
    for setting, figures in zip(SETTINGS[3:], FIG_1.split(";"))
}


def title_of(setting):
    """A setting in the poster's words: `Blocks(2) HWM`."""
    name, _, number = setting.partition(":")
    number, _, variant = number.partition("+")
    return f"{name.title()}({number}) {variant.upper()}".rstrip()


@dataclass
class Sweep:
    """The outcomes of one trace."""

    in_use: int  # bytes at the peak
    by_rules: dict  # {key of RULES: {setting: Outcome}}
    tuned: Outcome | None = None
    tuned_setting: str = ""


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
    parts += [params["heuristic"]] if params["heuristic"] != "never" else []
    for name, words in (("first_block", "first block of"), ("next_block", "next blocks of")):
        if params[name]:
            parts.append(f"{words} {value_text(params[name] / 2**20)} MiB")
    parts += [f"growth {params['growth_percent']} %"] if params["growth_percent"] != 4 else []
    return ", ".join(parts)


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
            sweep.tuned, sweep.tuned_setting = outcome, tuned_setting_of(time.params)
        else:
            sweep.by_rules.setdefault(rules, {})[setting] = outcome
    return result, result and origin(peak.values())


def with_sweeps(write):
    """A function that writes a table of the page, from the sweeps of the first machine."""

    def part(data):
        found = [sweeps(data, machine) for machine in data.machines()]
        found, measured = next(filter(all, found), ({}, ""))
        return [f"{measured}:", "", *write(found)] if found else ["Not measured yet."]

    return part


def column(outcomes):
    """The cells of a table, by setting. The sweet spot is bold."""
    best = best_of(outcomes)
    texts = [outcomes[name].text() if name in outcomes else DASH for name in SETTINGS]
    return [f"**{t}**" if name == best else t for t, name in zip(texts, SETTINGS)]


@with_sweeps
def poster_table(found):
    """The poster's Fig. 1, beside the trace of its shape."""
    trace, sweep = TRACES["simulation"], found["simulation"]
    poster = [PUBLISHED[name].text() if name in PUBLISHED else "timed out" for name in SETTINGS]
    columns = [column(sweep.by_rules[rules]) for rules in RULES]
    rows = [list(row) for row in zip(map(title_of, SETTINGS), poster, *columns)]
    rows.append([f"tuned: {sweep.tuned_setting}", *[DASH] * len(RULES), sweep.tuned.text()])
    return markdown([HEAD, POSTER, *(f"{trace}, {text}" for text in RULES.values())], rows)


@with_sweeps
def trace_table(found):
    """Fig. 1 of the real traces, with the poster's rules."""
    real = [found[trace] for trace in REAL_TRACES]
    columns = [column(sweep.by_rules["2022"]) for sweep in real]
    rows = [list(row) for row in zip(map(title_of, SETTINGS), *columns)]
    rows.append(["tuned", *(sweep.tuned.text() for sweep in real)])
    rows.append(["its setting", *(sweep.tuned_setting for sweep in real)])
    return markdown([HEAD, *REAL_TRACES.values()], rows)


# --- The poster's claims. Each function returns a verdict of some outcomes, and its figures.


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
    if outcomes is PUBLISHED:
        return "yes: most of its box"
    best = best_of(outcomes)
    return verdict([best.endswith("+cbg")], title_of(best))


def percent_reserves_most(outcomes):
    blocks = [outcome.overhead for row in series_of(outcomes) for outcome in row]
    own = outcomes["percent:100"].overhead
    figures = f"{own:.0f} %, {min(blocks):.0f} to {max(blocks):.0f} %"
    return verdict([own > max(blocks)], figures)


def percent_on_front(outcomes):
    if outcomes is PUBLISHED:
        return "timed out"
    front = [id(each) for each in front_of(outcomes.values())]
    found = [n for n in TIMED_OUT if outcomes[n].coalesces > 0 and id(outcomes[n]) in front]
    return f"yes: {', '.join(map(title_of, found))}" if found else "no"


def percent_places(outcomes):
    if outcomes is PUBLISHED:
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


@with_sweeps
def claims_table(found):
    """Whether the poster's claims hold on each trace, with the poster's rules."""
    columns = [found[trace].by_rules["2022"] for trace in TRACES]
    rows = [[claim, *map(judge, [PUBLISHED, *columns])] for claim, judge in CLAIMS.items()]
    costs = [outcomes[best_of(outcomes)].cost_ms for outcomes in columns]
    ratios = [value_text(c / found[trace].tuned.cost_ms) for c, trace in zip(costs, TRACES)]
    rows.append(["cost of the sweet spot ÷ cost of the tuned setting", DASH, *ratios])
    return markdown(["", POSTER, *TRACES.values()], rows)


APART = {
    "The poster's settings on a trace of its shape": poster_table,
    "The poster's settings on real traces": trace_table,
    "The poster's claims": claims_table,
}

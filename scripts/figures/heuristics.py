# SPDX-License-Identifier: Apache-2.0
"""The published heuristics on traces: Fig. 1 of the poster, and its claims, from bench/results.

The poster is Belcher, McFadden and Beckingsale, "Using Umpire's Coalescing Heuristics to Improve
Memory Performance", 2022. draw_heuristics.py draws its Fig. 2 from the same outcomes.
"""

from dataclasses import dataclass

from .records import value_text
from .specs import NAMES

NAME = "trace-heuristics"  # of the plot
TITLE = "Coalesces against peak memory: the poster's settings in its program and on five traces"
SETTINGS = NAMES["settings"]
PERCENTS, BLOCKS, VARIANTS = (50, 75, 90, 100), (2, 3, 5, 7, 12), ("", "+hwm", "+cbg")
TIMED_OUT = ("percent:50", "percent:75", "percent:90")  # in the poster


@dataclass
class Outcome:
    """What a trace needs with one setting. The poster has only the first two figures."""

    coalesces: int
    overhead: float  # percent of the peak in use
    cost_ms: float | None = None  # modelled: the time of the upstream, and the price of the peak

    @property
    def place(self):
        return self.coalesces, self.overhead


def in_use(view, trace):
    """The bytes in use at the peak of a trace; None if it has no records."""
    chosen = {"trace": trace, "rules": "none", "allocator": "in use"}
    return view.value(chosen, "trace/heuristic/peak")


def outcome(view, chosen):
    """The outcome of a setting; None if it has no records, or if it timed out in the poster."""
    calls, overhead, peak = (
        view.value(chosen, f"trace/heuristic/{name}") for name in ("coalesces", "overhead", "peak")
    )
    if calls is None or overhead is not None:
        return None if calls is None else Outcome(int(calls), overhead)
    time = view.point(chosen, "trace/heuristic/upstream")
    price = time.params["us_per_gib"] * peak / 2**30
    share = 100 * (peak / in_use(view, chosen["trace"]) - 1)
    return Outcome(int(calls), share, (time.median + price) / 1000)


def outcomes_of(view, trace):
    """{setting: Outcome} of a trace with the poster's rules, or of the poster's program."""
    own = {"machine": "the poster's"} if trace == "poster" else {"rules": "2022"}
    found = {name: outcome(view, own | {"trace": trace, "allocator": name}) for name in SETTINGS}
    return {name: each for name, each in found.items() if each}


def tuned(view, trace):
    """The outcome of the setting that `tune` chooses of all."""
    return outcome(view, {"trace": trace, "rules": "tuned", "allocator": "tuned"})


def best_of(outcomes):
    """The setting with the least cost, the first of equal ones: the choice of `tune`."""
    return min(outcomes, key=lambda name: outcomes[name].cost_ms)


def front_of(outcomes):
    """The outcomes that no other one beats in coalesces and memory, by coalesces."""
    front = []
    for each in sorted(outcomes, key=lambda outcome: outcome.place):
        if not front or each.overhead < front[-1].overhead:
            front.append(each)
    return front


def by_variant(outcomes):
    """For each variant: outcomes, from few blocks to many."""
    return [[outcomes[f"blocks:{n}{v}"] for n in BLOCKS] for v in VARIANTS]


def verdict(held, text):
    """`held`: whether each case meets the claim."""
    return f"{'yes' if all(held) else 'in part' if any(held) else 'no'}: {text}"


@dataclass
class Claims:
    """The poster's claims. Each method returns a verdict of the outcomes of a trace, or a figure."""

    outcomes: dict

    def rows(self, figure):
        """For each variant: a figure of its outcomes, from few blocks to many."""
        return [[getattr(each, figure) for each in row] for row in by_variant(self.outcomes)]

    def calls_fall(self):
        rows = self.rows("coalesces")
        held = [row == sorted(row, reverse=True) for row in rows]
        return verdict(held, ", ".join(f"{row[0]:,} → {row[-1]:,}" for row in rows))

    def memory_grows(self):
        ends = [(row[0], row[-1]) for row in self.rows("overhead")]
        return verdict([a < b for a, b in ends], ", ".join(f"{a:.0f} → {b:.0f} %" for a, b in ends))

    def steps_that_grow(self):
        steps = [a < b for row in self.rows("overhead") for a, b in zip(row, row[1:])]
        return f"{sum(steps)} of {len(steps)}"

    def cbg_calls_least(self):
        held = [before <= min(others) for *others, before in zip(*self.rows("coalesces"))]
        return verdict(held, f"{sum(held)} of {len(held)}")

    def cbg_is_the_sweet_spot(self):
        best = best_of(self.outcomes)
        return verdict([best.endswith("+cbg")], SETTINGS[best])

    def percent_reserves_most(self):
        blocks, own = sum(self.rows("overhead"), []), self.outcomes["percent:100"].overhead
        figures = f"{own:.0f} %, {min(blocks):.0f} to {max(blocks):.0f} %"
        return verdict([own > max(blocks)], figures)

    def percent_on_front(self):
        front = [each for each in front_of(self.outcomes.values()) if each.coalesces > 0]
        found = [name for name in TIMED_OUT if self.outcomes[name] in front]
        return f"yes: {', '.join(map(SETTINGS.get, found))}" if found else "no"

    def percent_places(self):
        costs = sorted(outcome.cost_ms for outcome in self.outcomes.values())
        return ", ".join(str(1 + costs.index(self.outcomes[name].cost_ms)) for name in TIMED_OUT)


def verdict_of(view, cell):
    """Whether a trace meets a claim; for `cost`, the least cost ÷ the tuned setting's cost.

    `.poster` is what the poster says of its program, if that does not follow from its figures.
    """
    trace, claim = cell["trace"], cell[".claim"]
    found = outcomes_of(view, trace)
    if trace == "poster" and ".poster" in cell:
        return cell[".poster"]
    if found and claim == "cost":
        best = tuned(view, trace)
        return best and value_text(found[best_of(found)].cost_ms / best.cost_ms)
    return getattr(Claims(found), claim)() if found else None

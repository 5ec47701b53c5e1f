# SPDX-License-Identifier: Apache-2.0
"""Results as lines of text, for the command line."""

from collections.abc import Mapping
from typing import Any

from quarry.options import STRATEGIES
from quarry.plans import Plan
from quarry.replays import PlanUse, ReplayResult
from quarry.separation import Route, RoutingTable, SeparateResult
from quarry.sizes import format_size
from quarry.traces import Kind
from quarry.tuning import TuneOutcome, TuneResult


NO_PERIOD = "none: no sequence of allocations repeats three times in a row in half of the trace"


def rows_of_replay(path: str, result: ReplayResult) -> list[tuple[str, str]]:
    """The result of a replay as rows of a table."""
    pool, settings = result.pool, result.settings
    peak, in_use = pool.peak_reserved, pool.peak_allocated
    share = f" ({peak / in_use:.3f} times the peak in use)" if in_use else ""
    capacity = settings["capacity"]
    rows = [
        ("trace", f"{path}: {result.events:,} events, {result.format} format"),
        ("pool", setting_text(settings)),
        ("capacity", "unlimited" if capacity is None else format_size(capacity)),
        ("fits", fits_text(result)),
        ("peak in use", format_size(in_use)),
        ("peak reserved", format_size(peak) + share),
    ]
    if pool.peak_granted:  # some pools do not count it
        rows.insert(-1, ("peak granted", format_size(pool.peak_granted)))
    if result.recorded_peak_reserved:
        rows.append(("peak reserved, as recorded", format_size(result.recorded_peak_reserved)))
    rows += [
        ("most allocations in use", f"{result.max_live:,}"),
        (
            "blocks from the upstream",
            f"{pool.blocks_allocated:,}, {pool.blocks_returned:,} returned",
        ),
        ("modelled time of the upstream", f"{result.upstream_us / 1000:,.3f} ms"),
        *(
            [("measured time of the upstream", f"{result.measured_us / 1000:,.3f} ms")]
            if result.measured_us is not None
            else []
        ),
        ("coalesces", f"{pool.coalesces:,}"),
    ]
    if result.plan:
        rows += rows_of_plan_use(result.plan)
    for name, count in (
        ("frees of unknown addresses", result.unknown_frees),
        ("allocations at addresses in use", result.repeated_addresses),
    ):
        if count:
            rows.append((name, f"{count:,}"))
    return rows + rows_of_recorded_failures(result)


def fits_text(result: ReplayResult) -> str:
    """Whether a trace fits, and why not."""
    if result.fits:
        not_tried = result.recorded_failures - result.retried_failures
        return "yes, because the memory is unlimited" if not_tried else "yes"
    reasons = []
    if result.failures:
        reasons.append(f"{result.failures:,} allocations failed")
    if result.repeated_failures:
        reasons.append(
            f"of {result.recorded_failures:,} failures in the trace, "
            f"{result.repeated_failures:,} failed again"
        )
    return f"no: {'; '.join(reasons)}"


def rows_of_recorded_failures(result: ReplayResult) -> list[tuple[str, str]]:
    """What became of the requests that failed in the recording, as a row of a table."""
    if not result.recorded_failures:
        return []
    served = result.retried_failures - result.repeated_failures
    outcome = f"tried again, {served:,} succeeded"
    if not result.retried_failures:
        outcome = "not tried; state the capacity to try them"
    return [
        ("failures in the trace", f"{result.recorded_failures:,}, {outcome}"),
        ("peak in use if they succeeded", format_size(result.peak_with_failures)),
    ]


def rows_of_plan_use(use: PlanUse) -> list[tuple[str, str]]:
    """How a plan served a trace, as rows of a table."""
    share = f" of {use.allocations:,} ({use.planned / use.allocations:.2%})" if use.planned else ""
    rows = [("served by the plan", f"{use.planned:,}{share}")]
    if use.occupied or use.unplanned:
        rows += [
            ("places that could not be used", f"{use.occupied:,}"),
            ("requests that differ from the plan", f"{use.unplanned:,}"),
            ("jumps in the plan", f"{use.jumps:,}"),
            ("peak reserved by the fallback", format_size(use.fallback_peak)),
        ]
    return rows


def setting_text(setting: Mapping[str, Any]) -> str:
    """The arguments of `quarry.replay` for a pool in a few words: what differs from the defaults."""
    parts = [setting["strategy"]]
    if setting["heuristic"] != "never":
        parts.append(setting["heuristic"])
    for name in ("first_block", "next_block"):
        if size := setting[name]:
            parts.append(f"{name.replace('_', ' ')} {format_size(size)}")
    if setting["growth_percent"] != 4:
        parts.append(f"growth {setting['growth_percent']} %")
    if setting["shrink_after"]:
        parts.append(f"shrink after {setting['shrink_after']:,} frees")
    if setting.get("pools", 1) != 1:
        parts.append(f"{setting['pools']} pools")
    return ", ".join(parts)


def rows_of_tuning(path: str, result: TuneResult) -> list[tuple[str, str]]:
    """The front and the best setting as rows of a table."""
    rows = [
        ("trace", f"{path}: {result.events:,} events"),
        ("settings", f"{len(result.outcomes):,}, {len(result.dropped):,} dropped early"),
        ("peak in use", f"{format_size(result.peak_allocated)}; no setting can reserve less"),
    ]
    if result.recorded_failures:
        peak = format_size(result.peak_with_failures)
        text = f"{result.recorded_failures:,}; {peak} in use if they succeeded"
        rows.append(("failures in the trace", text))
    if result.best is None:
        return [*rows, ("best", "none: the trace does not fit with any setting")]
    for outcome in result.front:
        name = "best" if outcome is result.best else "on the front"
        rows.append((name, outcome_text(outcome)))
    return rows


def outcome_text(outcome: TuneOutcome) -> str:
    milliseconds = outcome.upstream_us / 1000
    return (
        f"{format_size(outcome.peak_reserved)} reserved, {milliseconds:,.1f} ms upstream, "
        f"{outcome.coalesces:,} coalesces: {outcome.command_options}"
    )


def rows_of_separation(result: SeparateResult) -> list[tuple[str, str]]:
    """What pools of their own save, and the routes, as rows of a table."""
    together, apart = result.together.pool, result.apart.pool
    rows = [("learned from", f"{result.learned_events:,} events")]
    for tried in result.tried if len(result.tried) > 1 else []:
        saved = together.peak_reserved - tried.apart.pool.peak_reserved
        text = f"saves {saved_text(saved, together.peak_reserved)}, {routes_text(tried.table)}"
        if tried.table.pools == 1:
            text = "no routes: it tells no temporary allocations apart"
        rows.append((f"key {tried.key}", text))
    rows += [
        ("best key", result.key or "none: one pool is as good as each of them"),
        ("pools", f"{result.table.pools}, {routes_text(result.table)}"),
        ("peak in use, other part", format_size(together.peak_allocated)),
        ("peak reserved, one pool", format_size(together.peak_reserved)),
        ("peak reserved, separated", format_size(apart.peak_reserved)),
        ("saved", saved_text(result.saved_bytes, together.peak_reserved)),
    ]
    for name, part in (("one pool", result.together), ("separated", result.apart)):
        if not part.fits:
            rows.append((f"does not fit, {name}", fits_text(part).removeprefix("no: ")))
    for route in result.table.routes[:10]:
        rows.append((f"pool {route.pool}", route_text(route)))
    if len(result.table) > 10:
        rows.append(("", f"{len(result.table) - 10} more routes"))
    return rows


def routes_text(table: RoutingTable) -> str:
    return "1 route" if len(table) == 1 else f"{len(table):,} routes"


def saved_text(saved: int, total: int) -> str:
    """Saved bytes, and their share of all bytes."""
    return f"{format_size(saved)} ({saved / total if total else 0:.1%})"


def route_text(route: Route) -> str:
    largest = "any size" if route.max_size is None else f"to {format_size(route.max_size)}"
    sizes = largest if not route.min_size else f"{format_size(route.min_size)} {largest}"
    site = route.call_site if len(route.call_site) <= 90 else route.call_site[:89] + "…"
    return f"{sizes} at {site}" if site else sizes


def excess_percent(size: int, lower_bound: int) -> float:
    """By how many percent a size exceeds a lower bound."""
    return 100 * (size - lower_bound) / lower_bound if lower_bound else 0.0


def rows_of_plan(
    trace: str, plan: Plan, default: ReplayResult, served: ReplayResult, finds_period: bool
) -> list[tuple[str, str]]:
    """A plan, and what the trace reserves with it and with a default pool, as rows of a table."""
    excess = excess_percent(plan.bytes, plan.lower_bound)
    period = f"{plan.period:,} allocations, from allocation {plan.period_begin:,} on"
    rows = [
        ("trace", f"{trace}: {default.events:,} events, {default.format} format"),
        ("allocations", f"{plan.allocations:,}"),
        ("period", period if plan.period else NO_PERIOD if finds_period else "not looked for"),
        ("plan", f"{format_size(plan.bytes)}, {excess:.2f} % above the lower bound"),
        ("lower bound", format_size(plan.lower_bound)),
        ("a default pool reserves", format_size(default.pool.peak_reserved)),
        ("a planned pool reserves", format_size(served.pool.peak_reserved)),
        ("placed by", plan.method or "nothing to place"),
    ]
    if default.recorded_failures:
        rows += [
            ("failures in the trace", f"{default.recorded_failures:,}, without places in the plan"),
            ("peak in use if they succeeded", format_size(default.peak_with_failures)),
        ]
    if use := served.plan:
        rows.insert(-1, rows_of_plan_use(use)[0])
    if unplanned := plan.allocations - plan.planned_allocations:
        rows.insert(2, ("without a place", f"{unplanned:,}, which outlive a whole period"))
    return rows


def failure_text(result: ReplayResult) -> str:
    """The first allocation that did not fit, and the pool's state then."""
    failure = result.first_failure
    if failure is None:
        return ""
    pool, request = failure.pool, failure.request
    site = f" at {failure.call_site}" if failure.call_site else ""
    verb = "fails as in the recording: it requests" if request["kind"] == Kind.FAIL else "allocates"
    text = (
        f"event {failure.event:,} {verb} {format_size(request['size'])}{site}. The pool has "
        f"{format_size(pool.reserved)} reserved, {format_size(pool.allocated)} allocated in "
        f"{pool.allocations_in_use:,} allocations"
    )
    if not pool.reserved:  # such as a plan that has no room
        return f"{text}: {failure.reason}"
    text += f", {format_size(pool.reserved - pool.granted)} free"
    if not STRATEGIES[result.settings["strategy"]]["coalesces"]:
        return text  # these strategies do not count the rest
    return (
        f"{text}, "
        f"{format_size(pool.largest_free)} in the largest free chunk, "
        f"{format_size(pool.releasable)} in empty blocks"
    )

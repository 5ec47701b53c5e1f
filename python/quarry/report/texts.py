# SPDX-License-Identifier: Apache-2.0
"""Results as lines of text, for the command line."""

from quarry.replays import ReplayResult
from quarry.sizes import format_size


def rows_of_replay(path: str, result: ReplayResult) -> list[tuple[str, str]]:
    """The result of a replay as rows of a table."""
    pool, settings = result.pool, result.settings
    peak, in_use = pool.peak_reserved, pool.peak_allocated
    share = f" ({peak / in_use:.3f} times the peak in use)" if in_use else ""
    capacity = settings["capacity"]
    rows = [
        ("trace", f"{path}: {result.events:,} events, {result.format} format"),
        ("pool", f"{settings['strategy']}, coalesces: {settings['heuristic']}"),
        ("capacity", "unlimited" if capacity is None else format_size(capacity)),
        ("fits", "yes" if result.fits else f"no: {result.failures:,} allocations failed"),
        ("peak in use", format_size(in_use)),
        ("peak granted", format_size(pool.peak_granted)),
        ("peak reserved", format_size(peak) + share),
    ]
    if result.recorded_peak_reserved:
        rows.append(("peak reserved, as recorded", format_size(result.recorded_peak_reserved)))
    rows += [
        ("most allocations in use", f"{result.max_live:,}"),
        ("blocks from the upstream", f"{pool.blocks_allocated:,}, {pool.blocks_returned:,} returned"),
        ("modelled time of the upstream", f"{result.upstream_us / 1000:,.3f} ms"),
        ("coalesces", f"{pool.coalesces:,}"),
    ]
    for name, count in (
        ("frees of unknown addresses", result.unknown_frees),
        ("allocations at addresses in use", result.repeated_addresses),
        ("failures in the trace", result.recorded_failures),
    ):
        if count:
            rows.append((name, f"{count:,}"))
    return rows


def failure_text(result: ReplayResult) -> str:
    """The first allocation that did not fit, and the pool's state then."""
    failure = result.first_failure
    if failure is None:
        return ""
    pool, request = failure.pool, failure.request
    site = f" at {failure.call_site}" if failure.call_site else ""
    return (
        f"event {failure.event:,} allocates {format_size(request['size'])}{site}. The pool has "
        f"{format_size(pool.reserved)} reserved, {format_size(pool.allocated)} allocated in "
        f"{pool.allocations_in_use:,} allocations, {format_size(pool.reserved - pool.granted)} free, "
        f"{format_size(pool.largest_free)} in the largest free chunk, "
        f"{format_size(pool.releasable)} in empty blocks"
    )

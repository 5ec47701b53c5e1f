# SPDX-License-Identifier: Apache-2.0
"""Time that ranks lose in waits, and the ranks that they wait for."""

from dataclasses import dataclass

import numpy as np

from quarry.mpi_report.clock import is_bystander, waiters_of
from quarry.mpi_report.matching import Matches
from quarry.mpi_traces import Flag, MpiTrace, Role


@dataclass
class Waits:
    """Calls that lost time: record, nanoseconds, and the record whose late begin they waited for."""

    record: np.ndarray
    lost: np.ndarray
    cause: np.ndarray


def candidates(
    trace: MpiTrace, matches: Matches, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a call that waits and a record that it has to wait for."""
    waiter = waiters_of(trace)
    records, causes = [matches.probe], [matches.probed_send]
    by_receive = waiter[matches.receive]
    records.append(by_receive)
    causes.append(matches.send)
    by_send = waiter[matches.send]
    waits = trace.has(Flag.SEND_WAITS)[matches.send]
    if trace.device == "gpu":  # another send waits if its receiver has too many messages
        is_late = end[by_send] >= begin[matches.receive]
        waits |= is_late & (trace.records["role"][matches.send] != Role.SEND_PART)
    records.append(by_send[waits])
    causes.append(matches.receive[waits])
    # In a collective operation: the last rank that came before the call ended.
    takes_part = ~is_bystander(trace)[matches.member]
    member, operation = matches.member[takes_part], matches.operation[takes_part]
    order = np.lexsort([begin[member], operation])
    arrived, group = member[order], operation[order]
    by_member = waiter[member]
    known = by_member >= 0
    # the position of the call's end among the begins of its operation
    keys = np.concatenate([begin[arrived], end[by_member[known]]])
    groups = np.concatenate([group, operation[known]])
    is_end = np.arange(len(keys)) >= len(arrived)
    mixed = np.lexsort([is_end, keys, groups])
    begins_before = np.cumsum(~is_end[mixed])
    last = np.empty(int(is_end.sum()), np.int64)
    last[mixed[is_end[mixed]] - len(arrived)] = begins_before[is_end[mixed]] - 1
    if len(last):
        records.append(by_member[known])
        causes.append(arrived[last])
    record, cause = np.concatenate(records), np.concatenate(causes)
    return record[record >= 0], cause[record >= 0]


def waits_of(trace: MpiTrace, matches: Matches, begin: np.ndarray, end: np.ndarray) -> Waits:
    """`begin` and `end` are those of the records. The latest cause of a call counts."""
    record, cause = candidates(trace, matches, begin, end)
    is_other = trace.rank[record] != trace.rank[cause]
    record, cause = record[is_other], cause[is_other]
    lost = np.minimum(begin[cause], end[record]) - begin[record]
    late = lost > 0
    record, cause, lost = record[late], cause[late], lost[late]
    order = np.lexsort([lost, record])
    record, cause, lost = record[order], cause[order], lost[order]
    is_last = np.ones(len(record), bool)
    is_last[:-1] = record[1:] != record[:-1]
    return Waits(record[is_last], lost[is_last], cause[is_last])

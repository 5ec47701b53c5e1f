# SPDX-License-Identifier: Apache-2.0
"""Times of traces from the CPU, as if each rank had a processor: the turns are known by construction."""

import numpy as np
import pytest
from mpi_traces import Program, analysed, losses

from quarry.mpi_report import text_of
from quarry.mpi_traces import NO_PEER, Flag, Role


def taking_turns(times):
    """Ranks that compute for so many microseconds one after another, from MPI_Init on."""
    program = Program(len(times), "cpu")
    for rank in range(len(times)):
        begin = sum(times[:rank])
        program.add(rank, begin, begin, Role.CALL, "MPI_Init", (0, 0))
    return program


def test_ranks_that_take_turns_are_shown_as_if_each_had_a_processor(tmp_path):
    """Two ranks compute 50 and 80 µs one after the other, so the second comes at 130 µs."""
    program = taking_turns([50, 80])
    for rank, begin, own in ((0, 50, 50), (1, 130, 80)):
        program.add(rank, begin, 131, Role.COLLECTIVE, "MPI_Barrier", (own, own))
    content = analysed(program, tmp_path)
    assert content.is_reconstructed
    assert content.duration == 80_000
    assert losses(content) == {(0, "MPI_Barrier", 1): 30}


def test_what_others_do_while_a_rank_is_in_no_call_is_not_its_time(tmp_path):
    """Rank 0 lets rank 1 run between its calls, and in one that waits for nobody."""
    program = taking_turns([0, 0])
    program.add(1, 5, 5, Role.CALL, "MPI_Type_size", (5, 5))
    program.add(0, 10, 90, Role.ALLOCATE, "malloc", (10, 12))
    program.add(0, 300, 301, Role.COLLECTIVE, "MPI_Barrier", (32, 33))
    program.add(1, 280, 301, Role.COLLECTIVE, "MPI_Barrier", (40, 41))
    content = analysed(program, tmp_path)
    assert losses(content) == {(0, "MPI_Barrier", 1): 8}
    malloc = np.flatnonzero(content.trace.records["role"] == Role.ALLOCATE)
    assert (content.end - content.begin)[malloc].tolist() == [2000]


@pytest.mark.parametrize("flags, lost", [(Flag.SEND_WAITS, {(1, "MPI_Send", 0): 70}), (0, {})])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_send_waits_for_its_receive_in_whatever_order_the_ranks_had_their_turns(
    tmp_path, flags, lost, is_first
):
    """Rank 0 computes 80 µs until its receive, and rank 1 10 µs until its send."""
    program = Program(2, "cpu")
    for rank in range(2):
        program.add(rank, 0, 0, Role.CALL, "MPI_Init", (0, 0))
    receive, send = (80, 90) if is_first else (90, 10)
    program.receive(0, receive, 92, peer=1, own=(80, 81))
    program.add(1, send, 93, Role.SEND, "MPI_Send", (10, 11), peer=0, bytes=8, flags=flags)
    content = analysed(program, tmp_path)
    assert losses(content) == lost
    send = int(np.flatnonzero(content.trace.records["role"] == Role.SEND)[0])
    assert content.end[send] == (80_000 if flags else 10_000)


def test_what_a_rank_runs_in_calls_that_may_wait_is_not_its_work(tmp_path):
    program = taking_turns([0, 0])
    program.send(0, 1, 5, peer=1, own=(0, 5))
    program.add(0, 6, 20, Role.SEND_PART, "MPI_Sendrecv", (5, 20), peer=1, bytes=8)
    program.add(0, 7, 21, Role.RECEIVE, "MPI_Sendrecv", (5, 21), peer=1, bytes=8)
    program.add(1, 2, 9, Role.SEND_PART, "MPI_Sendrecv", (0, 9), peer=0, bytes=8)
    program.add(1, 3, 10, Role.RECEIVE, "MPI_Sendrecv", (0, 10), peer=0, bytes=8)
    program.add(1, 11, 12, Role.PROBE, "MPI_Probe", (10, 12), peer=0, bytes=8)
    program.receive(1, 13, 30, peer=0, own=(12, 30))
    assert analysed(program, tmp_path).duration == 0


def test_the_first_half_of_a_sendrecv_waits_for_the_receiver_if_it_is_long(tmp_path):
    """Rank 0 comes at 80 µs, and rank 1 gets its own message at once."""
    for flags, lost in ((Flag.SEND_WAITS, {(1, "MPI_Sendrecv", 0): 80}), (0, {})):
        program = Program(2, "cpu")
        for rank in range(2):
            program.add(rank, 0, 0, Role.CALL, "MPI_Init", (0, 0))
        program.send(1, 0, 0, peer=1, own=(0, 0))
        half = Role.SEND_PART
        program.add(1, 0, 85, half, "MPI_Sendrecv", (0, 1), peer=0, bytes=8, flags=flags)
        program.add(1, 0, 85, Role.RECEIVE, "MPI_Sendrecv", (0, 1), peer=1, bytes=8)
        program.receive(0, 82, 84, peer=1, own=(80, 81))
        content = analysed(program, tmp_path)
        assert losses(content) == lost
        assert content.call_count == 5
        (row,) = [row for row in content.calls if row.function == "MPI_Sendrecv"]
        assert row.calls == 1


def test_what_start_begins_is_counted_and_named_as_the_call_of_start(tmp_path):
    """As above, with a persistent synchronous send."""
    program = Program(2, "cpu")
    for rank in range(2):
        program.add(rank, 0, 0, Role.CALL, "MPI_Init", (0, 0))
    program.receive(0, 80, 92, peer=1, own=(80, 81))
    program.add(1, 90, 90, Role.CALL, "MPI_Start", (10, 10), place=2)
    program.add(
        1, 90, 90, Role.BEGUN_SEND, "MPI_Ssend_init", (10, 10), place=2,
        peer=0, bytes=8, link=4, flags=Flag.SEND_WAITS | Flag.IS_STARTED,
    )  # fmt: skip
    program.add(1, 90, 91, Role.WAIT, "MPI_Wait", (10, 11))
    content = analysed(program, tmp_path)
    assert losses(content) == {(1, "MPI_Wait", 0): 70}
    assert content.call_count == 5
    assert {row.function: row.calls for row in content.calls} == {
        "MPI_Init": 2, "MPI_Recv": 1, "MPI_Start": 1, "MPI_Wait": 1,
    }  # fmt: skip
    late = taking_turns([0, 0])
    late.receive(0, 0, 91, peer=1, own=(0, 1))
    late.add(1, 90, 90, Role.CALL, "MPI_Start", (90, 90), place=2)
    late.add(
        1, 90, 90, Role.BEGUN_SEND, "MPI_Send_init", (90, 90), place=2,
        peer=0, bytes=8, link=4, flags=Flag.IS_STARTED,
    )  # fmt: skip
    late.add(1, 92, 92, Role.WAIT, "MPI_Wait", (91, 91))
    (culprit,) = analysed(late, tmp_path).culprits
    assert (culprit.rank, culprit.function, culprit.place) == (1, "MPI_Start", "a.c:2")


def test_between_two_groups_only_the_other_group_waits_for_the_root(tmp_path):
    """Ranks 0 and 1 are a group, whose rank 0 is the root and comes last."""
    for name in ("MPI_Bcast", "MPI_Ibcast", "MPI_Bcast_c"):
        program = Program(4, "cpu")
        for rank in range(4):
            program.add(rank, 0, 0, Role.CALL, "MPI_Init", (0, 0))
        for rank, peer, own in ((1, NO_PEER, 50), (2, 0, 20), (3, 0, 30), (0, 0, 50)):
            program.add(rank, 100, 110, Role.COLLECTIVE, name, (own, own), peer=peer, bytes=8)
        assert losses(analysed(program, tmp_path)) == {(2, name, 0): 30, (3, name, 0): 20}


def test_a_reduction_between_two_groups_does_not_wait_for_the_others_of_the_roots_group(tmp_path):
    """Rank 0 is the root, rank 1 of its group comes last, and the other group has ranks 2 and 3."""
    for device in ("cpu", "gpu"):
        program = Program(4, device)
        for rank in range(4):
            program.add(rank, 0, 0, Role.CALL, "MPI_Init")
        own_times = ((1, NO_PEER, 70), (2, 0, 20), (3, 0, 30), (0, 0, 10))
        for turn, (rank, peer, own) in enumerate(own_times):  # one after another on the CPU
            begin = own if device == "gpu" else 80 + turn
            end = (own + (25 if rank == 0 else 1)) if device == "gpu" else 90
            program.add(rank, begin, end, Role.COLLECTIVE, "MPI_Reduce", (own, own), peer=peer)
        content = analysed(program, tmp_path)
        assert losses(content) == {(0, "MPI_Reduce", 3): 20}
        assert content.end[1] == (30_000 if device == "cpu" else 35_000)


def test_waits_that_never_ended_are_said(tmp_path):
    program = taking_turns([0, 0])
    program.add(1, 0, None, Role.COLLECTIVE, "MPI_Barrier", (1, 0), place=2)
    program.ended[0] = 75  # without another call
    content = analysed(program, tmp_path)
    assert content.duration == 75_000
    note = "1 of them waited, 74 µs together, which no figure of lost time contains: longest rank 1"
    assert note + " in MPI_Barrier at a.c:2." in text_of(content)


@pytest.mark.parametrize("threads, text", [(1, "one thread"), (3, "3 threads")])
def test_a_report_says_on_how_many_threads_the_ranks_took_turns(tmp_path, threads, text):
    program = taking_turns([1, 1])
    program.threads = threads
    assert f"took turns on {text} of the CPU" in text_of(analysed(program, tmp_path))


def test_a_broadcast_waits_for_its_root_and_a_reduction_only_at_its_root(tmp_path):
    program = Program(3, "cpu")
    for rank in range(3):
        program.add(rank, 0, 0, Role.CALL, "MPI_Init")
    for rank, begin, end in ((1, 10, 41), (2, 100, 101), (0, 40, 40)):
        program.add(rank, begin, end, Role.COLLECTIVE, "MPI_Bcast", peer=0, bytes=8)
    content = analysed(program, tmp_path)
    assert losses(content) == {(1, "MPI_Bcast", 0): 30}
    other = Program(3, "cpu")
    for rank in range(3):
        other.add(rank, 0, 0, Role.CALL, "MPI_Init")
    for rank, begin in ((0, 10), (1, 20), (2, 70)):
        other.add(rank, begin, 71, Role.COLLECTIVE, "MPI_Reduce", peer=0, bytes=8)
    assert losses(analysed(other, tmp_path)) == {(0, "MPI_Reduce", 2): 60}


def test_operations_that_do_not_block_wait_as_those_that_do(tmp_path):
    """Rank 2 comes last to each, and the root 0 before it."""
    for name, lost in (
        ("MPI_Ibarrier", {(0, "MPI_Wait", 2): 60, (1, "MPI_Wait", 2): 50}),
        ("MPI_Ibcast", {(1, "MPI_Wait", 0): 10}),
        ("MPI_Ibcast_c", {(1, "MPI_Wait", 0): 10}),
        ("MPI_Bcast_init", {(1, "MPI_Wait", 0): 10}),
        ("MPI_Ireduce", {(0, "MPI_Wait", 2): 40}),
    ):
        program = Program(3, "cpu")
        persistent = name.endswith("_init")
        for rank, own in ((1, 20), (0, 30), (2, 70)):
            if "barrier" in name:
                own = {0: 10, 1: 20, 2: 70}[rank]
            program.add(rank, 0, 0, Role.CALL, "MPI_Init", (0, 0))
            if persistent:
                program.add(rank, 0, 0, Role.CALL, name, (0, 0), flags=Flag.MAKES_COLLECTIVE)
            peer = NO_PEER if "barrier" in name else 0
            program.add(
                rank, 100, 101, Role.BEGUN_COLLECTIVE, name, (own, own), peer=peer,
                link=4 if persistent else 3, tag=2 if persistent else 0,
                flags=Flag.IS_STARTED if persistent else 0,
            )  # fmt: skip
            program.add(rank, 102, 110, Role.WAIT, "MPI_Wait", (own, own + 5))
        assert losses(analysed(program, tmp_path)) == lost, name


def test_a_probe_ends_when_its_message_is_sent(tmp_path):
    program = taking_turns([0, 0])
    program.send(0, 60, 61, peer=1, own=(60, 61))
    program.add(1, 62, 63, Role.PROBE, "MPI_Probe", (2, 3), peer=0, bytes=8)
    program.receive(1, 64, 65, peer=0, own=(3, 4))
    content = analysed(program, tmp_path)
    assert losses(content) == {(1, "MPI_Probe", 0): 58}
    assert content.duration == 60_000


def test_a_rank_works_until_it_ends(tmp_path):
    """Rank 0 ends long after its last call, and rank 2 makes no call."""
    program = taking_turns([0, 0])
    idle = Program(3, "cpu")
    for rank in range(2):
        idle.add(rank, rank, rank, Role.CALL, "MPI_Init", (0, 0))
    idle.ended = {0: 90, 1: 10, 2: 1000}
    content = analysed(idle, tmp_path)
    assert content.duration == 90_000
    assert content.busy.tolist() == [90_000, 10_000, 0]
    program.ended = {1: 7}
    assert analysed(program, tmp_path).duration == 7_000


def test_on_a_gpu_a_short_send_waits_for_a_receiver_with_too_many_messages(tmp_path):
    """The send ends after the receive has begun, or before."""
    for end, lost in ((70, {(0, "MPI_Send", 1): 50}), (15, {})):
        program = Program(2)
        program.send(0, 10, end, peer=1)
        program.receive(1, 60, 71, peer=0)
        assert losses(analysed(program, tmp_path)) == lost

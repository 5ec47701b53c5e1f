# SPDX-License-Identifier: Apache-2.0
"""Reports of MPI programs: lost time that is known by construction, and messages against a model."""

import json
import random
from collections import Counter, defaultdict, deque

import numpy as np
import pytest
from browser import CHROMIUM, Page
from mpi_traces import Program, analysed, losses
from typer.testing import CliRunner

from quarry.cli import app
from quarry.errors import BadArgument
from quarry.mpi_report import analyse, text_of, write_mpi_report
from quarry.mpi_report.clock import waiters_of
from quarry.mpi_report.matching import match
from quarry.mpi_traces import Flag, Role, is_mpi_trace, read_mpi_trace


def late_barrier(device):
    """Rank 2 comes 90 µs after the others."""
    program = Program(4, device)
    for rank in range(4):
        program.add(rank, 0, 1, Role.CALL, "MPI_Init")
    program.barrier([10, 10, 100, 10], 101)
    return program


def test_the_last_rank_in_a_barrier_made_the_others_wait(tmp_path):
    content = analysed(late_barrier("gpu"), tmp_path)
    assert losses(content) == {(rank, "MPI_Barrier", 2): 90 for rank in (0, 1, 3)}
    assert [(row.rank, row.lost, row.waiters) for row in content.culprits] == [(2, 270_000, 3)]
    assert (content.calls[0].function, content.calls[0].place, content.calls[0].culprit) == (
        "MPI_Barrier", "a.c:2", 2,
    )  # fmt: skip
    assert "rank 2" in text_of(content)


def test_a_receive_before_its_send_waits_for_the_sender_and_a_long_send_for_the_receiver(tmp_path):
    program = Program(3)
    program.send(0, 50, 51, peer=1)
    program.receive(1, 20, 52, peer=0)
    program.send(0, 60, 91, peer=2, size=1 << 20)
    program.receive(2, 90, 91, peer=0, size=1 << 20)
    program.send(1, 60, 61, peer=2)  # an early and short send: nobody waits
    program.receive(2, 95, 96, peer=1)
    assert losses(analysed(program, tmp_path)) == {
        (1, "MPI_Recv", 0): 30,
        (0, "MPI_Send", 2): 30,
    }


def test_a_wait_for_what_was_begun_waits_for_the_last_of_it(tmp_path):
    program = Program(3)
    for peer, begin in ((1, 40), (2, 70)):
        program.send(peer, begin, begin + 1, peer=0)
    for peer in (1, 2):
        program.add(0, peer, peer, Role.BEGUN_RECEIVE, "MPI_Irecv", peer=peer, bytes=8, link=3)
    program.add(0, 10, 71, Role.WAIT, "MPI_Waitall")
    assert losses(analysed(program, tmp_path)) == {(0, "MPI_Waitall", 2): 60}


def test_a_wait_for_a_begun_barrier_and_a_probe_know_whom_they_wait_for(tmp_path):
    program = Program(2)
    program.add(0, 0, 1, Role.BEGUN_COLLECTIVE, "MPI_Ibarrier", link=2)
    program.add(0, 2, 31, Role.WAIT, "MPI_Wait")
    program.add(1, 30, 31, Role.BEGUN_COLLECTIVE, "MPI_Ibarrier", link=2)
    program.add(1, 31, 32, Role.WAIT, "MPI_Wait")
    program.add(0, 40, 61, Role.PROBE, "MPI_Probe", peer=1, bytes=8)
    program.receive(0, 62, 63, peer=1)
    program.send(1, 60, 61, peer=0)
    assert losses(analysed(program, tmp_path)) == {
        (0, "MPI_Wait", 1): 28,
        (0, "MPI_Probe", 1): 20,
    }


def test_persistent_operations_may_start_in_any_order(tmp_path):
    """Each rank makes two, starts both twice, and is late at one of them."""
    program = Program(2)
    for rank in range(2):
        if rank == 0:  # of a communicator without rank 1
            program.add(
                rank, 0, 1, Role.CALL, "MPI_Barrier_init",
                communicator=4, flags=Flag.MAKES_COLLECTIVE,
            )  # fmt: skip
        else:
            program.add(rank, 0, 1, Role.CALL, "MPI_Send_init")
        for number in range(2):
            program.add(
                rank, 1 + number, 2 + number, Role.CALL, "MPI_Barrier_init",
                flags=Flag.MAKES_COLLECTIVE,
            )  # fmt: skip
    for begin in (10, 110):
        for rank, (first, second) in enumerate(((2, 3), (3, 2))):
            late = begin + 50 * (rank == 1)
            for maker, at in ((first, begin), (second, late)):
                number = program.add(rank, at, at, Role.CALL, "MPI_Start")
                program.add(
                    rank, at, at, Role.BEGUN_COLLECTIVE, "MPI_Barrier_init",
                    tag=maker, flags=Flag.IS_STARTED, link=number + 2,
                )  # fmt: skip
                program.add(rank, at, begin + 51, Role.WAIT, f"MPI_Wait{maker}")
    content = analysed(program, tmp_path)
    assert len(set(content.matches.operation.tolist())) == 4
    assert losses(content) == {(0, "MPI_Wait2", 1): 50}


def test_starts_whose_requests_are_not_in_the_trace_belong_to_no_operation(tmp_path):
    program = Program(2)
    for rank, maker in ((0, 0), (1, 99)):
        program.add(rank, 0, 1, Role.CALL, "MPI_Start")
        program.add(
            rank, 0, 0, Role.BEGUN_COLLECTIVE, "MPI_Barrier_init", tag=maker, flags=Flag.IS_STARTED
        )
        program.add(rank, 5 * rank, 9, Role.COLLECTIVE, "MPI_Barrier")
    content = analysed(program, tmp_path)
    assert content.matches.operation.tolist() == [0, 0]
    assert losses(content) == {(0, "MPI_Barrier", 1): 5}


def test_the_last_record_after_a_gap_belongs_to_no_other_call(tmp_path):
    program = Program(2, limit=2)
    for rank, role, function, flags in (
        (0, Role.COLLECTIVE, "MPI_Barrier_init", Flag.IS_STARTED),
        (1, Role.RECEIVE, "MPI_Finalize", 0),
    ):
        program.add(rank, 0, 1, Role.CALL, "MPI_Init")
        program.add(rank, 1, 2, Role.SEND_PART, "MPI_Sendrecv", peer=1 - rank, bytes=8)
        program.add(rank, 50, 60, role, function, flags=flags)
    trace = read_mpi_trace(program.write(tmp_path / "program.trace", missing=1))
    assert trace.call.tolist() == list(range(6))
    assert waiters_of(trace).tolist() == [0, -1, 2, 3, -1, 5]
    assert trace.is_after_gap.tolist() == [False, False, True] * 2
    whole = read_mpi_trace(program.write(tmp_path / "program.trace"))  # one more than the limit
    assert not whole.is_after_gap.any()
    assert "did not fit" not in text_of(analyse(whole))


def test_only_allocations_that_exist_and_are_freed_count(tmp_path):
    program = Program(1)
    program.add(0, 0, 1, Role.ALLOCATE, "malloc", bytes=1 << 60, peer=0)  # refused
    program.add(0, 1, 2, Role.ALLOCATE, "malloc", bytes=100, peer=64)
    program.add(0, 2, 3, Role.ALLOCATE, "realloc", bytes=200, peer=128, flags=Flag.FREES_OLD)
    program.add(0, 3, 4, Role.FREE, "free", peer=128)
    program.add(0, 4, 5, Role.FREE, "free", peer=0)  # a null pointer
    memory = analysed(program, tmp_path).memory
    assert (memory.allocations, memory.bytes, memory.freed) == (2, 300, 2)


def random_messages(seed):
    """A program of random messages, and the pairs that MPI's order of messages gives."""
    generator = random.Random(seed)
    program, channels, wanted = Program(6), defaultdict(deque), []
    for time in range(600):
        rank = generator.randrange(6)
        if generator.random() < 0.5:
            peer, tag, communicator = (
                generator.randrange(6),
                generator.randrange(2),
                generator.choice((0, 4)),
            )
            number = program.send(rank, time, time + 1, peer, tag, generator.randrange(99), communicator)
            channels[rank, peer, tag, communicator].append(number)
        else:
            known = [key for key in channels if key[1] == rank and channels[key]]
            if not known:
                continue
            source, _, tag, communicator = key = generator.choice(sorted(known))
            number = program.receive(rank, time, time + 1, source, tag, 8, communicator)
            wanted.append((source, channels[key].popleft(), rank, number))
    return program, sorted(wanted)


@pytest.mark.parametrize("seed", range(20))
def test_messages_match_in_the_order_of_their_channel(tmp_path, seed):
    program, wanted = random_messages(seed)
    trace = read_mpi_trace(program.write(tmp_path / "program.trace"))
    found = match(trace)
    number = np.arange(len(trace.records)) - trace.first[trace.rank] + 1
    pairs = [
        (int(trace.rank[send]), int(number[send]), int(trace.rank[receive]), int(number[receive]))
        for send, receive in zip(found.send, found.receive, strict=True)
    ]
    assert sorted(pairs) == wanted, f"seed {seed}"


def test_the_matrix_has_all_messages_of_each_pair(tmp_path):
    program, _ = random_messages(77)
    content = analysed(program, tmp_path)
    messages, size = Counter(), Counter()
    for rank, rows in enumerate(program.calls):
        for row in rows:
            if row["role"] == Role.SEND:
                messages[rank, int(row["peer"])] += 1
                size[rank, int(row["peer"])] += int(row["bytes"])
    for source in range(6):
        for target in range(6):
            assert content.matrix.messages[source, target] == messages[source, target]
            assert content.matrix.bytes[source, target] == size[source, target]


def test_a_matrix_of_many_ranks_has_bins_and_loses_no_message(tmp_path):
    program = Program(1000)
    for rank in range(1000):
        program.send(rank, 0, 1, (rank + 1) % 1000, size=3)
    matrix = analysed(program, tmp_path).matrix
    assert (matrix.ranks_per_bin, matrix.messages.shape) == (4, (250, 250))
    assert (matrix.messages.sum(), matrix.bytes.sum()) == (1000, 3000)


def test_messages_between_gpus_are_counted(tmp_path):
    program = Program(5, gpu_ranks=[0, 2, 4])
    for source, target, size in (0, 1, 1), (1, 2, 10), (3, 2, 100), (4, 0, 1000), (3, 4, 10_000):
        program.send(source, 10, 11, peer=target, size=size)
        program.receive(target, 10, 12, peer=source, size=size)
    content = analysed(program, tmp_path)
    assert (content.between_gpus.messages, content.between_gpus.bytes) == (3, 11_010)
    assert "Messages between GPUs  3  (10.8 KiB; 60.0 % of all messages)" in text_of(content)
    assert "on 3 GPUs" in text_of(content)


@pytest.mark.parametrize(
    ("clock_error", "note"),
    [(None, "Each GPU has its own clock"), (0, "by at most 0"), (1800, "by at most 1.8")],
)
def test_the_error_of_the_clocks_of_gpus_is_said(tmp_path, clock_error, note):
    program = Program(2, gpu_ranks=[0, 1], clock_error=clock_error)
    program.send(0, 10, 11, peer=1)
    assert note in text_of(analysed(program, tmp_path))


@pytest.mark.parametrize("clock_error", [-1, "much", 1.5])
def test_a_damaged_error_of_the_clocks_is_refused(tmp_path, clock_error):
    program = Program(2, gpu_ranks=[0, 1], clock_error=clock_error)
    with pytest.raises(BadArgument, match="head is damaged"):
        read_mpi_trace(program.write(tmp_path / "a.trace"))


@pytest.mark.parametrize("gpu_ranks", [None, [0]])
def test_messages_of_one_gpu_cross_nothing(tmp_path, gpu_ranks):
    program = Program(2, gpu_ranks=gpu_ranks)
    program.send(0, 10, 11, peer=1)
    program.receive(1, 10, 12, peer=0)
    content = analysed(program, tmp_path)
    assert content.between_gpus.messages == 0
    assert "between GPUs" not in text_of(content)


def test_calls_that_did_not_fit_are_counted_and_said(tmp_path):
    program = late_barrier("gpu")
    program.limit = 1
    content = analysed(program, tmp_path, missing=5)
    assert content.trace.missing == 20
    assert content.trace.is_after_gap.tolist() == [False, True] * 4
    assert not len(content.waits.record)  # the order of the barriers is not known
    assert "20 later calls of 4 ranks did not fit" in text_of(content)


def test_calls_that_have_not_returned_last_to_the_end(tmp_path):
    program = late_barrier("gpu")
    program.receive(0, 110, None, peer=1)
    content = analysed(program, tmp_path)
    assert content.duration == 110_000
    assert "1 call had not returned" in text_of(content)


def test_a_program_without_calls_has_a_page(tmp_path):
    path = Program(3).write(tmp_path / "program.trace")
    assert not len(write_mpi_report(path, tmp_path / "page.html").trace.records)


@pytest.mark.parametrize("cut", [3, 25, 60, 400, -1])
def test_damaged_traces_are_refused(tmp_path, cut):
    path = late_barrier("gpu").write(tmp_path / "program.trace")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(BadArgument, match=r"program\.trace: "):
        read_mpi_trace(path)
    assert is_mpi_trace(path) == (cut not in (3,))


def test_the_trace_of_a_crashed_program_is_refused(tmp_path):
    (tmp_path / "program.trace").write_bytes(b"QUARRY MPI TRACE 0\n")
    with pytest.raises(BadArgument, match="crashed"):
        read_mpi_trace(tmp_path / "program.trace")


def report(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_quarry_report_knows_the_trace_by_its_first_bytes(tmp_path):
    path = late_barrier("gpu").write(tmp_path / "any.name")
    done = report(path, "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "rank 2" in done.output and (tmp_path / "page.html").exists()
    values = json.loads(report(path, "-o", tmp_path / "page.html", "--json").stdout)
    assert (values["ranks"], values["lost_ns"], values["culprits"][0]["rank"]) == (4, 270_000, 2)


@pytest.mark.parametrize("words", [["--capacity", "3MiB"], ["--by-event"], ["OTHER"]])
def test_quarry_report_refuses_what_concerns_allocators(tmp_path, words):
    path = late_barrier("gpu").write(tmp_path / "program.trace")
    words = [path if word == "OTHER" else word for word in words]
    done = report(path, *words, "-o", tmp_path / "page.html")
    assert done.exit_code == 2
    assert not (tmp_path / "page.html").exists()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("ranks", [4, 300])
def test_the_page_draws_bars_or_bins(tmp_path, ranks):
    program = Program(ranks)
    for rank in range(ranks):
        program.send(rank, rank, rank + 1, (rank + 1) % ranks)
        program.receive(rank, 2, 9 + rank, (rank - 1) % ranks)
    write_mpi_report(program.write(tmp_path / "program.trace"), tmp_path / "page.html")
    with Page((tmp_path / "page.html").as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        assert page.problems == []
        assert page.run("byId('ranks').data[0].type") == ("bar" if ranks == 4 else "heatmap")
        assert page.run("byId('matrix').data[0].type") == "heatmap"
        page.run("byId('by-messages').click()")
        assert page.run("byId('culprits').rows.length") > 1
        assert page.problems == []

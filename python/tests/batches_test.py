# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import quarry


@pytest.mark.parametrize("events", [1, 999, 4000, 1 << 20])
def test_batches_together_are_the_trace(trace, trace_file, events):
    if events == 1:
        trace = quarry.Trace(trace.events[:50], call_sites=trace.call_sites)
        trace_file = trace_file.with_suffix(".short")
        trace.write(trace_file)
    batches = list(quarry.read_batches(trace_file, events))
    assert [len(batch) for batch in batches[:-1]] == [events] * (len(batches) - 1)
    assert 0 < len(batches[-1]) <= events
    assert np.array_equal(np.concatenate([batch.events for batch in batches]), trace.events)
    for batch in batches:
        assert (batch.path, batch.format) == (str(trace_file), "quarry")
        assert [batch.call_sites[i] for i in batch.call_site] == [
            trace.call_sites[i] for i in batch.call_site
        ]


def test_names_keep_their_numbers_while_the_tables_grow(tmp_path):
    rows = [f"{thread},10:21:33.5,allocate,0x{thread}0,64,0x{thread}" for thread in range(1, 9)]
    log = tmp_path / "log.csv"
    log.write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(rows) + "\nbad row\n")
    batches = quarry.read_batches(log, 3)
    read = list(batches)
    assert [len(batch.threads) for batch in read] == sorted(len(batch.threads) for batch in read)
    names = [batch.threads[i] for batch in read for i in batch.thread]
    assert names == [str(thread) for thread in range(1, 9)]
    assert batches.problem_count == 1 and "fewer than 6 columns" in batches.problems[0]
    assert batches.format == "rmm"


def test_a_file_is_a_stream_of_arrow(trace, trace_file):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    batches = quarry.read_batches(trace_file, 1000)
    first = next(batches)
    with arrow.RecordBatchReader.from_stream(batches) as stream:
        sizes = [batch.num_rows for batch in stream]
    assert len(first) == 1000 and sizes == [1000, 1000, 1000]
    table = arrow.table(quarry.read_batches(trace_file, 1000))
    assert np.array_equal(quarry.make_trace(table).events, trace.events)


def test_a_damaged_file_fails_in_the_stream_with_its_message(trace, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    path = tmp_path / "other"
    path.write_text("hello\n")
    with pytest.raises((arrow.ArrowInvalid, quarry.BadTrace), match="other"):
        arrow.table(quarry.read_batches(path))


def test_progress_counts_and_an_exception_ends_the_reading(trace_file):
    counts = []
    batches = quarry.read_batches(trace_file, 1500, progress=counts.append)
    assert len(list(batches)) == 3
    assert counts == [1500, 3000, 4000]

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(quarry.read_batches(trace_file, progress=stop))


def test_bad_arguments_and_files_are_refused(trace_file, tmp_path):
    with pytest.raises(quarry.BadArgument, match="events is 0"):
        quarry.read_batches(trace_file, 0)
    with pytest.raises(quarry.ResourceFailed, match="missing"):
        quarry.read_batches(tmp_path / "missing")

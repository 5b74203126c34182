"""Steps of a bucket's log: what is written is read, and damage is found."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from windlass import Operator, Query, Tumbling, agg, errors
from windlass.formats.container import MAGIC, open_container, seal_container
from windlass.spark import job, state
from windlass.spark.buckets import labels


@pytest.mark.parametrize("blocks", [[], [b"a"], [b"", b"abc", b"x" * 1000]])
@pytest.mark.parametrize("watermark", [None, 0, -5, 10**15])
def test_a_step_is_read_as_it_was_written(blocks: list[bytes], watermark: int | None) -> None:
    assert state.decode_step(state.encode_step(blocks, watermark)) == (blocks, watermark)


def test_damage_is_found() -> None:
    written = state.encode_step([b"abc", b"def"], 7)
    for i in range(len(MAGIC), len(written), 3):
        damaged = written[:i] + bytes([written[i] ^ 1]) + written[i + 1 :]
        with pytest.raises(errors.CorruptSnapshot, match="damaged"):
            state.decode_step(damaged)
    for length in range(len(written)):
        with pytest.raises(errors.CorruptSnapshot):
            state.decode_step(written[:length])
    with pytest.raises(errors.CorruptSnapshot, match="not written by Windlass"):
        state.decode_step(b"something else that is long enough to be a step")


def test_steps_of_other_versions_and_shapes_are_refused() -> None:
    _, version, _, content, parts = open_container(state.encode_step([b"abc", b"def"], 7))

    def refused(message: str, version: int = version, parts: list[Any] = parts, **changes: Any) -> None:
        with pytest.raises(errors.CorruptSnapshot, match=message):
            state.decode_step(seal_container("spark-step", version, content | changes, parts))

    refused("version 99, which Windlass .* wrote; this is Windlass", version=99)
    refused("version 4", version=4)
    refused("unknown field 'colour'", colour=1)
    refused("too many", parts=[*parts, b""])
    refused("not there", parts=parts[:1])
    refused("has 3 bytes, expected 4", blocks=[4, 3])
    refused("expected an integer", watermark=True)
    refused("expected integer", watermark=2**63)


def test_a_head_is_read_as_it_was_written() -> None:
    head = state.Head(b"t" * 16, b"b" * 16, "{}", 7, 8, 9, 10)
    assert state.head_of(head.row(), 3) == head
    row = head.row()
    with pytest.raises(errors.CorruptSnapshot, match="of bucket 3 are damaged"):
        state.head_of((*row[:-1], row[-1][:-20] + b"?" + row[-1][-19:]), 3)
    with pytest.raises(errors.CorruptSnapshot, match=r"Windlass 0\.1: its state is of version 4, this is Windlass"):
        state.head_of((4, *row[1:]), 3)
    newer = seal_container("spark-head", 6, {}, [])
    with pytest.raises(errors.CorruptSnapshot, match=r"version 6, which Windlass .* wrote; this is Windlass"):
        state.head_of((6, *row[1:-1], newer), 3)


def test_a_job_is_for_executors_of_the_drivers_version(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("x", pa.int64())])
    query = Query("sum", Tumbling("10s"), agg.sum("x"))
    made = job.Job((query,), schema, "ts", (), None, 0, None, "slices", 1)
    sent = pickle.dumps(made)
    assert pickle.loads(sent) == made
    monkeypatch.setattr(job, "__version__", "0.9")
    with pytest.raises(errors.InvalidArgument, match=r"the driver runs Windlass .*, this executor 0\.9"):
        pickle.loads(sent)


def test_a_token_tells_of_everything_that_happened() -> None:
    a, b = state.encode_step([b"a"], 1), state.encode_step([b"b"], 1)
    start = state.first_token("job")
    tokens = {
        start,
        state.first_token("other job"),
        state.token_after(start, a),
        state.token_after(start, b),
        state.token_after(state.token_after(start, a), b),
        state.token_after(state.token_after(start, b), a),
    }
    assert len(tokens) == 6


def test_an_operator_is_kept_for_its_token_only() -> None:
    kept = state.Kept()
    operator = object()
    kept.put(3, b"token", operator)  # type: ignore[arg-type]
    assert kept.take(3, b"another") is None
    assert kept.take(3, b"token") is None  # whoever asks with another token has gone on without it
    kept.put(3, b"token", operator)  # type: ignore[arg-type]
    assert kept.take(3, b"token") is operator
    for bucket in range(1000):  # of streams that have ended, say
        kept.put(("another", bucket), b"token", operator)  # type: ignore[arg-type]
    assert [kept.take(("another", bucket), b"token") is operator for bucket in (0, 999)] == [False, True]


def test_labels_differ_and_are_few() -> None:
    for buckets in (1, 2, 7, 16, 200):
        assert len(set(labels(buckets))) == buckets
        assert max(labels(buckets)) < 20 * buckets + 20


def test_a_state_is_whole_or_refused() -> None:
    """Steps that are missing, there twice, in another order or after another snapshot."""
    first = state.first_token("job")
    snapshot, *steps = (state.encode_step([text], 1) for text in (b"snapshot", b"a", b"b", b"c"))
    token = state.token_after(first, snapshot)
    for step in steps:
        token = state.token_after(token, step)
    state.check_whole(first, snapshot, steps, token)
    a, b, c = steps
    for log in ([a, b], [a, b, c, c], [a, c, b], []):
        with pytest.raises(errors.CorruptSnapshot, match="missing or there twice"):
            state.check_whole(first, snapshot, log, token)
    for other in (None, a):
        with pytest.raises(errors.CorruptSnapshot):
            state.check_whole(first, other, steps, token)


def test_what_one_worker_leaves_another_takes(tmp_path) -> None:
    """By token, once; and what is damaged on the shelf is as if it was not there."""
    query = Query("sum", Tumbling(10), agg.sum("x"))

    def again(snapshot: bytes) -> Operator:
        return Operator(query, time="ts").restore(snapshot)

    before = Operator(query, time="ts")
    before.process({"ts": [1, 12, 25], "x": [1, 2, 3]})
    left = before.snapshot()
    one, other = (state.Kept(lambda: tmp_path / "shelf") for _ in range(2))
    one.put("bucket", b"token", again(left), left)
    assert other.take("bucket", b"another", again) is None
    found = other.take("bucket", b"token", again)
    assert found is not None and found.finish()["sum"]["sum(x)"].to_pylist() == [1, 2, 3]
    assert other.take("bucket", b"token", again) is None
    assert one.take("bucket", b"token", again) is not None  # it has its own still

    for damaged in (left[:-1], left[:100] + b"?" + left[101:], b"short", b""):
        one.put("bucket", b"token", again(left), damaged)
        assert other.take("bucket", b"token", again) is None
        assert not list((tmp_path / "shelf").iterdir())


def test_a_shelf_that_cannot_be_written_is_done_without(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    kept = state.Kept(lambda: tmp_path / "file" / "shelf")
    operator = Operator(Query("sum", Tumbling(10), agg.sum("x")), time="ts")
    kept.put("bucket", b"token", operator, b"snapshot")
    assert kept.take("bucket", b"token") is operator

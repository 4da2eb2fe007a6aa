"""Functions of the user's own, in the loader's threads."""

from __future__ import annotations

import json
import pickle
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import Map, Numbers

Make = Callable[..., ringfeed.Loader]


def halve(sample: dict[str, np.ndarray]) -> None:
    sample["x"] /= 2


def test_a_function_changes_arrays_where_they_are(numbers: Make) -> None:
    loader = numbers(transform=halve)
    for batch in loader:
        np.testing.assert_array_equal(batch["x"].numpy()[:, 0], batch["y"].numpy() / 2)
    replaced = numbers(transform=[halve, lambda sample: {"x": sample["x"] + 1, "y": -sample["y"]}])
    batch = next(iter(replaced))
    np.testing.assert_array_equal(batch["x"].numpy()[:, 0], np.arange(10) / 2 + 1)
    np.testing.assert_array_equal(batch["y"].numpy(), -np.arange(10))


def is_wanted(row: dict[str, Any]) -> bool:
    return row["kind"] == "cat" and row["n"] is not None and int(row["n"]) % 3 == 1


def test_a_function_chooses_samples_by_their_fields(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"n": n if n != 4 else None, "kind": "cat" if n % 2 == 0 else "dog", "x": n / 4} for n in range(30)]
    path.write_text("\n".join(map(json.dumps, rows)))

    def open_rows() -> ringfeed.Loader:
        return ringfeed.open(path, fields={"x": ringfeed.Numbers()}, batch_size=4)

    def ids(loader: ringfeed.Loader) -> list[int]:
        return [sample for batch in loader for sample in batch.sample_ids]

    chosen = open_rows().filter_by(["n", "kind"], is_wanted)
    assert chosen.plan()["samples"] == 4 and ids(chosen) == [10, 16, 22, 28]
    assert ids(pickle.loads(pickle.dumps(chosen))) == [10, 16, 22, 28]
    both = open_rows().filter_by(["n", "kind"], is_wanted).filter_by("x", lambda row: float(row["x"]) > 4)
    assert ids(both) == [22, 28]
    seen: list[Any] = []
    assert ids(open_rows().filter_by(["n", "x", "kind"], lambda row: seen.append(tuple(row.values())))) == []
    assert seen == [(None if row["n"] is None else str(row["n"]), str(row["x"]), row["kind"]) for row in rows]
    with pytest.raises(ringfeed.DataError, match="record 0.*raised TypeError") as caught:
        list(open_rows().filter_by("n", lambda row: row["n"] > 3))
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(ringfeed.Error, match='did you mean "kind"'):
        list(open_rows().filter_by("kin", is_wanted))
    with pytest.raises(RuntimeError, match="open already"):
        chosen.filter_by("n", is_wanted)
    with pytest.raises(TypeError):
        open_rows().filter_by("n", "n > 3")  # type: ignore[arg-type]


def test_a_function_chooses_by_values_of_the_records_type() -> None:
    rows = [1, 1.0, True, False, 2**63, 2**64 - 1, -(2**63), (1 << 53) + 1, 0.5, -0.0, None]
    loader = ringfeed.from_reader([{"v": row, "n": n} for n, row in enumerate(rows)], fields={"n": ringfeed.Numbers()})
    seen: list[Any] = []
    assert len(list(loader.filter_by("v", lambda row: seen.append(row["v"]) or True))) == 1
    assert [(type(value), value, str(value)) for value in seen] == [(type(row), row, str(row)) for row in rows]


def test_a_function_gives_a_tensor(numbers: Make) -> None:
    loader = numbers().map("z", lambda sample: sample["x"].sum() + 0.5, shape=())
    loader.map("outer", lambda s: np.outer(s["x"], [1, 2, 3]), shape=(2, 3), dtype="f64", role="label").remove("x")
    loader.map("y", lambda sample: sample["y"] + 100)
    batch = next(iter(loader))
    assert list(batch) == ["y", "z", "outer"] and batch["outer"].role == "label"
    np.testing.assert_array_equal(batch["z"].numpy(), np.full(10, 0.5, np.float32))
    np.testing.assert_array_equal(batch["y"].numpy(), np.arange(100, 110))
    np.testing.assert_array_equal(batch["outer"].numpy()[3], np.outer([3, -3], [1, 2, 3]))
    assert loader.tensors[2]["shape"] == [2, 3] and loader.plan()["tensors"][1]["name"] == "z"


def noise(sample: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, Any]:
    return {"x": sample["x"] + rng.standard_normal(2, dtype=np.float32)}


def drawn(loader: ringfeed.Loader) -> dict[int, bytes]:
    rows = {}
    for batch in loader:
        for sample, row in zip(batch.sample_ids, batch["x"].numpy()):
            rows[sample] = row.tobytes()
    return rows


def test_randomness_is_that_of_the_sample(numbers: Make) -> None:
    one = numbers(shuffle=1, transform=noise, workers=1)
    first, second = drawn(one), drawn(one)
    assert len(set(first.values())) == 100 and all(first[sample] != second[sample] for sample in first)
    many = numbers(shuffle=1, transform=noise, workers=4, prefetch=4, batch_size=7)
    assert drawn(many) == first and drawn(many) == second
    assert drawn(numbers(shuffle=1, transform=noise, shield=True)) == first
    parts = [drawn(numbers(shuffle=1, transform=noise, shard=(rank, 4))) for rank in range(4)]
    assert {sample: row for part in parts for sample, row in part.items()} == first
    assert drawn(numbers(shuffle=2, transform=noise)) != first
    resumed = numbers(shuffle=1, transform=noise)
    resumed.set_epoch(1)
    assert drawn(resumed) == second
    two = drawn(numbers(shuffle=1, transform=[noise, noise]))
    assert all(two[sample] != first[sample] for sample in first), "each function draws its own numbers"


def test_functions_run_a_job_at_a_time_in_the_workers(numbers: Make) -> None:
    def threads_of(**settings: Any) -> set[int]:
        # A loader may have begun its next epoch when another one is at work.
        threads: set[int] = set()

        def spy(sample: dict[str, np.ndarray]) -> None:
            threads.add(threading.get_ident())

        for _ in numbers(transform=spy, **settings):
            pass
        return threads

    threads = threads_of()
    assert threading.get_ident() not in threads and 1 <= len(threads) <= 2
    assert threads_of(shield=True) == {threading.get_ident()}, "under the trainer's own call, where breakpoints work"


def test_what_a_function_keeps_for_its_thread_lasts_as_long_as_the_thread(numbers: Make) -> None:
    class Connection:
        pass

    kept, opened = threading.local(), []

    def connects_once(sample: dict[str, np.ndarray]) -> None:
        if not hasattr(kept, "connection"):
            kept.connection = Connection()
            opened.append((threading.get_ident(), weakref.ref(kept.connection)))

    loader = numbers(transform=connects_once, workers=2)
    for _ in range(3):
        assert sum(batch.size for batch in loader) == 100
    assert 1 <= len(opened) == len({thread for thread, _ in opened}) <= 2
    assert all(connection() for _, connection in opened)
    loader.close()
    # A thread ends a moment after its loader.
    deadline = time.monotonic() + 60
    while any(connection() for _, connection in opened) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(connection() for _, connection in opened)


def test_functions_that_let_go_of_the_lock_run_side_by_side(numbers: Make) -> None:
    both, inside = threading.Barrier(2), threading.local()

    def waits_for_another(sample: dict[str, np.ndarray]) -> None:
        if not hasattr(inside, "was"):
            inside.was = True
            both.wait(120)

    assert sum(batch.size for batch in numbers(transform=waits_for_another, workers=2)) == 100


def fails_at_23(sample: dict[str, np.ndarray]) -> None:
    if sample["y"] == 23:
        raise ZeroDivisionError("of 23")


def test_an_exception_is_that_of_its_sample(numbers: Make) -> None:
    loader = numbers(transform=fails_at_23)
    seen = []
    with pytest.raises(ringfeed.DataError, match="raised ZeroDivisionError: of 23") as raised:
        for batch in loader:
            seen.append(batch.index)
    assert seen == [0, 1] and raised.value.record == 23 and raised.value.path.endswith("x100.npy")
    cause = raised.value.__cause__
    assert isinstance(cause, ZeroDivisionError)
    assert "fails_at_23" in "".join(traceback.format_tb(cause.__traceback__))
    skipping = numbers(transform=fails_at_23, bad_records="skip")
    assert sum(batch.size for batch in skipping) == 99 and skipping.stats()["skipped"] == 1
    assert "of 23" in str(skipping.bad_records())
    report = numbers(transform=fails_at_23).verify()
    assert report["bad_samples"] == 1 and report["bad"][0].record == 23


@pytest.mark.parametrize(
    ("dtype", "kind", "good", "bad"),
    [
        ("i8", "int64", [-128, 127], [300, -129]),
        ("i8", "uint8", [0, 127], [128]),
        ("u8", "uint16", [0, 255], [256]),
        ("i64", "uint64", [0, 2**63 - 1], [2**63, 2**64 - 1]),
        ("i32", ">i8", [-(2**31), 2**31 - 1], [2**31]),
        ("f16", "float64", [65519.0, -65519.0, np.inf, -np.inf], [1e10, -65520.0]),
        ("f16", "int64", [65519, -65519], [70000]),
        ("f32", "float64", [3.4e38, np.inf], [3.5e38, -1e300]),
        ("bf16", "float64", [3.38e38, -np.inf], [-3.4e38]),
    ],
)
def test_a_number_that_the_type_does_not_reach_is_a_bad_record(
    numbers: Make, dtype: str, kind: str, good: list[Any], bad: list[Any]
) -> None:
    if dtype == "bf16":
        pytest.importorskip("ml_dtypes")

    def of(value: Any) -> Callable[..., Any]:
        return lambda sample: np.array([0, value], kind)

    for value in good:
        batch = next(iter(numbers().map("z", of(value), shape=(2,), dtype=dtype)))
        expected = np.array(value, kind)
        assert float(batch["z"].numpy()[9][1]) == float(expected.astype(batch["z"].numpy().dtype)), value
    for value in bad:
        with pytest.raises(ringfeed.DataError, match="OverflowError: z: .* is beyond what") as raised:
            next(iter(numbers().map("z", of(value), shape=(2,), dtype=dtype)))
        assert isinstance(raised.value.__cause__, OverflowError), value
    nothing = numbers().map("z", lambda sample: np.zeros((0,), kind), shape=(0,), dtype=dtype)
    assert next(iter(nothing))["z"].shape == (10, 0)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda s: {"x": s["x"][:1]}, r"x: expected an array of shape \[2\], found \[1\]"),
        (lambda s: {"y": s["x"][0]}, "y: expected int64, found float32"),
        (lambda s: {"z": s["x"]}, "no tensor 'z'"),
        (lambda s: s.update(z=s["x"]), "no tensor 'z'"),
        (lambda s: s.update(z=s["x"]) or s, "no tensor 'z'"),
        (lambda s: s["z"], "KeyError"),
        (lambda s: [], "expected a dict of arrays by name, or None, found list"),
        (lambda s: s["x"][:0], "expected a dict of arrays by name, or None, found ndarray"),
    ],
)
def test_what_does_not_fit_is_a_bad_record(numbers: Make, fn: Callable[..., Any], says: str) -> None:
    with pytest.raises(ringfeed.DataError, match=says):
        next(iter(numbers(transform=fn)))


def test_wrong_functions_are_refused_at_once(numbers: Make) -> None:
    with pytest.raises(TypeError, match="function of a sample"):
        numbers(transform=[3])
    with pytest.raises(ringfeed.ConfigError, match="no element type"):
        numbers(transform=Map("z", halve, shape=(), dtype="f31"))
    with pytest.raises(ringfeed.NotFoundError, match='did you mean "x"'):
        len(numbers().map("xx", lambda s: 1))
    with pytest.raises(ringfeed.NotFoundError, match="a new tensor needs its `shape`"):
        len(numbers().map("sum", lambda s: s["x"].sum()))
    loader = numbers()
    len(loader)
    with pytest.raises(RuntimeError, match="open already"):
        loader.map("z", halve, shape=())


def test_a_function_may_keep_its_arrays(numbers: Make) -> None:
    """They are its own: the loader's memory goes on without them."""
    kept: list[np.ndarray] = []
    for batch in numbers(1000, transform=lambda s: kept.append(s["x"])):
        pass
    assert {int(array[0]) for array in kept} == set(range(1000))


def test_bf16_arrays_need_ml_dtypes(tmp_path) -> None:
    pytest.importorskip("ml_dtypes")
    np.save(tmp_path / "x.npy", np.arange(4, dtype=np.float32))
    source = {"format": "npy", "path": tmp_path / "x.npy", "fields": {"x": "bf16"}}
    loader = ringfeed.Loader(sources=[source], transform=lambda s: {"x": s["x"] * 2})
    assert next(iter(loader))["x"].numpy().astype(np.float32).tolist() == [0, 2, 4, 6]


def test_a_loader_with_functions_pickles(numbers: Make) -> None:
    loader = numbers(shuffle=1, transform=noise)
    copy = pickle.loads(pickle.dumps(loader))
    assert drawn(copy) == drawn(loader)


def test_an_image_goes_through_a_function() -> None:
    fields = {"image": ringfeed.Image(16, 16, dtype="u8", order="nhwc")}
    plain = next(iter(ringfeed.open(FIXTURES / "photos", fields=fields)))["image"].numpy()
    turned = ringfeed.open(FIXTURES / "photos", fields=fields, transform=lambda s: {"image": s["image"][::-1]})
    np.testing.assert_array_equal(next(iter(turned))["image"].numpy(), plain[:, ::-1])


def test_functions_work_beside_ragged_tensors(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"l": [1, 2, 3], "x": 1}\n{"l": [4], "x": 2}\n')
    fields = {"l": Numbers(list=True, ragged=True), "x": Numbers()}

    def change(sample: dict[str, Any]) -> None:
        sample["x"] += sample["l"].sum()
        sample["l"] *= 2

    (batch,) = ringfeed.open(path, fields=fields, batch_size=2, transform=change)
    assert (batch["x"].tolist(), batch["l"].tolist()) == ([7.0, 6.0], [2.0, 4.0, 6.0, 8.0])
    assert batch["l_offsets"].tolist() == [0, 3, 4]


def test_a_type_or_role_without_a_shape_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n")
    for given in ({"dtype": "f64"}, {"role": "label"}):
        with pytest.raises(TypeError, match="those of a new tensor, which has a `shape`"):
            ringfeed.open(tmp_path / "x.csv").map("x", lambda sample: sample["x"], **given)

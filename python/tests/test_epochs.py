"""Loops, epochs and places: as those who wrap loaders expect them."""

from __future__ import annotations

import copy
import inspect
import itertools
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringfeed
from ringfeed import Class, Numbers

Make = Callable[..., ringfeed.Loader]


def values(batches: object) -> list[int]:
    return [value for batch in batches for value in batch["y"].tolist()]  # type: ignore[attr-defined]


def test_every_loop_is_an_epoch_of_its_own(numbers: Make) -> None:
    loader = numbers(shuffle=1)
    epochs = [values(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert loader.epoch == 2 and len(loader) == 10


def test_loops_that_have_not_begun_share_an_epoch(numbers: Make) -> None:
    """Lightning asks for an iterator twice before the first batch."""
    loader = numbers(shuffle=1)
    unused, loop = iter(loader), iter(loader)
    assert loader.epoch == 0
    first = values(loop)
    assert sorted(first) == list(range(100))
    assert next(unused, None) is None, "its epoch is over"
    assert values(loader) != first and loader.epoch == 1


def test_a_loop_that_is_left_begins_no_epoch_twice(numbers: Make) -> None:
    loader = numbers(shuffle=1)
    whole = [values(numbers(shuffle=1)) for _ in range(1)][0]
    for batch in loader:
        break
    assert batch["y"].tolist() == whole[:10]
    del batch
    second = values(loader)
    assert sorted(second) == list(range(100)) and second != whole and loader.epoch == 1
    left = iter(loader)
    next(left)
    inner = iter(loader)
    next(inner)
    with pytest.raises(ringfeed.EndedError, match="another loop"):
        next(left)
    assert next(inner).index == 1


def test_a_loop_that_has_ended_stays_so(numbers: Make) -> None:
    loop = iter(numbers())
    assert len(values(loop)) == 100
    assert next(loop, None) is None and next(loop, None) is None


def test_tuples_are_in_the_order_of_the_fields(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,y\n1,,0\n3,4,1\n")
    fields = {"x": Numbers("f32", from_=["a", "b"], missing="nan"), "y": Class(), "again": Numbers("f64", from_="a")}
    for names in itertools.permutations(fields):
        loader = ringfeed.open(tmp_path / "table.csv", fields={name: fields[name] for name in names}, batch_size=2)
        (arrays,) = loader.numpy()
        (batch,) = loader
        assert tuple(batch) == names
        shapes = {"x": (2, 2), "y": (2,), "again": (2,)}
        assert [array.shape for array in arrays] == [shapes[name] for name in names]


def test_forms_of_a_loop(numbers: Make) -> None:
    for x, y in numbers(yields="tuple"):
        assert isinstance(x, ringfeed.Tensor) and x.shape == (10, 2) and y.shape == (10,)
    assert [total for total in numbers(yields=lambda batch: sum(batch["y"].tolist()))] == [
        45 + 100 * i for i in range(10)
    ]
    loader = numbers()
    for x, y in loader.numpy():
        assert isinstance(x, np.ndarray) and x[:, 0].tolist() == y.tolist()
    for batch in loader.numpy(yields="dict"):
        assert batch.keys() == {"x", "y"} and isinstance(batch["x"], np.ndarray)
    assert len(loader.numpy()) == 10 and loader.epoch == 1
    with pytest.raises(ZeroDivisionError):
        next(iter(numbers(yields=lambda batch: 1 / 0)))


@pytest.mark.parametrize("form", ["yields", "numpy"])
def test_a_form_that_stops_an_iteration_ends_no_epoch(numbers: Make, form: str) -> None:
    def stops(batch: Any) -> Any:
        return next(iter([]))

    loop = iter(numbers(yields=stops) if form == "yields" else numbers().numpy(stops))
    with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
        next(loop)
    assert isinstance(raised.value.__cause__, StopIteration)


def test_going_on_from_a_place_is_exact(numbers: Make) -> None:
    whole = numbers(shuffle=3)
    expected = [values(whole) for _ in range(3)]
    for stop in (0, 1, 5, 9):
        loader = numbers(shuffle=3)
        values(loader)
        done = [next(loop) for loop in [iter(loader)] for _ in range(stop)] if stop < 3 else []
        if stop >= 3:
            loop = iter(loader)
            done = [next(loop).detach() for _ in range(stop)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert values(done) == expected[1][: 10 * stop]
        resumed = numbers(shuffle=3, workers=1, prefetch=3)
        resumed.load_state_dict(state)
        rest = values(resumed)
        if stop == 0:
            # The end of the first epoch: what comes is the second, and not nothing.
            assert rest == expected[1]
        else:
            assert values(done) + rest == expected[1]
        assert values(resumed) == expected[2]


def test_a_state_belongs_to_the_batch_that_was_given(numbers: Make) -> None:
    loader = numbers(shuffle=3)
    positions = []
    for batch in loader:
        assert batch.state == loader.state_dict()
        positions.append(batch.state["position"])
    assert positions == list(range(10, 101, 10))


def test_a_state_may_be_loaded_into_a_loop_that_was_made_before(numbers: Make) -> None:
    """Lightning makes an iterator before it loads the state."""
    expected = values(numbers(shuffle=3))
    loader = numbers(shuffle=3)
    loop = iter(loader)
    for batch in loop:
        if batch.index == 3:
            break
    state = loader.state_dict()
    fresh = numbers(shuffle=3)
    early = iter(fresh)
    fresh.load_state_dict(state)
    assert values(early) == expected[40:]
    fresh.load_state_dict(state)
    assert values(iter(fresh)) == expected[40:]
    for other in (numbers(shuffle=4), fresh):
        with pytest.raises(ringfeed.ConfigError, match="not a state"):
            other.load_state_dict({"epoch": 3})


def test_a_loader_that_is_not_open_remembers_where_to_begin(numbers: Make) -> None:
    expected = numbers(shuffle=3)
    expected = [values(expected) for _ in range(3)]
    state = numbers(shuffle=3).state_dict() | {"epoch": 1, "position": 40}
    for told, epoch, rest in (
        (lambda loader: loader.set_epoch(2), 2, expected[2]),
        (lambda loader: loader.load_state_dict(state), 1, expected[1][40:]),
        (lambda loader: (loader.set_epoch(2), loader.load_state_dict(state)), 1, expected[1][40:]),
        (lambda loader: (loader.load_state_dict(state), loader.set_epoch(1)), 1, expected[1][40:]),
        (lambda loader: (loader.load_state_dict(state), loader.set_epoch(2)), 2, expected[2]),
    ):
        for settings in ({}, {"shard": "auto"}):
            loader = numbers(shuffle=3, **settings)
            told(loader)
            loader.map("z", lambda sample: sample["x"], shape=[2])  # It is not open.
            for each in (pickle.loads(pickle.dumps(numbers(shuffle=3, **settings))), loader):
                told(each)
                copied = copy.deepcopy(each)
                assert each.epoch == epoch and values(each) == rest and values(copied) == rest


def test_a_state_that_is_refused_stays_so_until_another_is_loaded(numbers: Make) -> None:
    state = numbers(shuffle=3).state_dict()
    loader = numbers(shuffle=4)
    loader.load_state_dict(state)
    for ask in (lambda: len(loader), lambda: next(iter(loader)), loader.state_dict, lambda: loader.set_epoch(1)):
        with pytest.raises(ringfeed.ConfigError, match="seed"):
            ask()
    loader.load_state_dict(numbers(shuffle=4).state_dict() | {"position": 90})
    assert values(loader) == values(numbers(shuffle=4))[90:]


def test_a_state_is_accepted_for_data_that_have_grown(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("x\n1\n2\n")
    loader = ringfeed.open(rows, batch_size=1)
    next(iter(loader))
    state = loader.state_dict()
    rows.write_text("x\n1\n2\n3\n")
    for grown in ringfeed.open(rows, batch_size=1), ringfeed.open(rows, batch_size=1).numpy():
        with pytest.raises(ringfeed.ConfigError, match="changed since the state was made"):
            grown.load_state_dict(state)
            next(iter(grown))
        grown.load_state_dict({**state, "version": state["version"] - 1}, changed_source=True)
        assert [b["features"].tolist() for b in getattr(grown, "loader", grown)] == [[[2]], [[3]]]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_state_serves_any_number_of_ranks(numbers: Make, ranks: int) -> None:
    two = [numbers(120, shuffle=3, shard=(rank, 2)) for rank in range(2)]
    seen = []
    for batches in itertools.islice(zip(*two), 3):
        seen += [value for batch in batches for value in batch["y"].tolist()]
    state = two[0].state_dict()
    assert state["position"] == two[1].state_dict()["position"] == 60
    later = [numbers(120, shuffle=3, shard=(rank, ranks)) for rank in range(ranks)]
    for loader in later:
        loader.load_state_dict(state)
    assert len({len(loader) for loader in later}) == 1
    rest = [value for loader in later for value in values(loader)]
    assert sorted(seen + rest) == list(range(120))


def test_set_epoch_is_for_the_next_loop(numbers: Make) -> None:
    expected = numbers(shuffle=3)
    expected = [values(expected) for _ in range(4)]
    loader = numbers(shuffle=3)
    for epoch in range(2):
        loader.set_epoch(epoch)
        assert values(loader) == expected[epoch]
    loader.set_epoch(3)
    assert values(loader) == expected[3] and loader.epoch == 3
    loader.set_epoch(0)
    next(iter(loader))
    state = loader.state_dict()
    loader.set_epoch(0)
    assert values(loader) == expected[0], "an epoch that has begun is begun again"
    loader.load_state_dict(state)
    loader.set_epoch(0)
    assert values(loader) == expected[0][10:], "what a state left of the epoch stays"


@pytest.mark.parametrize("device", [None, "host"])
def test_the_state_of_an_epochs_end_is_before_the_next_epoch(numbers: Make, device: str | None) -> None:
    expected = numbers(shuffle=3, device=device)
    expected = [values(expected) for _ in range(4)]
    loader = numbers(shuffle=3, device=device)
    values(loader)
    ended = loader.state_dict()
    for epochs in (range(1, 4), range(4)):
        loader = numbers(shuffle=3, device=device)
        loader.load_state_dict(ended)
        assert loader.epoch == 1
        for epoch in epochs:
            loader.set_epoch(epoch)
            assert values(loader) == expected[epoch]
            assert loader.epoch == epoch
    # In the middle of an epoch, the answer costs no batch.
    loader.load_state_dict(ended | {"position": 10})
    assert loader.epoch == 0 and values(loader) == expected[0][10:]


@pytest.mark.parametrize("device", [None, "host"])
@pytest.mark.parametrize("shield", [False, True])
def test_a_refused_state_changes_nothing(numbers: Make, device: str | None, shield: bool) -> None:
    foreign = numbers(shuffle=9).state_dict()
    loader = numbers(shuffle=3, device=device, shield=shield)
    expected = values(numbers(shuffle=3))
    assert len(loader) == 10  # It is open.
    for taken in (0, 2):
        loop = iter(loader)
        first = [value for _ in range(taken) for value in next(loop)["y"].tolist()]
        with pytest.raises(ringfeed.ConfigError):
            loader.load_state_dict(foreign)
        assert first + values(loop) == expected
        loader.set_epoch(0)


def test_a_pickled_loader_has_settings_and_place(numbers: Make) -> None:
    loader = numbers(shuffle=3, hold=5, yields="tuple")
    untouched = pickle.loads(pickle.dumps(loader))
    loop = iter(loader)
    first = [next(loop)[1].tolist() for _ in range(4)]
    copied = pickle.loads(pickle.dumps(loader))
    rest = [y.tolist() for _, y in loop]
    assert [y.tolist() for _, y in copied] == rest
    assert [y.tolist() for _, y in untouched] == first + rest
    assert [y.tolist() for _, y in copy.deepcopy(copied)] != rest
    assert copied.settings == loader.settings


def test_a_closed_loader_says_so(numbers: Make) -> None:
    with numbers() as loader:
        next(iter(loader))
    for ask in (lambda: next(iter(loader)), lambda: len(loader), loader.stats):
        with pytest.raises(ringfeed.EndedError, match="closed"):
            ask()
    loader.close()
    numbers().close()


def test_a_closed_loader_is_copied_with_its_place(numbers: Make) -> None:
    with numbers(shuffle=3) as loader:
        loop = iter(loader)
        first = [next(loop)["y"].tolist() for _ in range(4)]
    whole = [batch["y"].tolist() for batch in numbers(shuffle=3)]
    assert first == whole[:4]
    for copied in (pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
        assert [batch["y"].tolist() for batch in copied] == whole[4:]


def test_streams_have_no_length(tmp_path) -> None:
    import gzip

    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 70))
    loader = ringfeed.open(tmp_path / "t.csv.gz", batch_size=32)
    with pytest.raises(TypeError, match="stream"):
        len(loader)
    assert loader and loader.numpy(), "there is one"
    assert [batch.size for batch in loader] == [32, 32, 6] == [batch.size for batch in loader]
    loop = iter(loader)
    for _ in range(3):
        next(loop)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert [batch.size for batch in loader] == [32, 32, 6], "a state at the end gives the next epoch"


def test_last_batches_by_the_policy(numbers: Make) -> None:
    assert [batch.size for batch in numbers(25)] == [10, 10, 5]
    assert [batch.size for batch in numbers(25, last_batch="drop")] == [10, 10]
    padded = [(batch.size, batch.padding) for batch in numbers(25, last_batch="pad")]
    assert padded == [(10, 0), (10, 0), (10, 5)]
    loader = numbers(25, last_batch="drop", shuffle=2)
    assert len(loader) == 2
    values(loader)
    other = numbers(25, last_batch="drop", shuffle=2)
    other.load_state_dict(loader.state_dict())
    assert values(other) == values(loader) and len(values(other)) == 20


def test_shards_by_hand_and_by_launcher(numbers: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    by_launcher = values(numbers(shuffle=3, shard="auto"))
    assert (
        by_launcher
        == values(numbers(shuffle=3, shard=(1, 4)))
        == values(numbers(shuffle=3, shard={"index": 1, "count": 4}))
    )
    assert len(by_launcher) == 25
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(ringfeed.ConfigError, match="WORLD_SIZE"):
        len(numbers(shard="auto"))
    monkeypatch.delenv("RANK")
    with pytest.raises(ringfeed.ConfigError, match="shard 4 of 4"):
        len(numbers(shard=(4, 4)))


@pytest.mark.parametrize("ending", [None, "toml", "json"])
def test_the_launchers_shard_in_settings_is_that_of_the_process_that_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str | None
) -> None:
    np.save(tmp_path / "y.npy", np.arange(100))
    settings = {"sources": [{"format": "npy", "path": "y.npy", "fields": {"y": "array"}}], "shard": "auto"}
    config: Any = settings
    if ending is None:
        settings["sources"][0]["path"] = str(tmp_path / "y.npy")
    else:
        config = tmp_path / f"settings.{ending}"
        toml = '\ufeffshard = "auto"\n[[sources]]\nformat = "npy"\npath = "y.npy"\nfields = { y = "array" }\n'
        config.write_text(json.dumps(settings) if ending == "json" else toml, encoding="utf-8")
    loader = ringfeed.Loader(config, batch_size=10)
    packed = pickle.dumps(loader)
    by_hand = ringfeed.Loader(config, batch_size=10, shard=(0, 4))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert loader.settings["shard"] == "auto"
    assert values(loader) == values(pickle.loads(packed)) == list(range(1, 100, 4))
    assert values(by_hand) == list(range(0, 100, 4))


def test_a_run_has_a_verdict_in_words_and_figures(numbers: Make) -> None:
    loader = numbers()
    for _ in range(3):
        values(loader)
    assert loader.stats()["trainer"]["batches"] == 30
    assert loader.verdict() and isinstance(loader.stats()["verdict"]["limit"], str)


def test_views_have_a_state_in_the_eyes_of_protocols(numbers: Make) -> None:
    """By `isinstance` with one Lightning decides whether to save a place, and since Python 3.12 that asks the class."""
    view = numbers().numpy()
    for name in ("state_dict", "load_state_dict", "set_epoch"):
        assert inspect.getattr_static(view, name), name
    next(iter(view))
    state = view.state_dict()
    assert state["position"] == 10
    other = numbers().numpy()
    other.load_state_dict(state)
    assert next(iter(other))[1].tolist() == list(range(10, 20))
    other.set_epoch(4)
    next(iter(other))
    assert other.epoch == 4

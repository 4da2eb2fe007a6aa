"""Threads that nothing but the loader keeps apart. On a Python without the interpreter lock they run side by side; with
it, it is handed over as often as can be. Each in a process of its own, which may not hang."""

from __future__ import annotations

import sys
import sysconfig

import pytest
from helpers import run

BEGIN = """
import gc, itertools, tempfile, threading, time
import numpy as np, ringfeed
sys.setswitchinterval(1e-6)
folder = tempfile.mkdtemp()
np.save(folder + "/x.npy", np.stack([np.arange(4000), -np.arange(4000)], axis=1).astype(np.float32))
np.save(folder + "/y.npy", np.arange(4000))
def make(**settings):
    sources = [{"format": "npy", "path": f"{folder}/{name}.npy", "fields": {name: "array"}} for name in "xy"]
    return ringfeed.Loader(sources=sources, **{"batch_size": 10, "workers": 2, "hold": 16, **settings})
def at_once(work, count=8):
    failed, ready = [], threading.Barrier(count)
    def begin(number):
        ready.wait()
        try:
            work(number)
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failed:
        raise failed[0]
def check(x, y):
    assert (x[:, 0] == y).all() and (x[:, 1] == -y).all(), (x, y)
"""
END = """
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled()
"""


def side_by_side(program: str) -> None:
    done = run(f"import sysconfig\n{BEGIN}{program}{END}")
    assert done.stderr == ""


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has the interpreter lock")
def test_the_lock_stays_off() -> None:
    assert not sys._is_gil_enabled(), "as it was when the interpreter began"
    done = run("import ringfeed\nprint(sys._is_gil_enabled())", env={"PYTHONWARNINGS": "error"})
    assert done.stdout.strip() == "False" and done.stderr == ""


def test_many_threads_take_from_one_loop() -> None:
    side_by_side(
        """
loader = make(shuffle=3)
for _ in range(3):
    found, loop = [[] for _ in range(8)], iter(loader)
    def take(number):
        for batch in loop:
            x, y = batch["x"].numpy(), batch["y"].numpy()
            check(x, y)
            found[number] += y.tolist()
    at_once(take)
    assert sorted(itertools.chain(*found)) == list(range(4000))
assert loader.stats()["copied"] == 0
"""
    )


def test_many_threads_open_one_loader_and_ask_it() -> None:
    side_by_side(
        """
for _ in range(20):
    loader = make(shuffle=3)
    loop = iter(loader)
    def ask(number):
        for turn in range(20):
            if number % 4 == 0:
                check(*next(loop).numpy().values())
            elif number % 4 == 1:
                assert len(loader) == 400 and loader.state_dict()["position"] % 10 == 0
            elif number % 4 == 2:
                assert loader.stats()["held"] <= 9 and [tensor["name"] for tensor in loader.tensors] == ["x", "y"]
            else:
                loader.verdict(), loader.bad_records(), repr(loader.report())
    at_once(ask)
    assert loader.state_dict()["position"] == 400
"""
    )


def test_views_are_taken_and_let_go_on_any_thread() -> None:
    side_by_side(
        """
loader = make(hold=40)
for batch in itertools.islice(loader, 30):
    kept = [[] for _ in range(8)]
    def look(number):
        x, y = batch["x"], batch["y"]
        for view in (np.asarray(x), np.from_dlpack(x), np.asarray(memoryview(x)), batch.numpy()["x"]):
            assert view.__array_interface__["data"][0] == x.data_ptr
            check(view, y.numpy())
            kept[number].append(view)
        capsules = [x.__dlpack__(), x.__dlpack__(max_version=(1, 0))]
        assert batch.sample_ids == batch.positions == y.tolist() and repr(batch) and batch.state
        check(batch.detach()["x"].numpy(), y.numpy())
    at_once(look)
    del batch
    # Each thread lets go of what another one took.
    at_once(lambda number: kept[number - 1].clear())
gc.collect()
assert loader.stats()["held"] == 0 == loader.stats()["ring"]["leased"]
"""
    )


def test_functions_and_data_sets_are_called_side_by_side() -> None:
    side_by_side(
        """
def own(sample, rng):
    return {"x": sample["x"] + np.float32(rng.integers(1000))}
class Squares:
    def __len__(self): return 2000
    def read(self, i): return {"i": i, "squares": np.arange(5) * i}
expected = [batch.numpy() for batch in make(shuffle=3, transform=own, workers=1, hold=400)]
for loader in (make(shuffle=3, transform=own, workers=8), make(shuffle=3, transform=own, workers=3)):
    for one, other in zip(expected, loader.numpy("dict")):
        assert (one["x"] == other["x"]).all() and (one["y"] == other["y"]).all()
for i, squares in ringfeed.from_reader(Squares(), workers=8, batch_size=20, shuffle=1).numpy():
    assert (squares == i[:, None] * np.arange(5)).all()
served = make().map("z", lambda sample: sample["y"] * 2, shape=(), dtype="i64")
assert all((batch["z"].numpy() == 2 * batch["y"].numpy()).all() for batch in served)
"""
    )


def test_loaders_are_made_left_and_closed_on_many_threads() -> None:
    side_by_side(
        """
def live(number):
    for turn in range(40):
        loader = make(workers=1, transform=(lambda sample: None) if turn % 3 == 0 else ())
        batch = next(iter(loader))
        if turn % 5 == 0:
            loader.close()
        del loader
        check(batch["x"].numpy(), batch["y"].numpy())
        if turn % 10 == 0:
            gc.collect()
at_once(live)
shared = make()
loops = [iter(shared)]
def close(number):
    try:
        for batch in loops[0]:
            check(batch["x"].numpy(), batch["y"].numpy())
            if batch.index == 100:
                shared.close()
    except ringfeed.EndedError:
        pass
at_once(close)
"""
    )


def test_the_interpreter_ends_while_threads_take_batches() -> None:
    side_by_side(
        """
loaders = [make(shuffle=3, transform=lambda sample: None) for _ in range(4)]
begun = threading.Barrier(5)
def take(number):
    next(iter(loaders[number]))
    begun.wait()
    while True:
        for batch in loaders[number]:
            check(batch["x"].numpy(), batch["y"].numpy())
for number in range(4):
    threading.Thread(target=take, args=(number,), daemon=True).start()
begun.wait()
sys.setswitchinterval(0.005)  # The end waits for all of them, but not for long.
"""
    )

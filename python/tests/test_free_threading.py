"""Threads that nothing but the loader keeps apart. On a Python without the interpreter lock they run side by side; with
it, it is handed over as often as can be. Each in a process of its own, which may not hang."""

from __future__ import annotations

import os
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
    failed, ready, done = [], threading.Barrier(count), threading.Event()
    # What waits while it is attached would keep the others from being stopped for it.
    def collect():
        while not done.wait(0.01):
            gc.collect()
    collector = threading.Thread(target=collect)
    collector.start()
    def begin(number):
        ready.wait()
        try:
            work(number)
        except BaseException as error:
            failed.append(error)
    threads = [threading.Thread(target=begin, args=(number,)) for number in range(count)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    done.set()
    collector.join()
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


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has the interpreter lock")
@pytest.mark.parametrize(
    "made",
    [
        "make(transform=inside, workers=2)",
        "make(workers=2).map('z', lambda sample: inside(sample) or sample['y'], shape=(), dtype='i64')",
        "ringfeed.from_reader(Reads(), workers=2, batch_size=10)",
    ],
)
def test_two_calls_of_a_function_are_inside_at_once(made: str) -> None:
    """Neither of them ever lets go of the interpreter lock, so that with it no other could begin."""
    program = f"""
threads, deadline = set(), time.monotonic() + 120
def inside(sample):
    threads.add(threading.get_ident())
    while len(threads) < 2 and time.monotonic() < deadline:
        pass
class Reads:
    def __init__(self): self.first = True
    def __len__(self): return 400
    def read(self, i):
        if self.first: self.first = False
        else: inside(i)
        return {{"y": np.int64(i)}}
sys.setswitchinterval(1000)
loader = {made}
assert [y for batch in loader for y in batch["y"].tolist()] == list(range(len(loader) * 10))
assert len(threads) == 2, threads
"""
    side_by_side(program)


def test_a_loader_is_asked_for_everything_while_threads_take_from_it_and_close_it() -> None:
    side_by_side(
        """
import json
for turn in range(6):
    train = make(shuffle=3, transform=lambda sample: None)
    loader = train if turn % 2 else make(shuffle=4, workspace=train)
    loop = iter(loader)
    given = []
    def ask(number):
        try:
            while True:
                if number < 4:
                    given.append(next(loop)["y"].tolist())
                    if len(given) == 200 and turn % 3 == 0:
                        loader.close()
                elif number == 4:
                    stats = loader.stats()
                    assert 0 <= stats["held"] <= 9 and loader.verdict() and loader.tuned()["workers"] == 2
                elif number == 5:
                    assert '"position"' in json.dumps(loader.state_dict()) and loader.bad_records() == []
                    assert "RunReport" in repr(loader.report()) and loader.report().html()
                elif number == 6:
                    assert loader.plan()["batches_per_epoch"] == 400 == len(loader) and loader.epoch == 0
                else:
                    assert loader.settings["batch_size"] == 10 and len(loader.tensors) == 2 and repr(loader)
                if number >= 4 and len(given) == 400:
                    return
        except StopIteration:
            pass
        except ringfeed.EndedError as error:
            assert "closed" in str(error) and turn % 3 == 0, error
            assert number < 4 or len(given) >= 200
    at_once(ask)
    values = sorted(itertools.chain(*given))
    assert len(set(values)) == len(values) >= 2000 and (turn % 3 == 0 or values == list(range(4000)))
"""
    )


def test_closing_on_many_threads_ends_all_of_them() -> None:
    side_by_side(
        """
for turn in range(30):
    loader = make(transform=lambda sample: None, workers=4)
    loop = iter(loader)
    kept = [[] for _ in range(8)]
    def work(number):
        try:
            for batch in loop:
                kept[number].append(batch)
                kept[number][:-1] = []
                # Every thread may close it, so that one does, whoever takes those batches.
                if batch.index > 20:
                    loader.close()
        except ringfeed.EndedError:
            pass
    at_once(work)
    for batch in itertools.chain(*kept):
        check(batch["x"].numpy(), batch["y"].numpy())
    try:
        next(iter(loader))
        assert False, "it is closed"
    except ringfeed.EndedError:
        pass
"""
    )


def test_setting_the_place_gives_nothing_to_older_loops() -> None:
    side_by_side(
        """
loader = make(shuffle=3, hold=32)
expected = next(iter(loader))["y"].tolist()
start = {**loader.state_dict(), "position": 0}
turns = 60
begins, ends = threading.Barrier(8), threading.Barrier(8)
loops = [None]
def work(number):
    for turn in range(turns):
        if number == 0:
            loops[0] = iter(loader)
            next(loops[0])
        begins.wait()
        if number == 0:
            loader.load_state_dict(start) if turn % 2 else loader.set_epoch(loader.epoch + 2)
            first = next(iter(loader))
            assert first.index == 0, (turn, first)
            assert turn % 2 == 0 or first["y"].tolist() == expected
        else:
            try:
                for _ in loops[0]:
                    pass
            except ringfeed.EndedError:
                pass
        ends.wait()
def work_or_break(number):
    try:
        work(number)
    except BaseException:
        begins.abort(), ends.abort()
        raise
at_once(work_or_break)
"""
    )


def test_windows_and_rows_are_served_on_many_threads() -> None:
    side_by_side(
        """
import ringfeed.prepare as prepare
with open(folder + "/rows.csv", "w") as file:
    file.write("a,b\\n" + "".join(f"{i},{i * 2}\\n" for i in range(200)))
rows = lambda: ringfeed.open(folder + "/rows.csv", fields={"b": ringfeed.Numbers("f32")}, batch_size=10)
recipe = prepare.Recipe(a=prepare.number(), windows={"length": 4})
prepared = recipe.fit(rows())
window = prepared.window()
def look(number):
    for _ in range(300):
        try:
            window.latest()
            assert False, "the window is empty"
        except ringfeed.Error as error:
            assert "window" in str(error), error
        row = prepared.apply([{"a": number, "b": 1}] * 3)
        assert row["features"].tolist() == [row["features"][0].tolist()] * 3
at_once(look)
served = ringfeed.serve(fields={"y": ringfeed.Numbers("i64")}, transform=lambda sample: {"y": sample["y"] * 2})
def ask(number):
    for turn in range(200):
        assert served.apply({"y": number * 1000 + turn})["y"] == 2 * (number * 1000 + turn)
at_once(ask)
"""
    )


def test_counts_of_several_threads_are_one() -> None:
    side_by_side(
        """
import ringfeed.prepare as prepare
with open(folder + "/rows.csv", "w") as file:
    file.write("a,b\\n" + "".join(f"{i},{i * 2}\\n" for i in range(800)))
part = lambda number: ringfeed.open(folder + "/rows.csv", shard=(number, 8), batch_size=10)
recipe = prepare.Recipe(a=prepare.number(scale="min_max"))
whole, fit = prepare.RecipeFit(recipe), prepare.RecipeFit(recipe)
whole.observe_all(ringfeed.open(folder + "/rows.csv", batch_size=10))
def count(number):
    fit.observe_all(part(number))
    assert 0 < fit.records <= 800 and repr(fit)
at_once(count)
assert fit.records == 800 and fit.finish() == whole.finish()
"""
    )


def test_an_iterator_is_taken_once_by_whoever_comes_first() -> None:
    side_by_side(
        """
from ringfeed._reader import Samples
for _ in range(200):
    samples, taken = Samples(({"i": i} for i in range(10)), None), []
    def take(number):
        try:
            taken.append([dict(values)["i"] for _, values in samples.samples()])
        except RuntimeError as error:
            assert "gives its samples once" in str(error), error
    at_once(take)
    assert taken == [list(range(10))], taken
"""
    )


def test_libraries_are_first_imported_by_many_threads() -> None:
    done = run(
        """
import sys, threading
sys.setswitchinterval(1e-6)
import ringfeed
loader = ringfeed.open(FIXTURES + "/iris.csv", batch_size=1, hold=64)
loop, ready, found = iter(loader), threading.Barrier(8), []
def take():
    ready.wait()
    for batch in loop:
        (features,) = batch.numpy().values()
        found.append((features.tolist(), repr(batch), batch.state["position"]))
threads = [threading.Thread(target=take) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert sorted(position for _, _, position in found) == list(range(1, 151)), len(found)
"""
    )
    assert done.stderr == ""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError('of the user')"])
def test_the_interpreter_ends_while_functions_run_on_many_threads(end: str) -> None:
    done = run(
        BEGIN
        + f"""
sys.setswitchinterval(0.005)
begun = threading.Event()
def deeper(depth):
    return deeper(depth - 1) if depth else sum(range(20))
def own(sample):
    begun.set()
    for depth in range(30):
        deeper(depth)
class Reads:
    def __len__(self): return 10**6
    def read(self, i): return {{"y": deeper(i % 30)}}
loaders = [make(transform=own, workers=4), ringfeed.from_reader(Reads(), workers=4)]
for loader in loaders:
    next(iter(loader))
begun.wait()
{end}
""",
        check=False,
    )
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1), done.stderr
    assert done.stderr == "" or (end.startswith("raise") and done.stderr.rstrip().endswith("RuntimeError: of the user"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_processes_fork_while_threads_take_batches() -> None:
    side_by_side(
        """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Of forking beside threads, which is what is tried.
loader, loop = make(shuffle=3, transform=lambda sample: None), None
stop = threading.Event()
def take(number):
    while not stop.is_set():
        try:
            for batch in loader:
                check(batch["x"].numpy(), batch["y"].numpy())
        except ringfeed.EndedError:
            pass
    return number
def forks():
    try:
        for _ in range(15):
            batch = next(iter(make()))
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    check(batch["x"].numpy(), batch["y"].numpy())
                    del batch
                    gc.collect()
                    own = make(shuffle=3, workers=1)
                    assert sum(each.size for each in own) == 4000
                    status = 0
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
at_once(lambda number: take(number) if number else forks(), count=4)
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_processes_fork_while_threads_of_loaders_begin() -> None:
    """Each loader's threads are new to Python, which has a list of them, and a lock on it."""
    done = run(
        """
import threading, warnings
import ringfeed
warnings.simplefilter("ignore", DeprecationWarning)
class Reads:
    def __len__(self): return 40
    def read(self, i): return {"y": i}
stop = threading.Event()
def begin():
    while not stop.is_set():
        for _ in ringfeed.from_reader(Reads(), workers=8, batch_size=5):
            pass
threads = [threading.Thread(target=begin) for _ in range(3)]
[thread.start() for thread in threads]
try:
    for _ in range(400):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
finally:
    stop.set()
[thread.join() for thread in threads]
""",
        timeout=300,
    )
    assert done.stderr == ""


def test_what_a_thread_keeps_may_use_a_loader_when_it_goes() -> None:
    done = run(
        """
import threading, time
import ringfeed
kept, closed = threading.local(), []
class Inner:
    def __init__(self):
        self.loader = ringfeed.open(FIXTURES + "/iris.csv", batch_size=50)
        next(iter(self.loader))
    def __del__(self):
        self.loader.close()
        closed.append(1)
def own(sample):
    if not hasattr(kept, "inner"):
        kept.inner = Inner()
outer = ringfeed.open(FIXTURES + "/iris.csv", batch_size=50, workers=2, transform=own)
assert sum(batch.size for batch in outer) == 150
outer.close()
# A thread ends a moment after its loader.
deadline = time.monotonic() + 60
while not closed and time.monotonic() < deadline:
    time.sleep(0.01)
assert 1 <= len(closed) <= 2, closed
"""
    )
    assert done.stderr == ""

"""What happens to whole processes: signals, forks, threads, ends; each in a process of its own, which may not hang."""

from __future__ import annotations

import os
import sys

import pytest
from helpers import run

MAKE = """
import signal, time, threading, tempfile, numpy as np, ringfeed, gc, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)  # It may be ignored, as in the background of a shell.
folder = tempfile.mkdtemp()
np.save(folder + "/y.npy", np.arange(200))
def make(**settings):
    source = {"format": "npy", "path": folder + "/y.npy", "fields": {"y": "array"}}
    return ringfeed.Loader(sources=[source], **{"batch_size": 10, "workers": 2, **settings})
def values(batches):
    return [value for batch in batches for value in batch["y"].tolist()]
gate, reached = threading.Event(), threading.Event()
def wait(sample):
    if sample["y"] >= 50:
        reached.set()
        gate.wait()
def interrupted(work, after=0.3):
    # All of it may be late where other programs have the processor.
    try:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)).start()
        work()
    except KeyboardInterrupt:
        return True
    return False
"""


@pytest.mark.parametrize("device", [None, "host"])
def test_ctrl_c_ends_a_wait_and_loses_no_batch(device: str | None) -> None:
    run(
        MAKE
        + f"loader = make(transform=wait, device={device!r})"
        + """
loop = iter(loader)
seen = [next(loop)["y"].tolist() for _ in range(5)]
assert interrupted(lambda: next(loop))
assert loader.state_dict()["position"] == 50
assert interrupted(lambda: next(loop))
gate.set()
rest = values(loop)
assert sum(seen, []) + rest == list(range(200)), rest
"""
    )


def test_ctrl_c_ends_a_wait_soon() -> None:
    done = run(
        MAKE
        + """
loader = make(transform=wait)
loop = iter(loader)
for _ in range(5): next(loop)
delays = []
while len(delays) < 20 and min(delays, default=1) >= 0.1:
    sent = []
    def stop():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    try:
        threading.Timer(0.2, stop).start()
        next(loop)
    except KeyboardInterrupt:
        delays.append(time.monotonic() - sent[0])
gate.set()
print(min(delays))
"""
    )
    # Other programs may have the processor: one of twenty must be as fast as is promised.
    assert float(done.stdout) < 0.1


@pytest.mark.parametrize(
    "ask",
    [
        "values(loader)",
        "loader.load_state_dict(state)",
        "loader.set_epoch(5)",
        "loader.close()",
        "loader.verify()",
        "next(iter(loader))",
    ],
)
def test_ctrl_c_ends_every_call_that_may_wait(ask: str) -> None:
    run(
        MAKE
        + f"""
loader = make(transform=wait)
state = loader.state_dict()
loop = iter(loader)
for _ in range(5): next(loop)
reached.wait()
assert interrupted(lambda: {ask})
gate.set()
if {ask!r} != "loader.close()":
    assert len(values(loader)) in (150, 200)
"""
    )


def test_one_thread_waits_for_another_and_can_be_interrupted() -> None:
    run(
        MAKE
        + """
loader = make(transform=wait)
loop = iter(loader)
for _ in range(5): next(loop)
found, entered = [], threading.Event()
def take():
    entered.set()
    found.append(next(loop)["y"].tolist())
other = threading.Thread(target=take)
other.start()
entered.wait()
assert interrupted(lambda: next(loop)), "the other thread has the iterator"
gate.set()
other.join()
assert found == [list(range(50, 60))] and values(loop) == list(range(60, 200))
"""
    )


def test_threads_share_a_loop() -> None:
    run(
        MAKE
        + """
loop = iter(make(batch_size=1, hold=64))
found = []
def work():
    for batch in loop:
        found.extend(batch["y"].tolist())
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert sorted(found) == list(range(200))
"""
    )


def test_the_interpreter_lock_is_free_while_a_batch_is_waited_for() -> None:
    run(
        MAKE
        + """
loader = make(transform=wait)
loop = iter(loader)
for _ in range(5): next(loop)
ticks = []
def tick():
    for _ in range(20):
        ticks.append(time.sleep(0.005))
    gate.set()
other = threading.Thread(target=tick)
other.start()
assert next(loop)["y"].tolist() == list(range(50, 60)) and len(ticks) == 20
"""
    )


@pytest.mark.parametrize(
    "left",
    [
        "loop = iter(make()); next(loop)",
        "kept = [next(iter(make())) for _ in range(3)]",
        "def batches(): yield from make()\nabandoned = batches(); next(abandoned)",
        "loop = iter(ringfeed.from_iterable(({'i': i} for i in range(10**9)), batch_size=4)); next(loop)",
        "loader = make(transform=lambda s: None); next(iter(loader))",
        "loader = make(transform=lambda s: time.sleep(0.001)); next(iter(loader))",
        "array = next(iter(make()))['y'].numpy()",
        "import builtins; builtins.kept = make(); values(builtins.kept)",
        "thread = threading.Thread(target=lambda: [None for _ in make()], daemon=True); thread.start()",
        "gate.set(); raise SystemExit(0)",
    ],
)
def test_the_interpreter_ends_with_loaders_alive(left: str) -> None:
    assert run(MAKE + left + "\n").stderr == ""


def test_the_interpreter_ends_after_a_function_has_imported_threading() -> None:
    program = """
import ringfeed

def imports(sample):
    import threading
    return {"x": sample["x"] + 1}

loader = ringfeed.from_reader([{"x": 1.0}] * 8, batch_size=2, transform=imports)
assert [batch["x"].tolist() for batch in loader] == [[2.0, 2.0]] * 4
"""
    run(program, timeout=120)


def test_the_interpreter_ends_while_threads_open_loaders() -> None:
    """Threads that nobody waits for do so until the very end."""
    done = run(
        MAKE
        + """
sys.setswitchinterval(1e-6)
kept = []
def opens():
    while True:
        kept.append(make(shield=True))
        len(kept[-1])
for _ in range(3): threading.Thread(target=opens, daemon=True).start()
while len(kept) < 3000: time.sleep(0.01)
"""
    )
    assert done.stderr == ""


STUCK = """
called = threading.Event()
def sleeps(*_):
    called.set()
    threading.Event().wait()
def spins(*_):
    called.set()
    while True: pass
class Reads:
    def __init__(self, stuck): self.stuck, self.first = stuck, True
    def __len__(self): return 100
    def read(self, i):
        if self.first: self.first = False
        else: self.stuck()
        return {"y": i}
def gives(stuck):
    yield {"y": 0}
    stuck()
settings = {"workers": 2, "memory": {"close_wait_ms": 3_600_000}}  # As long would be waited for what is stuck.
"""


@pytest.mark.parametrize(
    ("made", "left"),
    [
        ("make(transform={stuck}, **settings)", ""),
        ("make(transform={stuck}, **settings)", "del loader; gc.collect()"),
        ("make(transform={stuck}, **settings)", "waiting()"),
        ("make(transform={stuck}, **settings)", "interrupted(loader.close)"),
        ("make(transform={stuck}, device='host', **settings)", ""),
        ("ringfeed.from_reader(Reads({stuck}), **settings)", ""),
        ("ringfeed.from_iterable(lambda: gives({stuck}), batch_size=1, memory=settings['memory'])", ""),
    ],
)
@pytest.mark.parametrize("stuck", ["sleeps", "spins"])
def test_code_that_never_returns_keeps_no_process(made: str, stuck: str, left: str) -> None:
    done = run(
        MAKE
        + STUCK
        + f"""
loader = {made.format(stuck=stuck)}
def waiting():
    loop, entered = iter(loader), threading.Event()
    threading.Thread(target=lambda: (entered.set(), next(loop)), daemon=True).start()
    entered.wait()
loader.state_dict()
called.wait()
{left}
""",
        timeout=300,
    )
    assert done.stderr == ""


def test_an_exception_in_the_loop_leaves_nothing_behind() -> None:
    done = run(
        MAKE
        + """
def train():
    for batch in make(transform=lambda s: None):
        raise RuntimeError("of the user's")
train()
""",
        check=False,
    )
    assert done.returncode == 1 and done.stderr.rstrip().endswith("RuntimeError: of the user's")


PANICS = """
# PyO3 panics where it gets its own exception of a panic, whose class is there once it was looked for.
def fails(*_): raise ValueError
def panics(*_):
    [kind] = [kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException"]
    raise kind("of a decoder")
try: list(make(transform=fails))
except ringfeed.DataError: pass
class Reads:
    def __init__(self): self.first = True
    def __len__(self): return 10
    def read(self, i):
        if self.first: self.first = False
        else: panics()
        return {"y": i}
def gives():
    yield {"y": 0}
    panics()
"""


@pytest.mark.parametrize(
    "made",
    [
        "make(transform=panics)",
        "make(transform=panics, shield=True)",
        "make(transform=panics, device='host')",
        "ringfeed.from_reader(Reads(), batch_size=2)",
        "ringfeed.from_iterable(gives, batch_size=1)",
    ],
)
def test_a_panic_is_an_exception_that_can_be_caught(made: str) -> None:
    run(
        MAKE
        + PANICS
        + f"""
try:
    list({made})
    assert False
except Exception as error:
    assert isinstance(error, ringfeed.PanickedError) and "panicked: of a decoder" in str(error), repr(error)
assert values(make()) == list(range(200))
"""
    )


def test_code_that_lies_about_its_arrays_is_an_exception() -> None:
    run(
        MAKE
        + """
class Liar:
    shape = [1]
loader = make(transform=lambda s: {"y": Liar()})
try:
    values(loader)
    assert False
except Exception as error:
    assert isinstance(error, ringfeed.Error), error
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_makes_loaders_of_its_own() -> None:
    run(
        MAKE
        + """
opened, untouched = make(shuffle=1), make(shuffle=1)
expected = values(make(shuffle=1))
loop = iter(opened)
batch = next(loop)
lazy = iter(untouched)
child = os.fork()
if child == 0:
    status = 1
    try:
        for ask in (lambda: next(loop), lambda: len(opened), opened.stats, lambda: opened.set_epoch(3)):
            try:
                ask()
                assert False, "its threads are in the parent"
            except ringfeed.UnsupportedError as error:
                assert "in the child" in str(error), error
        assert batch["y"].tolist() == expected[:10]
        assert values(lazy) == expected and values(make(shuffle=1)) == expected
        del batch, opened, loop
        gc.collect()
        status = 0
    except BaseException:
        import traceback; traceback.print_exc()
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
assert batch["y"].tolist() + values(loop) == expected
"""
    )


def test_children_that_fork_while_batches_are_made_end() -> None:
    run(
        MAKE
        + """
loader = make(shuffle=1, transform=lambda s: None)
for _ in range(3):
    children = []
    for batch in loader:
        child = os.fork()
        if child == 0:
            del batch
            gc.collect()
            os._exit(0)
        children.append(child)
    assert all(os.waitpid(child, 0)[1] == 0 for child in children) and len(children) == 20
"""
    )


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(method: str, tmp_path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        + """
import multiprocessing, numpy as np, ringfeed
def work(loader):
    return [value for batch in loader for value in batch["y"].tolist()]
if __name__ == "__main__":
    np.save(sys.argv[1] + "/y.npy", np.arange(40))
    source = {"format": "npy", "path": sys.argv[1] + "/y.npy", "fields": {"y": "array"}}
    loader = ringfeed.Loader(sources=[source], shuffle=3, batch_size=10)
    loop = iter(loader)
    first = next(loop)["y"].tolist()
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        found = pool.map(work, [loader, loader])
    rest = [value for batch in loop for value in batch["y"].tolist()]
    assert found == [rest, rest] and sorted(first + rest) == list(range(40))
"""
    )
    argv = ["program", str(tmp_path), method]
    run(f"import runpy; sys.argv = {argv!r}; runpy.run_path({str(program)!r}, run_name='__main__')")


def test_ten_thousand_loaders_leave_nothing() -> None:
    done = run(
        MAKE
        + """
def figures():
    gc.collect()
    # A thread that was joined is counted until the kernel has let it go.
    threads = []
    for _ in range(50):
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        threads.append(int(status["Threads"]))
        time.sleep(0.01)
    return min(threads), len(os.listdir("/proc/self/fd")), int(status["VmRSS"].split()[0])
def cycle(number):
    loader = make(workers=1, prefetch=1, transform=(lambda s: None) if number % 3 == 0 else ())
    loop = iter(loader)
    for _ in range(number % 4):
        batch = next(loop)
    if number % 5 == 0:
        loader.load_state_dict(loader.state_dict())
    if number % 7 == 0:
        loader.close()
    return batch["y"].numpy() if number % 4 else None
for number in range(200):
    kept = cycle(number)
before = figures()
for number in range(10_000):
    kept = cycle(number)
after = figures()
print(before, after)
assert after[:2] == before[:2] and after[2] < before[2] + 8000, (before, after)
""",
        timeout=1200,
    )
    assert done.stdout


def test_import_needs_nothing_but_python() -> None:
    run(
        """
import builtins
real = builtins.__import__
def guarded(name, *rest, **more):
    assert name.split(".")[0] not in ("numpy", "torch", "jax", "ml_dtypes"), name
    return real(name, *rest, **more)
builtins.__import__ = guarded
import ringfeed
loader = ringfeed.open(FIXTURES + "/iris-species.csv", fields={"v": ringfeed.Numbers(from_=[0, 1])}, batch_size=2)
assert next(iter(loader))["v"].tolist()[0] != next(iter(loader))["v"].tolist()[1]
assert memoryview(next(iter(loader))["v"]).shape == (2, 2)
"""
    )


@pytest.mark.skipif(sys.flags.optimize > 0, reason="without docstrings")
def test_every_public_name_has_a_docstring() -> None:
    import inspect

    import ringfeed

    for name in ringfeed.__all__:
        thing = getattr(ringfeed, name)
        if name == "__version__":
            continue
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(value):
                    assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("policy", ["fail", "skip", "replace"])
@pytest.mark.parametrize("raises", ["signal.raise_signal(signal.SIGINT)", "sys.exit(3)"])
def test_what_is_no_exception_comes_out_of_functions_as_itself_and_loses_no_sample(policy: str, raises: str) -> None:
    run(
        MAKE
        + f"""
calls = []
def change(sample):
    calls.append(int(sample["y"]))
    if calls.count(57) == 1 and calls[-1] == 57:
        {raises}
loader = make(transform=change, shield=True, bad_records={policy!r})
"""
        + """
class Numbers:
    def __init__(self): self.calls = []
    def __len__(self): return 200
    def __getitem__(self, nth):
        self.calls.append(nth)
        if self.calls.count(57) == 1 and nth == 57:
            raise KeyboardInterrupt
        return {"y": nth}
numbers = Numbers()
fields = {"y": ringfeed.Numbers("i64")}
read = ringfeed.from_reader(numbers, fields=fields, batch_size=10, shield=True, bad_records=POLICY)
for loader, called in ((loader, calls), (read, numbers.calls)):
    loop, seen = iter(loader), []
    try:
        for batch in loop:
            seen += batch["y"].tolist()
        assert False, "it was swallowed"
    except (KeyboardInterrupt, SystemExit):
        pass
    assert seen == list(range(50)) and called[-1] == 57, (seen, called)
    assert loader.state_dict()["position"] == 50 and not loader.bad_records()
    seen += values(loop)
    assert seen == list(range(200)) and not loader.bad_records(), seen
""".replace("POLICY", repr(policy))
    )


def test_what_is_no_exception_ends_the_epoch_of_workers_and_iterators_as_itself() -> None:
    run(
        MAKE
        + """
def change(sample):
    if sample["y"] == 57:
        raise SystemExit(3)
def numbers():
    yield from ({"y": nth} for nth in range(57))
    raise KeyboardInterrupt
made = make(transform=change, bad_records="skip")
once = ringfeed.from_iterable(numbers, batch_size=10, shield=True, bad_records="skip")
for loader, position in ((made, 50), (once, 57)):
    seen = []
    try:
        for batch in loader:
            seen += batch["y"].tolist()
        assert False, "it was swallowed"
    except (KeyboardInterrupt, SystemExit):
        pass
    assert seen == list(range(position)) and not loader.bad_records(), seen
    assert loader.state_dict()["position"] == position
"""
    )


@pytest.mark.parametrize(
    "ask", ["loader.epoch", "loader.stats()", "loader.close()", "len(loader)", "next(iter(loader))"]
)
@pytest.mark.parametrize("made", ["transform", "shield", "reader", "iterable", "filter_by"])
def test_a_function_that_asks_its_own_loader_gets_an_error(made: str, ask: str) -> None:
    run(
        MAKE
        + f"""
ask, made = {ask!r}, {made!r}
found, other = [], make()
def asks(*_):
    assert len(other) == 20 and other.stats()
    if "loader" in globals():
        try: eval(ask)
        except ringfeed.UnsupportedError as error: found.append(str(error))
    return True
class Reads:
    def __len__(self): return 40
    def read(self, i): return asks() and {{"y": i}}
def gives():
    for i in range(40): yield asks() and i
"""
        + """
if made == "transform": loader = make(transform=[lambda sample: asks() and None])
if made == "shield": loader = make(transform=[lambda sample: asks() and None], shield=True)
if made == "reader": loader = ringfeed.from_reader(Reads(), batch_size=10, workers=2)
if made == "iterable": loader = ringfeed.from_iterable(gives, names=["y"], batch_size=10)
if made == "filter_by": loader = make().filter_by("y", asks)
assert sum(batch.size for batch in loader) in (40, 200)
assert found and all("its own" in text or "that loader" in text for text in found), found
assert loader.epoch == 0 and loader.stats()["trainer"]["batches"] > 3
loader.close()
""",
        timeout=60,
    )


def test_a_handler_of_a_signal_that_asks_the_waiting_loader_gets_an_error() -> None:
    run(
        MAKE
        + """
def handle(*_):
    try: loader.state_dict()
    finally: gate.set()
signal.signal(signal.SIGUSR1, handle)
loader = make(transform=wait)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    values(loader)
    assert False
except ringfeed.UnsupportedError as error:
    assert "handles a signal" in str(error)
assert values(loader)[-1] == 199
""",
        timeout=60,
    )


def test_ctrl_c_comes_out_of_what_serves() -> None:
    run(
        MAKE
        + """
pressed = []
def change(sample):
    if not pressed:
        pressed.append(1)
        signal.raise_signal(signal.SIGINT)
with open(folder + "/y.csv", "w") as table:
    table.write("y\\n1\\n2\\n")
served = ringfeed.open(folder + "/y.csv", fields={"y": ringfeed.Numbers("i64")}, transform=change).serve()
try:
    served.apply({"y": 5})
    assert False, "it was swallowed"
except KeyboardInterrupt:
    pass
assert served.apply({"y": 5})["y"].tolist() == 5
"""
    )


def test_the_end_of_a_forked_child_waits_for_its_own_threads() -> None:
    run(
        MAKE
        + """
child = os.fork()
if child == 0:
    loader = make()
    has_opened = threading.Event()
    def open_late():
        for _ in range(20):
            values(make())
            has_opened.set()
    thread = threading.Thread(target=open_late, daemon=True)
    thread.start()
    has_opened.wait()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )

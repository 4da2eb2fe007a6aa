"""What the guide for those who move shows: the old programs and the new ones give the same."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

GUIDE = (Path(__file__).parents[1] / "MIGRATING.md").read_text()
BLOCKS = {
    (when, name): (library, program)
    for when, name, library, program in re.findall(r"```python (before|after) (\w+) ?(\w*)\n(.*?)```", GUIDE, re.DOTALL)
}
# Pictures that were made smaller by another library's arithmetic differ by a step of a byte at most, here and there.
TOLERANCES = {"images": 1.01 / 255 / 0.224, "archives": 1.01 / 255}

PRELUDE = """
taken_ = []
def step(first, second):
    taken_.append((first.numpy().copy(), second.numpy().copy()))
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for kind, name in (("people", "astronaut.png"), ("space", "rocket.jpg")):
        (tmp_path / "photos/train" / kind).mkdir(parents=True)
        shutil.copy(FIXTURES / "photos" / name, tmp_path / "photos/train" / kind)
    shutil.copy(FIXTURES / "iris-species.csv", tmp_path / "flowers.csv")
    for archive in range(2):
        with tarfile.open(tmp_path / f"train-00{archive}.tar", "w") as tar:
            for sample in range(2):
                (tmp_path / "cls").write_text(str(archive + sample))
                tar.add(FIXTURES / "photos" / "rocket.jpg", f"{archive}{sample}.jpg")
                tar.add(tmp_path / "cls", f"{archive}{sample}.cls")
    return tmp_path


def steps(folder: Path, when: str, name: str) -> list[tuple[Any, Any]]:
    library, program = BLOCKS[when, name]
    if library:
        pytest.importorskip(library)
    home = f"os.environ.update(HF_HOME={os.fspath(folder / 'hub')!r}, HF_HUB_OFFLINE='1')"
    into = folder / f"{when}-{name}"
    end = f"import pickle\npickle.dump(taken_, open({os.fspath(into)!r}, 'wb'))"
    run(f"{home}\nos.chdir({os.fspath(folder)!r})\n{PRELUDE}\n{program}\n{end}")
    found: list[tuple[Any, Any]] = pickle.loads(into.read_bytes())
    return found


@pytest.mark.parametrize("name", sorted({name for _, name in BLOCKS}))
def test_the_new_program_gives_what_the_old_one_gave(name: str, data: Path) -> None:
    pytest.importorskip("torch")
    after = steps(data, "after", name)
    assert after
    before = steps(data, "before", name)
    assert [len(first) for first, _ in before] == [len(first) for first, _ in after]
    for old, new in zip(before, after):
        np.testing.assert_allclose(new[0], old[0], rtol=1e-6, atol=TOLERANCES.get(name, 0))
        np.testing.assert_allclose(new[1], old[1], rtol=1e-6)


def test_each_old_program_has_a_new_one_and_no_longer_one() -> None:
    names = {name for _, name in BLOCKS}
    assert len(names) == 5 and len(BLOCKS) == 10 and GUIDE.count("```python") == 10

    def lines(when: str, name: str) -> int:
        return sum(1 for line in BLOCKS[when, name][1].splitlines() if line.strip())

    assert all(lines("after", name) <= lines("before", name) for name in names - {"hub"})

"""What the documentation shows runs as it stands."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed

ROOT = Path(__file__).parents[2]


def blocks(document: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)


def photos(folder: Path) -> None:
    for kind, name in (("space", "rocket.jpg"), ("people", "astronaut.png")):
        (folder / "photos/train" / kind).mkdir(parents=True)
        shutil.copy(FIXTURES / "photos" / name, folder / "photos/train" / kind)


@pytest.mark.parametrize("number", range(len(blocks(ROOT / "README.md"))))
def test_the_readmes_programs_run(number: int, tmp_path: Path) -> None:
    program = blocks(ROOT / "README.md")[number]
    if "torch" in program:
        pytest.importorskip("torch")
    photos(tmp_path)
    np.save(tmp_path / "audio.npy", np.random.default_rng(0).standard_normal((20, 400), np.float32))
    run(f"os.chdir({str(tmp_path)!r})\n{program}")


@pytest.mark.parametrize("number", range(len(blocks(ROOT / "python/README.md"))))
def test_the_packages_programs_run(number: int, tmp_path: Path) -> None:
    program = blocks(ROOT / "python/README.md")[number]
    for library in {"torch", *re.findall(r"^(?:import|from) (pandas|datasets)", program, flags=re.MULTILINE)}:
        pytest.importorskip(library)
    photos(tmp_path)
    shutil.copy(FIXTURES / "iris.csv", tmp_path)
    for name in ("flowers.csv", "more-flowers.csv"):
        shutil.copy(FIXTURES / "iris-species.csv", tmp_path / name)
    for archive in range(2):
        with tarfile.open(tmp_path / f"train-00{archive}.tar", "w") as tar:
            for sample in range(2):
                (tmp_path / "cls").write_text(str(sample))
                tar.add(FIXTURES / "photos" / "rocket.jpg", f"{archive}{sample}.jpg")
                tar.add(tmp_path / "cls", f"{archive}{sample}.cls")
    before = "steps = []\nstep = lambda image, label: steps.append(len(label))\n"
    # A file, since processes that a program starts may import it.
    (tmp_path / "program.py").write_text(f"{before}{program}\nassert steps or __name__ != '__main__'\n")
    done = subprocess.run(
        [sys.executable, "program.py"], capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_from_a_folder_to_a_model_it_takes_six_lines() -> None:
    first = blocks(ROOT / "README.md")[0]
    lines = [line for line in first.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 6 and "torch" in first


@pytest.mark.parametrize(("dtype", "order"), [("u8", "nchw"), ("u8", "nhwc"), ("f32", "nchw")])
def test_a_notebook_shows_the_pictures(dtype: str, order: str) -> None:
    image = pytest.importorskip("PIL.Image")
    fields: dict[str, Any] = {"image": ringfeed.Image(24, 32, dtype=dtype, order=order)}
    batch = next(iter(ringfeed.open(FIXTURES / "photos", fields=fields, batch_size=3)))
    page = batch._repr_html_()
    shown = re.findall(r"base64,([^\"]*)", page)
    assert len(shown) == batch.size and f"{batch.size} samples" in page
    for picture, pixels in zip(shown, batch["image"].numpy()):
        found = np.asarray(image.open(io.BytesIO(base64.b64decode(picture))))
        expected = pixels if order == "nhwc" else pixels.transpose(1, 2, 0)
        np.testing.assert_array_equal(found, expected.astype(np.uint8))


def test_a_notebook_shows_numbers_and_names() -> None:
    loader = ringfeed.open(
        FIXTURES / "iris-species.csv", fields={"species": ringfeed.Class(), "x": ringfeed.Numbers(from_=0)}
    )
    page = next(iter(loader))._repr_html_()
    assert "setosa, setosa" in page and "5.1, 4.9" in page and "<script" not in page
    loader = ringfeed.open(FIXTURES / "iris-species.csv", fields={"x": ringfeed.Numbers(from_=[0, 1, 2, 3])})
    assert "[5.1, 3.5, 1.4, 0.2], [4.9, 3, 1.4, 0.2]" in next(iter(loader))._repr_html_()

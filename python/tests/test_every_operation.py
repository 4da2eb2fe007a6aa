"""Every transform, and every operation on pictures, does something from Python, by its name in settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES

import ringfeed
from ringfeed import Class, Image, Numbers

PICTURES: dict[str, dict[str, Any]] = {
    "random_resized_crop": {},
    "scale_jitter": {},
    "horizontal_flip": {"probability": 1},
    "vertical_flip": {"probability": 1},
    "colour_jitter": {"brightness": 0.5},
    "random_erasing": {"probability": 1},
    "rotation": {"degrees": 40},
    "random_crop": {"padding": 4},
    "affine": {"degrees": 30, "shear": [10, 10]},
    "gaussian_blur": {"kernel": 5},
    "random_grey": {"probability": 1},
    "solarise": {"probability": 1},
    "posterise": {"bits": 2, "probability": 1},
    "equalise": {"probability": 1},
    "autocontrast": {"probability": 1},
    "invert": {"probability": 1},
    "rand_augment": {},
    "trivial_augment": {},
    "auto_augment": {"policy": "cifar10"},
    "aug_mix": {"severity": 9},
    "sharpness": {"factor": 0, "probability": 1},
}
# What others call them.
OTHER_NAMES = {"solarize", "posterize", "equalize", "randaugment", "trivial_augment_wide", "augmix"}
RECIPES = ["imagenet", "cifar", "simclr", "dino_global", "dino_global_2", "dino_local"]

MEMBERS: dict[str, dict[str, Any]] = {
    "cast": {"tensor": "x", "dtype": "f64"},
    "one_hot": {"tensor": "class"},
    "log1p": {"tensor": "x"},
    "clip": {"tensor": "x", "low": 1, "high": 2},
    "normalise": {"tensor": "x", "normaliser": {"kind": "linear", "scale": 2.0, "bias": 1.0}},
    "quantile": {"tensor": "x", "quantiles": [0, 1, 9]},
    "bins": {"tensor": "x", "edges": [1, 2]},
    "layout": {"tensor": "image", "order": "nhwc"},
    "flip": {"tensor": "image", "by": "turned"},
    "augment": {"tensor": "pixels", "operations": [{"kind": "horizontal_flip", "probability": 1}, "solarise"]},
    "dense": {"tensor": "x", "indices": "at", "columns": 9},
    "noise": {"tensor": "x", "deviation": 0.5},
    "masking": {"tensor": "x", "probability": 0.5, "value": -1},
    "scale": {"tensor": "x", "low": 2, "high": 3},
    "pad": {"tensor": "ids", "multiple": 8},
    "log_mel": {"tensor": "x", "rate": 8, "n_fft": 4, "hop": 2, "mels": 2},
    "remove": {"tensor": "x"},
    "mixup": {"alpha": 0.4, "features": ["x"]},
    "cutmix": {"alpha": 1, "features": ["image"]},
}


def kinds(ask: Callable[[dict[str, Any]], Any]) -> set[str]:
    """The names that may stand there, as the error says them that a wrong one is."""
    with pytest.raises(ringfeed.ConfigError) as caught:
        ask({"kind": "none of them"})
    return set(re.findall(r'"(\w+)"', str(caught.value).split("it is", 1)[1]))


def pictures(augment: Any) -> np.ndarray[Any, Any]:
    loader = ringfeed.open(
        FIXTURES / "photos", fields={"image": Image(32, 24, augment=augment, dtype="u8")}, shuffle=3, batch_size=3
    )
    return np.asarray(next(iter(loader))["image"].numpy())


def lines(path: Path, transforms: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [
        f'{{"x": [{row}, 0.5, 2, {row}.5, 1], "at": [0, 2, 4, 6, 8], "class": "{"abc"[row % 3]}", "turned": {row % 2}, '
        f'"ids": {[1] * (row + 1)}, "image": {list(range(row, 3 * 4 * 5 + row))}, '
        f'"pixels": {list(range(row, 3 * 4 * 5 + row))}}}'
        for row in range(6)
    ]
    path.write_text("\n".join(rows))
    fields = {
        "x": Numbers("f32", shape=[5]),
        "at": Numbers("i64", shape=[5]),
        "class": Class(),
        "turned": Numbers("u8"),
        "ids": Numbers("i64"),
        "image": Numbers("f32", shape=[3, 4, 5]),
        "pixels": Numbers("u8", shape=[3, 4, 5]),
    }
    batch = next(iter(ringfeed.open(path, fields=fields, transforms=transforms, shuffle=1)))
    return {name: (batch[name].shape, str(batch[name].numpy().dtype), batch[name].numpy().tobytes()) for name in batch}


def test_each_operation_on_pictures_has_a_test() -> None:
    assert kinds(lambda wrong: ringfeed.open(FIXTURES / "photos", fields={"image": Image(8, 8, augment=[wrong])})) == (
        set(PICTURES) | OTHER_NAMES
    )


@pytest.mark.parametrize("kind", PICTURES)
def test_an_operation_changes_pictures(kind: str) -> None:
    assert (pictures([{"kind": kind, **PICTURES[kind]}]) != pictures([])).any()


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_is_a_list_by_a_name(recipe: str) -> None:
    assert (pictures(recipe) != pictures([])).any()


def test_each_transform_has_a_test(tmp_path: Path) -> None:
    assert kinds(lambda wrong: lines(tmp_path / "t.jsonl", [wrong])) == set(MEMBERS)


@pytest.mark.parametrize("kind", MEMBERS)
def test_a_transform_changes_a_batch(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    assert lines(path, [{"kind": kind, **MEMBERS[kind]}]) != lines(path, [])

"""Preprocessing of a table is fitted, a classifier is trained on what it makes, and one record is served: with NumPy
alone.

python python/examples/flowers.py [--data fixtures/iris-species.csv]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

import ringfeed
from ringfeed import Class
from ringfeed.prepare import Prepared, Recipe, number

SIZES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
SPECIES = ["setosa", "versicolor", "virginica"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="fixtures/iris-species.csv")
    data = parser.parse_args().data
    prepared = Path(tempfile.mkdtemp()) / "prepared.json"

    # Fitted to the training part alone, and to each record the same wherever it is.
    parts = {"train": 0.8, "test": 0.2}
    recipe = Recipe({size: number(impute="median", scale="standardise") for size in SIZES})
    recipe.fit(ringfeed.open(data, split={**parts, "part": "train"})).save(prepared)

    def flowers(part: str, **settings: object) -> ringfeed.Loader:
        fields = {"species": Class(SPECIES)}
        return ringfeed.open(data, prepared=prepared, fields=fields, split={**parts, "part": part}, **settings)

    weights, bias = np.zeros((4, 3)), np.zeros(3)

    def chances(features: np.ndarray) -> np.ndarray:
        powers = np.exp(features @ weights + bias)
        return powers / powers.sum(axis=1, keepdims=True)

    train = flowers("train", batch_size=16, shuffle=42)
    for _ in range(60):
        for batch in train:
            features, species = batch["features"].numpy(), batch["species"].numpy()
            slope = (chances(features) - np.eye(3)[species]) / len(species)
            weights -= 0.5 * features.T @ slope
            bias -= 0.5 * slope.sum(axis=0)

    right = np.concatenate(
        [chances(batch["features"].numpy()).argmax(1) == batch["species"].numpy() for batch in flowers("test")]
    )
    print(f"{100 * right.mean():.0f} % of {len(right)} flowers that it has not seen are right")

    # In a server: the bytes that training saw, from one record, without the data.
    serve = Prepared.load(prepared)
    flower = {"sepal_length": 6.1, "sepal_width": None, "petal_length": 5.2, "petal_width": 2.0}
    [odds] = chances(serve.apply(flower)["features"][None])
    print(f"a flower of which one size is missing is a {SPECIES[odds.argmax()]} ({100 * odds.max():.0f} %)")


if __name__ == "__main__":
    main()

"""Preprocessing that is fitted, saved, and applied to single records."""

from __future__ import annotations

import csv
import datetime
import json
import math
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FIXTURES, run

import ringfeed
from ringfeed import Numbers
from ringfeed.prepare import Prepared, Recipe, RecipeFit, category, date, hashed, number

JUDGED = FIXTURES / "prepare"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    ages = [str(20 + i % 41) if i % 7 else "" for i in range(200)]
    rows = [
        f"{i},{age},{['Oslo', 'Rome', 'Bonn'][i % 3]},2024-{1 + i % 12:02}-01,{i * 2}" for i, age in enumerate(ages)
    ]
    path = tmp_path / "people.csv"
    path.write_text("id,age,city,joined,price\n" + "\n".join(rows) + "\n")
    return path


def recipe() -> Recipe:
    return Recipe(
        age=number(impute="median", mask=True, scale="standardise"),
        city=category(unknown=True),
        joined=date(cyclic=["month"]),
    )


def test_what_is_fitted_trains_and_serves_the_same_bytes(people: Path, tmp_path: Path) -> None:
    rows = ringfeed.open(people)
    prepared = recipe().fit(rows)
    prepared.save(tmp_path / "prepared.json")
    loaded = Prepared.load(tmp_path / "prepared.json")
    assert loaded == prepared == pickle.loads(pickle.dumps(prepared)) and loaded.records == 200
    assert loaded.feature_names == ["age", "age_missing", "joined_month_sin", "joined_month_cos"]
    assert loaded.code_counts == {"city": 4}
    for given in (loaded, tmp_path / "prepared.json"):
        train = ringfeed.open(people, prepared=given, fields={"price": Numbers("f32")}, batch_size=64, shuffle=7)
        seen = 0
        for batch in train:
            features, categories = batch["features"].numpy(), batch["categories"].numpy()
            records = [_record(people, i) for i in batch.sample_ids]
            served = loaded.apply(records)
            assert served["features"].tobytes() == features.tobytes() and features.shape[1] == 4
            assert served["categories"].tobytes() == categories.tobytes()
            one = loaded.apply_json(json.dumps(records[0]))
            assert one["features"].tolist() == features[0].tolist() and one["features"].shape == (4,)
            seen += len(records)
        assert seen == 200


def test_parts_that_are_counted_apart_are_fitted_as_the_whole(people: Path, tmp_path: Path) -> None:
    whole, merged = recipe().fit(ringfeed.open(people)), RecipeFit(recipe())
    for index in range(3):
        fit = RecipeFit(recipe())
        fit.observe_all(ringfeed.open(people, shard=(index, 3)))
        assert fit.records in (66, 67)
        fit.save(tmp_path / "counted.json")
        for copy in (RecipeFit.load(tmp_path / "counted.json"), pickle.loads(pickle.dumps(fit))):
            assert copy.finish() == fit.finish() != whole
        merged.merge(pickle.loads(pickle.dumps(fit)))
    assert merged.records == 200 and merged.finish() == whole
    merged.merge(merged)
    assert merged.records == 400
    with pytest.raises(ringfeed.ConfigError, match="different recipes"):
        merged.merge(RecipeFit(Recipe(age=number())))
    with pytest.raises(ringfeed.DataError, match="no record"):
        RecipeFit(recipe()).finish()
    failing = RecipeFit(Recipe(city=number(), age=number(impute=0)))
    with pytest.raises(ringfeed.DataError):
        failing.observe_all(ringfeed.open(people))
    assert failing.records == 0


def test_hashes_are_those_that_anybody_can_compute(tmp_path: Path) -> None:
    whole = 2**64 - 1

    def mixed(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & whole
        z = (z ^ z >> 27) * 0x94D049BB133111EB & whole
        return z ^ z >> 31

    def code(name: str, buckets: int) -> int:
        text = name.encode()
        last = len(text) // 8 * 8
        found = 0x9E3779B97F4A7C15
        for word in [*(text[at : at + 8] for at in range(0, last, 8)), text[last:].ljust(8, b"\0")]:
            found = mixed(((found << 29 | found >> 35) & whole) ^ int.from_bytes(word, "little"))
        return 1 + (mixed(found ^ len(text)) * buckets >> 64)

    names = ["a", "Oslo", "Tromsø", "12345678", "123456789", "3", "x" * 100, "日本語のテキスト", "-0.5"]
    path = tmp_path / "names.csv"
    path.write_text("name\n" + "\n".join(names) + "\n")
    for buckets in (1, 8, 1000, 1_000_003):
        prepared = Recipe(name=hashed(buckets)).fit(ringfeed.open(path))
        served = prepared.apply([{"name": name} for name in [*names, None]])["categories"][:, 0].tolist()
        assert served == [*(code(name, buckets) for name in names), 0]


def test_columns_are_joined_derived_and_filtered(people: Path, tmp_path: Path) -> None:
    cities = tmp_path / "cities.csv"
    cities.write_text("name,people\nOslo,700\nRome,2800\n")
    with_steps = Recipe(
        {"cities.people": number(impute=-1.0, mask=True), "where": category(unknown=True)},
        per_year=number(),
        join={"cities": {"table": cities, "on": "city", "key": "name", "unknown": True}},
        derive={"per_year": {"ratio": ["price", "age"]}, "where": {"pair": ["city", "joined"]}},
        filter="age >= 21 and price > 10",
    )
    prepared = with_steps.fit(ringfeed.open(people))
    assert prepared.field_names == ["city", "price", "age", "joined"] and prepared.records < 180
    row = prepared.apply({"city": "Rome", "joined": "2024-05-01", "price": 60, "age": 30})
    assert row["features"].tolist() == [2800, 0, 2]
    row = prepared.apply({"city": "Bonn", "joined": "?", "price": 60, "age": 30})
    assert row["features"].tolist() == [-1, 1, 2] and row["categories"].tolist() == [0]
    with pytest.raises(ringfeed.DataError, match="leaves this record out: age >= 21"):
        prepared.apply({"city": "Rome", "joined": "2024-05-01", "price": 60, "age": 20})
    cities.unlink()
    prepared.save(tmp_path / "prepared.json")
    rows = ringfeed.open(people, prepared=tmp_path / "prepared.json", fields={"id": Numbers("i64")})
    assert sum(batch.size for batch in rows) == prepared.records
    with pytest.raises(ringfeed.ConfigError, match='did you mean "ratio"'):
        Recipe(x=number(), derive={"x": {"ration": ["a", "b"]}})


def _record(path: Path, nth: int) -> dict[str, object]:
    with path.open(newline="") as lines:
        row = list(csv.DictReader(lines))[nth]
    return {**row, "age": float(row["age"]) if row["age"] else None, "unused": [1]}


def test_values_of_pandas_numpy_and_datetime_are_understood(people: Path) -> None:
    prepared = recipe().fit(ringfeed.open(people))
    plain = prepared.apply({"age": 33, "city": "Rome", "joined": "2024-05-01"})
    typed = prepared.apply({"age": np.float32(33), "city": np.str_("Rome"), "joined": datetime.date(2024, 5, 1)})
    assert {name: array.tobytes() for name, array in plain.items()} == {
        name: array.tobytes() for name, array in typed.items()
    }
    missing = [{"city": "Rome", "joined": "2024-05-01", "age": age} for age in (None, math.nan, np.float64("nan"))]
    assert prepared.apply(missing)["features"][:, 1].tolist() == [1, 1, 1]
    header = "joined;age;city"
    line = prepared.apply_csv(header, ["2024-05-01;33;Rome", "2024-05-01;;Paris"])
    assert line["features"][0].tobytes() == plain["features"].tobytes() and line["categories"].tolist() == [[3], [0]]


def test_errors_say_what_is_wrong_and_where(people: Path) -> None:
    with pytest.raises(ringfeed.ConfigError, match="did you mean"):
        Recipe(age={"numbr": {}})
    with pytest.raises(ringfeed.ConfigError, match="columns.joined"):
        Recipe(joined=date())
    prepared = recipe().fit(ringfeed.open(people))
    good = {"age": 3, "city": "Oslo", "joined": "2024-05-01"}
    with pytest.raises(ringfeed.DataError) as raised:
        prepared.apply([good, {**good, "age": "old"}])
    assert (raised.value.record, raised.value.column) == (1, "age")
    for infinite in (math.inf, np.float32("-inf")):
        with pytest.raises(ringfeed.DataError, match=f"expected a finite number, found {infinite}") as raised:
            prepared.apply([good, {**good, "age": infinite}])
        assert (raised.value.record, raised.value.column) == (1, "age")
    for age in ("old", [math.inf]):
        with pytest.raises(ringfeed.DataError) as raised:
            prepared.apply({**good, "age": age})
        assert raised.value.byte is None and "byte" not in str(raised.value).replace("not JSON", "")
    with pytest.raises(TypeError, match="a number, a text, a date or None"):
        prepared.apply({**good, "age": object()})
    with pytest.raises(ringfeed.NotFoundError):
        Prepared.load(people.with_suffix(".json"))
    with pytest.raises(ringfeed.NotFoundError, match='people.csv: no column "old"') as raised:
        Recipe(old=number()).fit(ringfeed.open(people))
    assert raised.value.column is None


def test_a_part_alone_is_fitted_to(people: Path) -> None:
    split = {"train": 0.8, "validation": 0.2, "seed": 1, "part": "train"}
    part = ringfeed.open(people, split=split)
    prepared = Recipe(price=number()).fit(part)
    ids = ringfeed.open(people, split=split, prepared=prepared, fields={"id": Numbers("i64")})
    assert prepared.records == sum(batch.size for batch in ids) < 200


def test_it_is_what_the_command_fits_and_each_reads_the_other(tmp_path: Path) -> None:
    """The columns of the library's own comparison with scikit-learn and pandas."""
    table = json.loads((JUDGED / "recipe.json").read_text())
    prepared = Recipe(table["columns"], dtype=table.get("dtype")).fit(ringfeed.open(JUDGED / "train.csv"))
    prepared.save(tmp_path / "python.json")
    settings = {"prepared": "rust.json", "prepare": table, "source": {"path": str(JUDGED / "train.csv")}}
    (tmp_path / "loader.json").write_text(json.dumps(settings))

    def command(*typed: str) -> str:
        line = [sys.executable, "-m", "ringfeed", *typed, "--json"]
        return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120, cwd=tmp_path).stdout

    command("fit", "loader.json")
    assert (tmp_path / "rust.json").read_bytes() == (tmp_path / "python.json").read_bytes()
    by_command = Prepared.load(tmp_path / "rust.json")
    assert by_command == prepared
    assert json.loads(command("inspect", "python.json"))["features"] == prepared.feature_names

    header, *lines = (JUDGED / "all.csv").read_text().splitlines()
    served = by_command.apply_csv(header, lines)
    found = dict(zip(prepared.feature_names, served["features"].T))
    found |= {f"code of {name}": codes for name, codes in zip(prepared.code_counts, served["categories"].T)}
    with open(JUDGED / "expected.csv", newline="") as file:
        names, *rows = csv.reader(file)
    tolerances, *expected = np.array(rows, dtype=float)
    assert found.keys() == set(names)
    for name, tolerance, column in zip(names, tolerances, np.transpose(expected)):
        apart = np.abs(found[name] - column) / np.maximum(np.abs(column), 1)
        assert apart.max() <= tolerance, name


def test_many_threads_apply_at_once(people: Path) -> None:
    prepared = Recipe(age=number(impute="mean"), city=hashed(1000)).fit(ringfeed.open(people))
    expected = [prepared.apply({"age": i, "city": str(i)})["categories"].tobytes() for i in range(50)]
    wrong: list[int] = []

    def serve() -> None:
        for _ in range(20):
            for i, codes in enumerate(expected):
                if prepared.apply({"age": i, "city": str(i)})["categories"].tobytes() != codes:
                    wrong.append(i)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_numpy_there_are_memoryviews(people: Path) -> None:
    done = run(f"""
sys.modules["numpy"] = None
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numpy" else found(name, *more)
import ringfeed
from ringfeed.prepare import Recipe, number
prepared = Recipe(age=number(impute=1.5)).fit(ringfeed.open({str(people)!r}))
row = prepared.apply({{"age": None}})["features"]
print(type(row).__name__, row.shape, row[0])
""")
    assert done.stdout.split("\n")[0] == "memoryview (1,) 1.5"


def test_inspect_says_what_lies_at_a_path(people: Path) -> None:
    found = ringfeed.inspect(people)
    assert (found["format"], found["records"]) == ("csv", 200)
    assert [field["name"] for field in found["fields"]] == ["id", "age", "city", "joined", "price"]
    told = ringfeed.inspect(people, format="csv", header="no")
    assert told["records"] == 201
    with pytest.raises(ringfeed.ConfigError, match="did you mean"):
        ringfeed.inspect(people, format="cvs")
    with pytest.raises(TypeError, match='give `format`, such as "csv", with delimiter'):
        ringfeed.inspect(people, delimiter=";")
    with pytest.raises(ringfeed.NotFoundError):
        ringfeed.inspect(people.with_name("poeple.csv"))


def test_open_may_be_told_the_format(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1;2\n3;4\n")
    told = ringfeed.open(numbers, format="csv", options={"header": "no", "delimiter": ";"})
    assert next(iter(told))["features"].numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ringfeed.ConfigError, match="source.options.headr.*did you mean"):
        ringfeed.open(numbers, format="csv", options={"headr": "no"})


def test_a_name_that_is_called_as_a_word_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("kind,x\nb,1\nb,2\nmean,3\n")
    for impute, code in [("most_frequent", 0), ({"text": "mean"}, 1), ("b", 0)]:
        prepared = Recipe(kind=category(impute=impute)).fit(ringfeed.open(path))
        assert prepared.apply({})["categories"].tolist() == [code]


def test_windows_are_served_as_training_saw_them(tmp_path: Path) -> None:
    rows = [(f"s{n // 20}", n % 20 * 1.5 + n // 20 if n % 7 else None, "ab"[n % 2]) for n in range(60)]
    text = "".join(f"{sensor},{'' if x is None else x},{kind}\n" for sensor, x, kind in rows)
    (tmp_path / "rows.csv").write_text(f"sensor,x,kind\n{text}")
    columns = {"x": number(impute="median", mask=True, scale="standardise"), "kind": category()}
    recipe = Recipe(columns, windows={"length": 4, "horizon": 2, "series": "sensor", "part": [0, 0.8]})
    recipe.fit(ringfeed.open(tmp_path / "rows.csv")).save(tmp_path / "fitted.json")
    prepared = Prepared.load(tmp_path / "fitted.json")
    loader = ringfeed.open(tmp_path / "rows.csv", prepared=tmp_path / "fitted.json", batch_size=100)
    batch = next(iter(loader))
    assert batch["features"].shape == (33, 4, 2) and batch["categories"].shape == (33, 4, 1)
    served: list[dict[str, Any]] = []
    for series in range(3):
        ways = [prepared.window() for _ in range(3)]
        for sensor, x, kind in rows[20 * series :][:16]:
            pushed = [
                ways[0].push({"sensor": sensor, "x": x, "kind": kind}),
                ways[1].push_json(json.dumps({"x": x, "kind": kind})),
                ways[2].push_csv("kind,x", f"{kind},{'' if x is None else x}"),
            ]
            assert len(set(pushed)) == 1
            if not pushed[0]:
                with pytest.raises(ringfeed.DataError, match="of its 4 records"):
                    ways[0].latest()
                continue
            made = [way.latest() for way in ways]
            for other in made[1:]:
                assert all(np.array_equal(made[0][name], other[name]) for name in made[0])
            served.append(made[0])
            with pytest.raises(ringfeed.DataError, match="much"):
                ways[0].push({"x": "much", "kind": "a"})
            assert np.array_equal(ways[0].latest()["features"], made[0]["features"])
    # A window of the training part has the two records of its horizon behind it.
    trained = [window for n, window in enumerate(served) if n % 13 < 11]
    for name in ("features", "categories"):
        assert batch[name].numpy().tobytes() == np.stack([window[name] for window in trained]).tobytes()
    ways[0].clear()
    assert len(ways[0]) == 0 and len(ways[1]) == 4
    with pytest.raises(ringfeed.ConfigError, match="without them"):
        Recipe(columns).fit(ringfeed.open(tmp_path / "rows.csv")).window()


def test_moments_of_numpy_have_any_unit(people: Path) -> None:
    recipe = Recipe(joined=date(parts=["year", "month", "day", "hour"], impute="2000-01-01"))
    prepared = recipe.fit(ringfeed.open(people, fields={"age": Numbers("f32", missing=0.0)}))
    for unit in ("D", "h", "m", "s", "ms", "us", "ns"):
        found = prepared.apply({"joined": np.datetime64("2024-05-01T00", unit)})
        assert found["features"].tolist() == [2024, 5, 1, 0], unit
    assert prepared.apply({"joined": np.datetime64("2024-05", "M")})["features"].tolist() == [2024, 5, 1, 0]
    late = prepared.apply({"joined": np.datetime64("2024-05-01T23:59:59.999999999")})
    assert late["features"].tolist() == [2024, 5, 1, 23]
    assert prepared.apply({"joined": np.datetime64("NaT")})["features"].tolist() == [2000, 1, 1, 0]


def test_a_moment_has_one_name_however_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("when\n2024-05-01T12:00:00.25\n2024-05-01T12:00:00\n2024-05-01\n")
    prepared = Recipe(when=category(unknown=True)).fit(ringfeed.open(tmp_path / "x.csv"))
    quarter = datetime.datetime(2024, 5, 1, 12, 0, 0, 250_000)
    in_rome = datetime.timezone(datetime.timedelta(hours=2))
    for moment, code in [
        (quarter, 3),
        (np.datetime64("2024-05-01T12:00:00.250000000"), 3),
        (datetime.datetime(2024, 5, 1, 14, 0, 0, 250_000, in_rome), 3),
        (quarter.replace(microsecond=0, tzinfo=datetime.UTC), 2),
        (np.datetime64("2024-05-01T12:00:00.000"), 2),
        (datetime.date(2024, 5, 1), 1),
        (quarter.replace(microsecond=1), 0),
    ]:
        assert prepared.apply({"when": moment})["categories"].tolist() == [code], moment


def test_durations_are_refused(people: Path) -> None:
    recipe = Recipe(joined=date(parts=["year", "month", "day", "hour"], impute="2000-01-01"))
    prepared = recipe.fit(ringfeed.open(people, fields={"age": Numbers("f32", missing=0.0)}))

    # As a duration of pandas' is, which has an `isoformat`.
    class Timedelta(datetime.timedelta):
        def isoformat(self) -> str:
            return "P0DT0H0M5S"

    for duration in (np.timedelta64(5, "ns"), Timedelta(seconds=5), datetime.timedelta(seconds=5)):
        with pytest.raises(TypeError, match="duration"):
            prepared.apply({"joined": duration})


def test_a_recipe_is_fitted_to_records_that_have_only_names() -> None:
    pandas = pytest.importorskip("pandas")
    rows = [{"k": "a"}, {"k": "c"}, {"k": "b"}]
    recipe = Recipe(k=category())
    for loader in ringfeed.open(pandas.DataFrame(rows)), ringfeed.from_reader(rows):
        loader = pickle.loads(pickle.dumps(loader)).filter_by("k", lambda row: row["k"] != "d")
        counted = RecipeFit(recipe)
        counted.observe_all(loader)
        for prepared in recipe.fit(loader), counted.finish():
            assert prepared.records == 3 and prepared.apply(rows)["categories"].tolist() == [[0], [2], [1]]


def test_rows_of_tables_are_records(people: Path) -> None:
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    pyarrow = pytest.importorskip("pyarrow")
    prepared = recipe().fit(ringfeed.open(people))
    frame = pandas.read_csv(people, parse_dates=["joined"])
    wanted = next(iter(ringfeed.open(people, prepared=prepared, batch_size=200)))
    for table in frame, pyarrow.table(frame), polars.from_pandas(frame), (frame.iloc[i] for i in range(len(frame))):
        made = prepared.apply(table)
        assert {name: array.tobytes() for name, array in made.items()} == {
            name: wanted[name].numpy().tobytes() for name in wanted
        }
    one = prepared.apply(frame.iloc[5])
    assert one["features"].tobytes() == wanted["features"].numpy()[5].tobytes()
    served = ringfeed.serve(fields={"age": Numbers()})
    assert served.apply(frame[["age"]].iloc[5])["age"] == frame["age"][5]
    assert served.apply(frame[["age"]].iloc[5], age=3)["age"] == 3
    for given, kind in [(frame["age"], "Series"), ("age", "str"), (3, "int"), (["age"], "str")]:
        with pytest.raises(TypeError, match=f"a record is a dict of values by name, and not a {kind}"):
            prepared.apply(given)
    for given in (frame, pyarrow.table(frame), polars.from_pandas(frame)):
        with pytest.raises(TypeError, match="of a table, give one row"):
            served.apply(given)
    with pytest.raises(TypeError, match="not a list"):
        served.apply([{"age": 3}])


def test_members_of_structs_are_served_as_the_columns_that_they_are(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    addresses = [{"city": "Oslo", "age": 30}, {"city": "Bonn", "age": 50}, {"city": None, "age": 40}]
    table = pyarrow.table({"address": addresses})
    parquet.write_table(table, tmp_path / "people.parquet")
    columns = {"address.city": category(unknown=True), "address.age": number(impute="median", scale="standardise")}
    prepared = Recipe(columns).fit(ringfeed.open(tmp_path / "people.parquet"))
    wanted = next(iter(ringfeed.open(tmp_path / "people.parquet", prepared=prepared)))
    assert wanted["categories"].tolist() == [[2], [1], [0]]
    for made in prepared.apply(table), prepared.apply([{"address": address} for address in addresses]):
        assert {name: array.tobytes() for name, array in made.items()} == {
            name: wanted[name].numpy().tobytes() for name in wanted
        }


def test_functions_of_labels_are_left_out_where_records_are_served(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4\n")
    fields = {"x": Numbers(), "y": Numbers(role="label")}
    loader = ringfeed.open(tmp_path / "t.csv", fields=fields).map("y", lambda sample: sample["y"] * 10)
    assert next(iter(loader))["y"].tolist() == [20, 40]
    assert loader.serve().apply(x=3)["x"] == 3


def test_names_are_for_samples_that_have_none(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    with pytest.raises(TypeError, match="names: those of the tensors of a reader or an iterable"):
        ringfeed.open(tmp_path / "t.csv", names=["a", "b"])

"""Numbers, categories and arrays become features by what the training rows say."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fewtask.errors import DataError, RunError, SettingsError
from fewtask.features import Table, load_featuriser
from fewtask.features.array import Array, arranged
from fewtask.features.numbers import MOST_CATEGORIES, Numbers

COLUMNS = {
    "weight": ["1.5", "2.5", "4", "-7", "", "12"],
    "colour": ["red", "blue", "red", "green", "blue", "red"],
    "count": np.array([3, 3, 3, 9, 9, 9]),
}


def fitted(missing: str = "skip") -> tuple[Numbers, Table]:
    table = Table(COLUMNS)
    numbers = Numbers(list(COLUMNS), missing)  # type: ignore[arg-type]
    numbers.fit(table, np.array([0, 1, 2]))
    return numbers, table


def test_features_are_those_of_scikit_learn_fitted_to_the_training_rows() -> None:
    numbers, table = fitted()
    features, good, bad = numbers.transform(table)
    assert good.tolist() == [0, 1, 2, 3, 5]
    assert [(row.line, row.column) for row in bad] == [(5, "weight")]
    weight = np.array([[1.5], [2.5], [4], [-7], [12]])
    colour = np.array([["red"], ["blue"], ["red"], ["green"], ["red"]])
    expected = [
        StandardScaler().fit(weight[:3]).transform(weight),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(colour[:3]).transform(colour),
        # A constant column: only the mean is taken off.
        np.array([[0], [0], [0], [6], [6]]),
    ]
    np.testing.assert_allclose(features, np.hstack(expected), rtol=1e-6)
    assert features.dtype == np.float32


def test_other_rows_do_not_change_what_was_learned() -> None:
    numbers, _ = fitted()
    other = Table({**COLUMNS, "weight": ["1.5", "2.5", "4", "1e9", "5", "6"]})
    again = Numbers(list(COLUMNS))
    again.fit(other, np.array([0, 1, 2]))
    assert again.settings() == numbers.settings()


def test_settings_are_json_and_bring_the_featuriser_back() -> None:
    numbers, table = fitted()
    again = load_featuriser(json.loads(json.dumps(numbers.settings())))
    np.testing.assert_array_equal(again.transform(table)[0], numbers.transform(table)[0])
    assert again.columns == numbers.columns


def test_missing_numbers_can_take_the_mean() -> None:
    numbers, table = fitted("mean")
    features, good, bad = numbers.transform(table)
    assert len(good) == 6
    assert not bad
    assert features[4, 0] == 0.0


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("abc", "'abc' is no number"),
        ("3,5", "a decimal comma?"),
        ("inf", "inf is not a finite number"),
        ("-1e300", "-1e300 is not a finite number"),
        ("nan", "there is no number"),
        ("1_000", "'1_000' is no number"),
    ],
)
def test_a_cell_that_is_no_number_is_named_by_line_and_column(cell: str, words: str) -> None:
    table = Table({"a": [str(n) for n in range(20)] + [cell]}, lines=np.arange(2, 23))
    numbers = Numbers(["a"])
    numbers.fit(table, np.arange(20))
    _, good, bad = numbers.transform(table)
    assert len(good) == 20
    assert words in str(bad[0])
    assert str(bad[0]).startswith("line 22, column 'a': ")


def test_what_a_cell_holds_is_said_in_one_short_line() -> None:
    table = Table({"a": [*map(str, range(20)), "x" * 10_000, "red\x1b[31m\nline"]})
    numbers = Numbers(["a"])
    numbers.fit(table, np.arange(20))
    said = [str(row) for row in numbers.transform(table)[2]]
    assert len(said[0]) < 250
    assert said[1] == "line 22, column 'a': 'red?[31m?line' is no number"


def test_a_far_value_does_not_overflow() -> None:
    table = Table({"a": ["1e-20", "2e-20", "1e29"]})
    numbers = Numbers(["a"])
    numbers.fit(table, np.array([0, 1]))
    assert np.isfinite(numbers.transform(table)[0]).all()


def test_a_column_of_names_is_refused_as_categories() -> None:
    table = Table({"name": [f"person {n}" for n in range(MOST_CATEGORIES + 1)]})
    with pytest.raises(DataError, match="column 'name' has 201 different texts"):
        Numbers(["name"]).fit(table, np.arange(MOST_CATEGORIES + 1))


@pytest.mark.parametrize("shape", [(7, 3), (7, 8, 8), (7, 9, 8, 3), (7, 3, 9, 8), (7, 4, 5, 6)])
def test_arrays_are_standardised_by_the_training_rows(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=shape)
    table, array = Table({"x": values}), Array()
    array.fit(table, np.arange(4))
    features, good, bad = array.transform(table)
    assert len(good) == 7
    assert not bad
    seen = features[:4].reshape(4, features.shape[1], -1) if features.ndim == 4 else features[:4, :, None]
    np.testing.assert_allclose(seen.mean(axis=(0, 2)), 0.0, atol=1e-5)
    np.testing.assert_allclose(seen.std(axis=(0, 2)), 1.0, atol=1e-4)
    again = load_featuriser(json.loads(json.dumps(array.settings())))
    np.testing.assert_array_equal(again.transform(table)[0], features)


def test_channels_come_first_whichever_way_the_images_are_given() -> None:
    first = np.random.default_rng(0).integers(0, 256, size=(5, 3, 10, 12), dtype=np.uint8)
    last = first.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(arranged(last), first)
    array = Array()
    array.fit(Table({"x": last}), np.arange(5))
    features, _, _ = array.transform(Table({"x": last.astype(np.float64)}))
    assert features.dtype == np.uint8
    np.testing.assert_array_equal(features, first)
    with pytest.raises(DataError, match="bytes from 0 to 255"):
        array.transform(Table({"x": last / 255.0}))


def test_a_row_that_is_not_finite_is_named() -> None:
    values = np.ones((4, 3))
    values[2, 1] = np.inf
    array = Array()
    array.fit(Table({"x": values}), np.arange(4))
    features, good, bad = array.transform(Table({"x": values}))
    assert good.tolist() == [0, 1, 3]
    assert str(bad[0]) == "line 3, column 'x[1]': inf is not a finite number"
    assert np.isfinite(features).all()


def test_damaged_settings_are_one_sentence() -> None:
    with pytest.raises(SettingsError, match="unknown kind of input 'smell'"):
        load_featuriser({"kind": "smell"})
    with pytest.raises(RunError, match="the settings of the input 'numbers' are damaged"):
        load_featuriser({"kind": "numbers"})

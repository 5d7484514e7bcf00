"""Tables, folders and arrays as users have them, from the file to labelled rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewtask.errors import DataError
from fewtask.features import Table
from fewtask.own.columns import Columns, as_label, look
from fewtask.own.reading import from_table, read_own

LONG = "task,label,a,b,id\n" + "".join(
    f"t{t},{'yes' if n % 2 else 'no'},{n + t},{'red' if n % 3 else 'blue'},row-{t}-{n}\n"
    for t in range(4)
    for n in range(6)
)
WIDE = "smiles,one,two,note\n" + "".join(
    f"{'C' * (n + 1)}O,{n % 2},{'' if n % 3 == 0 else float(n % 2)},remark {n}\n" for n in range(9)
)


def written(folder: Path, text: str, name: str = "mine.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_a_long_table_is_understood_by_looking_at_it(tmp_path: Path) -> None:
    own = read_own(written(tmp_path, LONG))
    assert own.task_names == ["t0", "t1", "t2", "t3"]
    assert own.featuriser.columns == ("a", "b")
    assert sorted(set(own.labels.tolist())) == ["no", "yes"]
    said = " ".join(own.notes)
    for words in (
        "the column of the label: 'label'",
        "--task-column",
        "'a', 'b' (otherwise --feature-columns)",
        "not used: id",
    ):
        assert words in said
    dataset = own.dataset()
    assert dataset.train.rows.shape[1] == 3


def test_a_wide_table_gives_a_task_a_column_without_its_blanks(tmp_path: Path) -> None:
    own = read_own(written(tmp_path, WIDE))
    assert own.task_names == ["one", "two"]
    assert own.tasks is not None
    two = own.index[own.tasks == "two"]
    assert two.tolist() == [1, 2, 4, 5, 7, 8]
    assert own.labels[own.tasks == "two"].tolist() == ["1", "0", "0", "1", "1", "0"], "1.0 and 1 are one class"
    assert (own.index[own.tasks == "one"] == np.arange(9)).all()
    assert "not used: note" in own.notes
    only = read_own(written(tmp_path, WIDE), Columns(tasks=("two",)))
    assert only.task_names == ["two"]


def test_flags_overrule_looks(tmp_path: Path) -> None:
    path = written(tmp_path, LONG.replace("task,", "assay,").replace("label,", "outcome,"))
    own = read_own(path, Columns(task="assay", label="outcome", numbers=("a",), tasks=("t1", "t2")))
    assert own.task_names == ["t1", "t2"]
    assert own.featuriser.columns == ("a",)
    assert own.notes == ("not used: b, id",)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"path": ["a.png", "b/c.JPG"]}, {"image": "path"}),
        ({"path": ["a.wav", "b.flac"]}, {"audio": "path"}),
        ({"said": ["this is a sentence", "and here is another"]}, {"text": ("said",)}),
        ({"p": ["one two three four"] * 2, "q": ["five six seven eight"] * 2}, {"text": ("p", "q")}),
        ({"Canonical_SMILES": ["CCO", "c1ccccc1"]}, {"smiles": "Canonical_SMILES"}),
        ({"smiles at": ["1", "2"], "n": ["3", "4"]}, {"smiles": "smiles at"}),
        ({"n": ["3", "4"]}, {"numbers": ("n",)}),
    ],
)
def test_inputs_are_found_by_what_they_hold(cells: dict[str, list[str]], expected: dict[str, object]) -> None:
    columns = look(Table({**cells, "label": ["a", "b"], "task": ["t", "t"]}), Columns()).columns
    assert {key: getattr(columns, key) for key in expected} == expected


def test_blank_labels_are_left_out_and_counted() -> None:
    table = Table({"label": ["a", "", "b", "NaN"], "task": ["t", "t", "", "t"], "x": ["1", "2", "3", "4"]})
    own = from_table(table, Columns(), "mine")
    assert own.index.tolist() == [0]
    assert "3 rows have no label or no task and are left out" in own.notes
    assert [as_label(text) for text in ("1.0", "-2.00", "1.50", "007", "none")] == ["1", "-2", "1.50", "007", "none"]


def test_without_tasks_the_classes_are_a_pool() -> None:
    table = Table({"label": list("aabbccddee"), "x": [str(n) for n in range(10)]})
    own = from_table(table, Columns(), "mine")
    assert own.tasks is None
    assert own.dataset().train.is_class_pool


@pytest.mark.parametrize(
    ("text", "columns", "words"),
    [
        (LONG, Columns(label="labell"), "has no column 'labell': its columns are task, label, a, b, id"),
        (LONG, Columns(smiles="a", text=("b",)), "one kind of input is needed and 2 are named"),
        (LONG, Columns(tasks=("t0", "t9")), "unknown task 't9'"),
        (WIDE, Columns(tasks=("one", "twoo")), "unknown|no column"),
        ("a,b\n1,2\n3,4\n", Columns(), "name the label with --label-column"),
        ("smiles,id\nC,x1\nCC,x2\n" + "".join(f"CCC,y{n}\n" for n in range(30)), Columns(), "no column with 2 to 20"),
        (
            "label,x\n" + "".join(f"{n + 0.5},{n}\n" for n in range(30)),
            Columns(),
            "column 'label' of mine.csv holds 30 different numbers",
        ),
        ("label,task\na,t\nb,t\n", Columns(), "has no column to classify by"),
        ("label,x\n,1\n,2\n", Columns(), "has no labelled row"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(text: str, columns: Columns, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as refused:
        read_own(written(tmp_path, text), columns)
    assert "\n" not in str(refused.value)


def picture_folder(folder: Path, depth: int, ending: str = ".png") -> Path:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for task in range(4 if depth == 3 else 1):
        for label in "ab" if depth == 3 else "abcde":
            place = folder / (f"task{task}/{label}" if depth == 3 else label)
            place.mkdir(parents=True)
            for number in range(3):
                image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)).save(place / f"{number}{ending}")
    return folder


def test_a_folder_of_tasks_and_classes(tmp_path: Path) -> None:
    folder = picture_folder(tmp_path / "pictures", 3)
    (folder / "notes.txt").write_text("about")
    (folder / "task0" / "a" / ".hidden.png").write_text("x")
    own = read_own(folder, Columns(features="pixels"))
    assert own.task_names == ["task0", "task1", "task2", "task3"]
    assert sorted(set(own.labels.tolist())) == ["a", "b"]
    assert "took 24 pictures as task/class/file" in own.notes
    assert "1 files of other kinds are left out" in own.notes
    dataset = own.dataset()
    assert dataset.input_shape == (3, 16, 16)
    assert set(dataset.train.sizes.tolist()) == {3}
    assert read_own(folder, Columns(tasks=("task1",))).task_names == ["task1"]


def test_a_folder_of_classes_is_a_pool(tmp_path: Path) -> None:
    own = read_own(picture_folder(tmp_path / "pictures", 2))
    assert own.tasks is None
    assert own.task_names == list("abcde")
    assert own.name == "pictures"


@pytest.mark.parametrize(
    ("extra", "words"),
    [("a/b/c/deep.png", "'a/b/c/deep.png' is not like the others"), ("a/sound.wav", "15 pictures and 1 sounds")],
)
def test_a_folder_of_mixed_form_is_refused(extra: str, words: str, tmp_path: Path) -> None:
    folder = picture_folder(tmp_path / "pictures", 2)
    (folder / extra).parent.mkdir(parents=True, exist_ok=True)
    (folder / extra).write_bytes(b"")
    with pytest.raises(DataError, match=words):
        read_own(folder)


def test_a_folder_of_sounds(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    for label, rate in (("low", 16_000), ("high", 22_050), ("loud", 8_000), ("soft", 44_100)):
        (tmp_path / label).mkdir()
        for number in range(2):
            soundfile.write(
                tmp_path / label / f"{number}.wav", np.sin(np.arange(rate) * 0.1 * (number + 1)) * 0.5, rate
            )
    own = read_own(tmp_path, Columns(features="mel"))
    assert own.notes == ("took 8 sounds as class/file: the classes are a pool",)
    dataset = own.dataset(validation=["loud", "soft"])
    assert dataset.input_shape == (256,)
    assert dataset.train.class_names == ("high", "low")


def test_a_wide_table_of_numbers_needs_its_tasks_named() -> None:
    table = Table({"x": ["1", "2", "3", "4"], "y1": ["a", "b", "a", "b"], "y2": ["", "c", "d", "c"]})
    own = from_table(table, Columns(tasks=("y1", "y2")), "mine")
    assert own.featuriser.columns == ("x",)
    assert own.task_names == ["y1", "y2"]
    assert own.labels.tolist() == ["a", "b", "a", "b", "c", "d", "c"]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (Columns(features="morgan"), "--features is for molecules and images and sound, and these data are numbers"),
        (Columns(size=32), "--image-size is for images"),
        (Columns(smiles="b", missing="mean"), "--missing is for numbers, and these data are molecules"),
    ],
)
def test_options_of_another_kind_of_input_are_refused(columns: Columns, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words):
        read_own(written(tmp_path, LONG), columns)


def test_cells_of_mixed_types_are_read_as_what_they_say() -> None:
    mixed = [1, "2", 3.0, None, float("nan"), "x", True, 2.5]
    table = Table({"label": ["a", "b"] * 4, "task": ["t"] * 8, "m": mixed})
    assert table.texts("m") == ["1", "2", "3", "", "", "x", "True", "2.5"]
    values, wrong = table.numbers("m")
    np.testing.assert_array_equal(values[:3], [1, 2, 3])
    assert wrong.tolist() == [False] * 5 + [True, True, False]


def test_an_empty_folder_and_strange_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no picture and no sound"):
        read_own(tmp_path)
    with pytest.raises(DataError, match="is not there"):
        read_own(tmp_path / "gone.csv")
    with pytest.raises(DataError, match="no kind of file that is read here"):
        read_own(written(tmp_path, "x", "mine.xlsx"))
    with pytest.raises(DataError, match="is a folder and has no columns"):
        read_own(tmp_path, Columns(label="x"))


def test_arrays_in_a_file(tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(12, 4)), np.tile([0, 1], 6)
    np.savez(tmp_path / "mine.npz", X=X, y=y, groups=np.repeat(["a", "b", "c"], 4))
    own = read_own(tmp_path / "mine.npz")
    assert own.task_names == ["a", "b", "c"]
    assert read_own(tmp_path / "mine.npz", Columns(tasks=("a", "c"))).task_names == ["a", "c"]
    np.savez(tmp_path / "other.npz", X=X, targets=y)
    with pytest.raises(DataError, match="has no array y: it has X, targets"):
        read_own(tmp_path / "other.npz")


def test_many_rows_and_tasks_are_divided_quickly() -> None:
    """Work that grew with rows times tasks would take minutes here."""
    count, tasks = 200_000, 2_000
    rng = np.random.default_rng(0)
    table = Table({"x": rng.normal(size=count), "label": np.arange(count) % 2, "task": np.arange(count) // 2 % tasks})
    dataset = from_table(table, Columns(), "many").dataset()
    assert dataset.train.sizes.sum() + dataset.validation.sizes.sum() == count


names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Z")), max_size=6)
cells = st.one_of(names, st.sampled_from(["", "nan", "inf", "-1e400", "1", "2", "0", "a", "b"]), st.floats().map(str))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4).flatmap(lambda w: st.lists(st.lists(cells, min_size=w, max_size=w), min_size=1, max_size=14)))
def test_random_tables_give_pools_or_one_sentence(rows: list[list[str]]) -> None:
    columns = ["label", "x", "task", "z"][: len(rows[0])]
    table = Table({name: [row[place] for row in rows] for place, name in enumerate(columns)})
    said = ""
    try:
        dataset = from_table(table, Columns(), "random").dataset()
        for pool in (dataset.train, dataset.validation):
            assert np.isfinite(pool.rows.numpy()).all()
            assert pool.sizes.min() >= 2
    except DataError as error:
        said = str(error)
    assert said == "" or len(said) > 20

"""The cache of prepared data: written whole, checked, rebuilt when damaged, and read instead of computed."""

from __future__ import annotations

import dataclasses
import errno
import json
from pathlib import Path

import numpy as np
import pytest

from fewtask import datasets
from fewtask.datasets import cache, store
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.errors import DataError, SettingsError, TaskError
from fewtask.pool import Dataset, TaskPool
from fewtask.settings import DataSettings

DATA = DataSettings()


class Toy:
    """A data set of six classes a split whose `prepare` counts its calls."""

    def __init__(self, folder: Path, fixed: bool = False) -> None:
        self.prepared = 0
        self.fixed = fixed
        self.raw = folder / "raw"
        self.raw.mkdir()
        (self.raw / "numbers.txt").write_text("72")
        self.data = folder / "data"
        self.source = Source(
            "toy", "toy", "numbers", "none", "6 / 6 / 6", self.build, self.prepare, "toy",
            files=(RawFile("numbers.txt"),), variant=lambda data: data.features or "plain",
        )  # fmt: skip

    def prepare(self, folder: Path, data: DataSettings, progress: Progress) -> Prepared:
        self.prepared += 1
        count = int((folder / "numbers.txt").read_text())
        return Prepared({"rows": np.arange(count, dtype=np.float32)[:, None]}, {"count": count})

    def build(self, prepared: Prepared, data: DataSettings) -> Dataset:
        pools = []
        for part, rows in enumerate(np.split(prepared.arrays["rows"], 3)):
            classes = {f"class {part}.{number}": np.arange(4) + 4 * number for number in range(6)}
            if self.fixed:
                halves = [dict(list(classes.items())[:3]), dict(list(classes.items())[3:])]
                pools.append(TaskPool.fixed(rows, {f"task {part}.{n}": half for n, half in enumerate(halves)}))
            else:
                pools.append(TaskPool.class_pool(rows, classes))
        return Dataset("toy", *pools)

    def load(self, data: DataSettings = DATA) -> Dataset:
        return cache.load_dataset("toy", data, data_dir=self.data, raw_dir=self.raw)

    @property
    def folder(self) -> Path:
        return self.data / "toy" / "plain-v1"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy(tmp_path)
    monkeypatch.setitem(datasets.SOURCES, "toy", made.source)
    return made


def test_a_second_load_reads_the_cache_and_neither_raw_files_nor_prepare(toy: Toy) -> None:
    first = toy.load()
    (toy.raw / "numbers.txt").unlink()
    second = toy.load()
    assert toy.prepared == 1
    assert first.fingerprint == second.fingerprint
    assert sorted(path.name for path in toy.folder.iterdir()) == ["arrays.safetensors", "manifest.json"]


def test_the_manifest_says_what_was_made_of_what(toy: Toy) -> None:
    toy.load()
    manifest = json.loads((toy.folder / "manifest.json").read_text())
    assert manifest["info"] == {"count": 72}
    assert manifest["arrays"]["size"] == (toy.folder / "arrays.safetensors").stat().st_size
    assert manifest["arrays"]["sha256"] == store.file_checksum(toy.folder / "arrays.safetensors")
    assert manifest["raw"] == {"numbers.txt": store.file_checksum(toy.raw / "numbers.txt")}
    assert (manifest["dataset"], manifest["variant"], manifest["version"]) == ("toy", "plain", 1)
    assert manifest["fewtask"]


def truncate(folder: Path) -> None:
    content = (folder / "arrays.safetensors").read_bytes()
    (folder / "arrays.safetensors").write_bytes(content[: len(content) // 2])


def flip_a_bit(folder: Path) -> None:
    content = bytearray((folder / "arrays.safetensors").read_bytes())
    content[-3] ^= 1
    (folder / "arrays.safetensors").write_bytes(bytes(content))


def spoil_the_header(folder: Path) -> None:
    content = (folder / "arrays.safetensors").read_bytes()
    (folder / "arrays.safetensors").write_bytes(b"\xff" * 8 + content[8:])


def lose_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def halve_the_manifest(folder: Path) -> None:
    content = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(content[: len(content) // 2])


def empty_the_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


DAMAGES = [truncate, flip_a_bit, spoil_the_header, lose_the_manifest, halve_the_manifest, empty_the_manifest]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_noticed_and_rebuilt(toy: Toy, damage) -> None:  # type: ignore[no-untyped-def]
    before = toy.load().fingerprint
    damage(toy.folder)
    assert not cache.is_ready("toy", DATA, toy.data)
    with pytest.raises(DataError, match=r"damaged.*fewtask data prepare toy"):
        cache.verify("toy", DATA, toy.data)
    assert toy.load().fingerprint == before
    assert toy.prepared == 2
    cache.verify("toy", DATA, toy.data)
    assert [path.name for path in (toy.data / "toy").iterdir()] == ["plain-v1"]


def test_a_flipped_bit_of_a_large_cache_is_found_by_verify(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SMALL", 0)
    toy.load()
    flip_a_bit(toy.folder)
    assert cache.is_ready("toy", DATA, toy.data)
    with pytest.raises(DataError, match="does not have its checksum"):
        cache.verify("toy", DATA, toy.data)


def test_verify_of_what_was_never_prepared_says_how_to_prepare_it(toy: Toy) -> None:
    with pytest.raises(DataError, match=r"not prepared.*fewtask data prepare toy"):
        cache.verify("toy", DATA, toy.data)


@pytest.mark.parametrize("failing", ["arrays.safetensors", "manifest.json"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    original = Path.open

    def full(self: Path, mode: str = "r", *args, **named):  # type: ignore[no-untyped-def]
        if self.name == failing and "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return original(self, mode, *args, **named)

    def write(self: Path, content, *args, **named) -> None:  # type: ignore[no-untyped-def]
        with full(self, "wb" if isinstance(content, bytes) else "w") as stream:
            stream.write(content)

    monkeypatch.setattr(Path, "write_bytes", write)
    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(DataError, match=r"no space is left to prepare 'toy'.*FEWTASK_DATA") as caught:
        toy.load()
    assert "\n" not in str(caught.value)
    assert list((toy.data / "toy").iterdir()) == []


def test_a_failing_prepare_leaves_nothing(toy: Toy) -> None:
    (toy.raw / "numbers.txt").write_text("seventy-two")
    with pytest.raises(ValueError, match="seventy-two"):
        toy.load()
    assert not (toy.data / "toy").exists()


def test_a_process_that_prepared_the_same_meanwhile_is_no_error(toy: Toy) -> None:
    prepared = toy.prepare(toy.raw, DATA, datasets.base.quiet)
    store.write(toy.folder, prepared, {})
    inode = toy.folder.stat().st_ino
    store.write(toy.folder, prepared, {})
    assert toy.folder.stat().st_ino == inode
    assert [path.name for path in (toy.data / "toy").iterdir()] == ["plain-v1"]


def test_a_new_version_and_another_variant_have_caches_of_their_own(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.load()
    toy.load(DataSettings(features="fancy"))
    monkeypatch.setitem(datasets.SOURCES, "toy", dataclasses.replace(toy.source, version=2))
    toy.load()
    assert toy.prepared == 3
    assert sorted(path.name for path in (toy.data / "toy").iterdir()) == ["fancy-v1", "plain-v1", "plain-v2"]


def test_the_data_folder_is_the_argument_then_the_variable_then_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWTASK_DATA", str(tmp_path / "variable"))
    assert cache.data_folder(tmp_path / "argument") == tmp_path / "argument"
    assert cache.data_folder(str(tmp_path / "argument")) == tmp_path / "argument"
    assert cache.data_folder() == tmp_path / "variable"
    monkeypatch.delenv("FEWTASK_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.data_folder() == tmp_path / "xdg" / "fewtask"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.data_folder() == tmp_path / ".cache" / "fewtask"


def test_fewer_classes_are_the_first_ones(toy: Toy) -> None:
    loaded = toy.load().pools(DataSettings(train_classes=3, validation_classes=2))
    assert loaded.train.class_names == ("class 0.0", "class 0.1", "class 0.2")
    assert loaded.selection.class_names == ("class 1.0", "class 1.1")
    assert len(loaded.split("test").class_names) == 6
    with pytest.raises(TaskError, match="7 classes were asked for"):
        toy.load().pools(DataSettings(train_classes=7))


def test_training_on_validation_classes_joins_them_into_one_class_pool(toy: Toy) -> None:
    apart, joined = (toy.load().pools(DataSettings(train_on_validation=both)) for both in (False, True))
    assert joined.train.is_class_pool
    assert joined.train.class_names == apart.train.class_names + apart.selection.class_names
    for index, name in enumerate(joined.train.class_names):
        pool = apart.train if index < 6 else apart.selection
        own = pool.class_names.index(name)
        np.testing.assert_array_equal(
            joined.train.gather(joined.train.class_rows[index]), pool.gather(pool.class_rows[own])
        )
    for split in ("validation", "test"):
        assert joined.split(split).digest() == apart.split(split).digest()


def test_training_on_fixed_validation_tasks_keeps_them_separate_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Toy(tmp_path, fixed=True)
    monkeypatch.setitem(datasets.SOURCES, "toy", toy.source)
    joined = toy.load().pools(DataSettings(train_on_validation=True)).train
    assert [task.name for task in joined.tasks] == ["task 0.0", "task 0.1", "task 1.0", "task 1.1"]
    values = joined.gather(joined.class_rows[joined.tasks[2].classes[0]])
    assert values.flatten().tolist() == [24.0, 25.0, 26.0, 27.0]


def test_a_data_set_that_ships_with_the_package_needs_no_folder(tmp_path: Path) -> None:
    assert cache.is_ready("rainbow-digits", DATA, tmp_path)
    assert len(cache.load_dataset("rainbow-digits", DATA, data_dir=tmp_path).train.tasks) == 16
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean 'metabolism'"):
        cache.load_dataset("metabolisme", DATA)


def test_the_second_load_of_real_molecules_makes_no_fingerprints(
    raw_dir: Path, prepared_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rdkit", reason="RDKit is not installed")
    cache.load_dataset("metabolism", DATA, data_dir=prepared_dir, raw_dir=raw_dir)
    never = dataclasses.replace(datasets.SOURCES["metabolism"], prepare=lambda *_: pytest.fail("prepared again"))
    monkeypatch.setitem(datasets.SOURCES, "metabolism", never)
    cache.load_dataset("metabolism", DATA, data_dir=prepared_dir, raw_dir=raw_dir)


def test_a_cache_of_a_wrong_file_is_made_again_when_the_right_one_is_there(toy: Toy) -> None:
    (toy.raw / "numbers.txt").write_text("144")
    assert len(toy.load().train.rows) == 48
    (toy.raw / "numbers.txt").write_text("72")
    assert len(toy.load().train.rows) == 24
    assert toy.prepared == 2
    assert [path.name for path in (toy.data / "toy").iterdir()] == ["plain-v1"]


def test_a_raw_file_that_was_only_touched_or_copied_is_the_same(toy: Toy) -> None:
    toy.load()
    (toy.raw / "numbers.txt").write_text("72")
    toy.load()
    assert toy.prepared == 1


def test_a_file_without_records_is_refused_and_makes_no_cache(toy: Toy) -> None:
    (toy.raw / "numbers.txt").write_text("0")
    with pytest.raises(DataError, match="'toy' has no records in"):
        toy.load()
    assert not toy.folder.exists()
    (toy.raw / "numbers.txt").write_text("72")
    assert len(toy.load().train.rows) == 24


def test_a_header_without_lines_is_no_tox21(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="RDKit is not installed")
    from fewtask.datasets import tox21

    (tmp_path / "raw").mkdir()
    header = ",".join(["smiles", *(assay for split in tox21.ASSAYS.values() for assay in split)])
    (tmp_path / "raw" / "tox21.csv").write_text(header + "\n")
    with pytest.raises(DataError, match="'tox21' has no records"):
        cache.load_dataset("tox21", DATA, data_dir=tmp_path / "data", raw_dir=tmp_path / "raw")


def test_a_manifest_that_was_changed_is_not_believed(toy: Toy) -> None:
    toy.load()
    path = toy.folder / "manifest.json"
    path.write_text(path.read_text().replace('"count": 72', '"count": 73'))
    assert store.problem(toy.folder) is not None
    toy.load()
    assert toy.prepared == 2

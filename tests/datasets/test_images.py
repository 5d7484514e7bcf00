"""RMNIST, CIFAR-100-FS and Mini-ImageNet-S: the paper's classes and counts, and damaged files."""

from __future__ import annotations

import gzip
import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import made_raw
from fewtask.datasets import cifar100_fs, mini_imagenet_s, rmnist
from fewtask.datasets.base import Prepared, quiet
from fewtask.datasets.cache import load_dataset
from fewtask.datasets.rainbow import COLOURS, TRANSFORMS, paint, task_name
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset
from fewtask.sampler import EpisodeSampler
from fewtask.settings import DataSettings


def load(name: str, raw_dir: Path, prepared_dir: Path, **settings: object) -> Dataset:
    return load_dataset(name, DataSettings(**settings), data_dir=prepared_dir, raw_dir=raw_dir)  # type: ignore[arg-type]


# RMNIST


def test_rmnist_has_the_papers_tasks_with_100_images_a_class(raw_dir: Path, prepared_dir: Path) -> None:
    dataset = load("rmnist", raw_dir, prepared_dir)
    assert [len(dataset.split(split).tasks) for split in SPLITS] == [16, 6, 10]
    for split in SPLITS:
        pool = dataset.split(split)
        assert [task.name for task in pool.tasks] == [task_name(transform) for transform in TRANSFORMS[split]]
        assert all(len(task.classes) == 10 for task in pool.tasks)
        assert (pool.sizes == 100).all()
    assert dataset.input_shape == (3, 28, 28)


def test_no_mnist_image_is_dealt_to_two_of_the_56_sub_datasets(raw_dir: Path) -> None:
    labels = np.concatenate(
        [rmnist.read_idx(raw_dir / "mnist" / f"{part}-labels-idx1-ubyte.gz") for part in ("train", "t10k")]
    )
    dealt = rmnist.deal(labels, seed=0)
    assert dealt.shape == (56, 10, 100)
    assert len(np.unique(dealt)) == 56_000
    assert (labels[dealt] == np.arange(10)[None, :, None]).all()
    assert (dealt == rmnist.deal(labels, seed=0)).all()
    assert (dealt != rmnist.deal(labels, seed=1)).mean() > 0.9


def test_an_rmnist_row_is_the_dealt_image_painted_with_its_tasks_transform() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 5_600).astype(np.uint8)
    # Each image is uniform in a grey that tells it apart, so that its colour proves which one was taken.
    greys = rng.integers(0, 256, size=len(labels), dtype=np.uint8)
    images = np.broadcast_to(greys[:, None, None], (len(labels), 28, 28))
    dataset = rmnist.build(Prepared({"images": images, "labels": labels}), DataSettings(seed=3))
    transform = TRANSFORMS["test"][6]
    index = rmnist.deal(labels, seed=3)[rmnist.SUB_DATASETS.index(transform), 4, 17]
    rows = dataset.test.class_rows[dataset.test.tasks[6].classes[4]]
    expected = np.round((1 - greys[index] / 255) * np.array(COLOURS[transform[0]]))
    assert np.abs(dataset.test.rows[rows[17], :, 14, 14].numpy() - expected).max() <= 1


def test_max_per_class_keeps_the_first_of_the_dealt_images() -> None:
    labels = np.repeat(np.arange(10), 5_600).astype(np.uint8)
    images = np.random.default_rng(0).integers(0, 256, size=(56_000, 28, 28), dtype=np.uint8)
    prepared = Prepared({"images": images, "labels": labels})
    whole = rmnist.build(prepared, DataSettings())
    part = rmnist.build(prepared, DataSettings(max_per_class=20))
    assert (part.train.sizes == 20).all()
    for few, all_rows in zip(part.train.class_rows, whole.train.class_rows):
        assert (part.train.rows[few] == whole.train.rows[all_rows[:20]]).all()


def test_paint_colours_the_background_and_leaves_full_ink_black() -> None:
    ink = np.zeros((1, 28, 28), dtype=np.uint8)
    ink[0, 10, 12] = 255
    image = paint(ink, ("orange", "full", 0))[0]
    assert image[:, 0, 0].tolist() == [255, 165, 0]
    assert image[:, 10, 12].tolist() == [0, 0, 0]


def test_paint_turns_by_quarters_of_a_circle() -> None:
    ink = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)
    upright = paint(ink, ("violet", "full", 0))
    for angle in (90, 180, 270):
        turned = paint(ink, ("violet", "full", angle))
        assert (turned == np.rot90(upright, angle // 90, axes=(2, 3))).all()


def test_paint_at_half_size_shrinks_the_digit_into_the_middle() -> None:
    ink = np.full((1, 28, 28), 255, dtype=np.uint8)
    image = paint(ink, ("red", "half", 0))[0, 0]
    assert (image[7:21, 7:21] == 0).all()
    assert (image == 0).sum() == 14 * 14
    assert (image[image > 0] == 255).all()


def test_a_truncated_idx_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + (2).to_bytes(4, "big") * 3 + bytes(8))[:-9])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz is damaged"):
        rmnist.read_idx(path)


def test_an_idx_file_of_another_type_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "floats.gz"
    path.write_bytes(gzip.compress(b"\0\0\x0d\x01" + (1).to_bytes(4, "big") + bytes(4)))
    with pytest.raises(DataError, match="unsigned bytes"):
        rmnist.read_idx(path)


# CIFAR-100-FS


def test_cifar_has_the_papers_classes_by_name_with_all_their_images(raw_dir: Path, prepared_dir: Path) -> None:
    dataset = load("cifar100-fs", raw_dir, prepared_dir)
    assert [len(dataset.split(split).class_names) for split in SPLITS] == [12, 16, 20]
    assert dataset.train.class_names[0] == "apple"
    assert dataset.train.class_names[-1] == "boy"
    assert dataset.validation.class_names[0] == "possum"
    assert dataset.test.class_names[-1] == "worm"
    for split in SPLITS:
        assert (dataset.split(split).sizes == (600 if os.environ.get("FEWTASK_RAW") else made_raw.IMAGES)).all()
    assert dataset.train.rows.numpy().dtype == np.uint8
    assert dataset.input_shape == (3, 32, 32)


def test_cifar_batches_are_scaled_to_between_minus_one_and_one(raw_dir: Path, prepared_dir: Path) -> None:
    dataset = load("cifar100-fs", raw_dir, prepared_dir)
    episode = EpisodeSampler(dataset.test, seed=0).sample(batch=2, way=5, shot=5, query=15)
    assert episode.support.shape == (2, 5, 5, 3, 32, 32)
    assert -1 <= episode.support.min() < -0.9
    assert 0.9 < episode.support.max() <= 1


def write_cifar(folder: Path, per_class: int) -> Path:
    """CIFAR-100 in the publisher's layout, with images whose bytes are their class."""
    inside = folder / "cifar-100-python"
    inside.mkdir(parents=True)
    fine = np.repeat(np.arange(100), per_class)
    data = np.repeat(fine.astype(np.uint8)[:, None], 3072, axis=1)
    for part in ("train", "test"):
        (inside / part).write_bytes(pickle.dumps({b"data": data, b"fine_labels": fine.tolist()}, protocol=2))
    names = [f"name{label}".encode() for label in range(100)]
    (inside / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=2))
    return folder


def test_cifar_rows_stay_with_their_class_and_other_classes_are_left_out(tmp_path: Path) -> None:
    prepared = cifar100_fs.prepare(write_cifar(tmp_path, 3), DataSettings(), quiet)
    dataset = cifar100_fs.build(prepared, DataSettings())
    for split, first in (("train", 0), ("validation", 64), ("test", 80)):
        pool = dataset.split(split)
        for number, (name, rows) in enumerate(zip(pool.class_names, pool.class_rows)):
            assert name == f"name{first + number}"
            assert len(rows) == 6
            assert (pool.rows[rows] == first + number).all()


def test_max_per_class_draws_with_the_data_seed(tmp_path: Path) -> None:
    prepared = cifar100_fs.prepare(write_cifar(tmp_path, 20), DataSettings(), quiet)
    first, again, other = (
        cifar100_fs.build(prepared, DataSettings(max_per_class=10, seed=seed)).train for seed in (0, 0, 1)
    )
    assert (first.sizes == 10).all()
    assert all((a == b).all() for a, b in zip(first.class_rows, again.class_rows))
    assert any((a != b).any() for a, b in zip(first.class_rows, other.class_rows))


class Foreign:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo a pickle must not run this",)


def test_a_cifar_pickle_with_a_foreign_class_is_refused(tmp_path: Path) -> None:
    folder = write_cifar(tmp_path, 1)
    (folder / "cifar-100-python" / "train").write_bytes(pickle.dumps({b"data": Foreign()}))
    with pytest.raises(DataError, match="train is refused"):
        cifar100_fs.prepare(folder, DataSettings(), quiet)


def test_a_cifar_pickle_without_labels_is_named(tmp_path: Path) -> None:
    folder = write_cifar(tmp_path, 1)
    (folder / "cifar-100-python" / "test").write_bytes(pickle.dumps({b"data": np.zeros((1, 3072), np.uint8)}))
    with pytest.raises(DataError, match="test has no data and fine_labels"):
        cifar100_fs.prepare(folder, DataSettings(), quiet)


# Mini-ImageNet-S


def test_mini_imagenet_has_the_papers_12_training_classes(raw_dir: Path, prepared_dir: Path) -> None:
    dataset = load("mini-imagenet-s", raw_dir, prepared_dir)
    assert dataset.train.class_names == mini_imagenet_s.TRAIN_CLASSES
    assert [len(dataset.split(split).class_names) for split in SPLITS] == [12, 16, 20]
    for split, name in mini_imagenet_s.TABLES.items():
        lines = mini_imagenet_s.read_list(raw_dir / "mini_imagenet" / name)
        counted = Counter(label for _, label in lines)
        pool = dataset.split(split)
        assert {label: int(size) for label, size in zip(pool.class_names, pool.sizes)} == counted
    assert dataset.input_shape == (3, 84, 84)
    assert dataset.train.rows.numpy().dtype == np.uint8


def test_a_prepared_mini_imagenet_row_is_the_jpeg_that_the_csv_names(raw_dir: Path, prepared_dir: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    dataset = load("mini-imagenet-s", raw_dir, prepared_dir)
    name, label = mini_imagenet_s.read_list(raw_dir / "mini_imagenet" / "val.csv")[177]
    expected = np.asarray(image_module.open(raw_dir / "mini_imagenet" / "images" / name).convert("RGB"))
    assert (dataset.validation.rows[177].numpy() == expected.transpose(2, 0, 1)).all()
    assert 177 in dataset.validation.class_rows[dataset.validation.class_names.index(label)]


def write_mini_imagenet(folder: Path, size: int = 84) -> Path:
    image_module = pytest.importorskip("PIL.Image")
    (folder / "images").mkdir(parents=True)
    tables = {"train": [*mini_imagenet_s.TRAIN_CLASSES, "n99999999"], "val": ["n1", "n2"], "test": ["n3", "n4"]}
    for number, (table, labels) in enumerate(tables.items()):
        lines = ["filename,label"] + [f"{label}.jpg,{label}" for label in labels]
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")
        for label in labels:
            image_module.new("RGB", (size, size), (40 * number, 90, 200)).save(folder / "images" / f"{label}.jpg")
    return folder


def test_training_classes_that_the_paper_does_not_use_are_left_out(tmp_path: Path) -> None:
    prepared = mini_imagenet_s.prepare(write_mini_imagenet(tmp_path), DataSettings(), quiet)
    assert prepared.info["classes"]["train"] == list(mini_imagenet_s.TRAIN_CLASSES)
    assert len(prepared.arrays["train"]) == 12


def test_an_image_of_another_size_is_resized(tmp_path: Path) -> None:
    prepared = mini_imagenet_s.prepare(write_mini_imagenet(tmp_path, size=100), DataSettings(), quiet)
    assert prepared.arrays["test"].shape == (2, 3, 84, 84)
    assert np.abs(prepared.arrays["test"][0, :, 40, 40].astype(int) - [80, 90, 200]).max() <= 4


def test_a_jpeg_that_is_not_one_is_named(tmp_path: Path) -> None:
    folder = write_mini_imagenet(tmp_path)
    (folder / "images" / "n2.jpg").write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=r"n2\.jpg is not a readable JPEG"):
        mini_imagenet_s.prepare(folder, DataSettings(), quiet)


def test_a_jpeg_that_is_cut_off_is_named(tmp_path: Path) -> None:
    folder = write_mini_imagenet(tmp_path)
    path = folder / "images" / "n3.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"n3\.jpg is not a readable JPEG"):
        mini_imagenet_s.prepare(folder, DataSettings(), quiet)


def test_a_listed_image_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = write_mini_imagenet(tmp_path)
    (folder / "images" / "n4.jpg").unlink()
    with pytest.raises(DataError, match=r"n4\.jpg is missing"):
        mini_imagenet_s.prepare(folder, DataSettings(), quiet)


def test_a_csv_without_labels_is_refused(tmp_path: Path) -> None:
    folder = write_mini_imagenet(tmp_path)
    (folder / "val.csv").write_text("filename\nn1.jpg\n")
    with pytest.raises(DataError, match=r"val\.csv has no column 'label'"):
        mini_imagenet_s.prepare(folder, DataSettings(), quiet)

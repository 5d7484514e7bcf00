"""Publishers' files in small, in the publishers' own layouts: what readers are tested on where the files are not."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fewtask.datasets import cifar100_fs, esc50, glue_scitail, metabolism, mini_imagenet_s, nci, tox21
from fewtask.pool import SPLITS

ENDS = ("N", "O", "F", "Cl", "Br", "S", "C(=O)O", "C#N", "c1ccccc1", "C1CC1", "C=C", "C(F)(F)F")
MIDDLES = ("", "O", "N", "S")
UNREADABLE = "C1CC"
IMAGES, PICTURES, CLIPS = 24, 21, 40
"""A class of CIFAR-100, of Mini-ImageNet and of ESC-50."""
YAMNET_CHANNELS = (32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)


def make_all(folder: Path) -> Path:
    """A raw folder: one sub-folder a data set."""
    for name, make in MAKERS.items():
        (folder / name).mkdir(parents=True)
        make(folder / name)
    return folder


def molecules(length: int = 15) -> list[tuple[str, tuple[int, int, int]]]:
    """SMILES of chains, and what they are made of: end, chain and middle."""
    kinds = itertools.product(range(len(ENDS)), range(length), range(len(MIDDLES)))
    return [
        ("C" * (chain + 1) + MIDDLES[middle] + "CC" + ENDS[end], (end, chain, middle)) for end, chain, middle in kinds
    ]


def active(kind: tuple[int, int, int], assay: int) -> int:
    """Half of the ends make a molecule active, others in each assay."""
    return int((kind[0] + assay) % len(ENDS) < len(ENDS) // 2)


def make_tox21(folder: Path) -> None:
    assays = [assay for split in SPLITS for assay in tox21.ASSAYS[split]]
    lines = [",".join(["smiles", *assays])]
    for number, (smiles, kind) in enumerate(molecules()):
        # Blanks where a molecule was not tested.
        cells = ["" if (number + 7 * a) % 31 == 0 else str(active(kind, a)) for a in range(len(assays))]
        lines.append(",".join([smiles, *cells]))
    lines.insert(100, ",".join([UNREADABLE, *["0"] * len(assays)]))
    (folder / tox21.FILE).write_text("\n".join(lines) + "\n")


def make_metabolism(folder: Path) -> None:
    for number, assay in enumerate(metabolism.DATAVERSE):
        # The assays of Veith hold more than are taken of a class.
        listed = molecules(25) if "Veith" in assay else molecules()
        rows = [f"{row}.0\t{smiles}\t{active(kind, number)}" for row, (smiles, kind) in enumerate(listed)]
        (folder / metabolism.file_name(assay)).write_text("\n".join(["Drug_ID\tDrug\tY", *rows]) + "\n")


def make_nci(folder: Path) -> None:
    """Chains of atoms in SDF files; actives first, as the publisher has them."""
    middles, ends = ("C", "N", "O", "S"), ("C", "N", "O", "F", "S", "Cl", "Br", "P", "I", "B", "Se", "Si")
    with zipfile.ZipFile(folder / nci.FILE, "w", zipfile.ZIP_DEFLATED) as out:
        for number, assay in enumerate(assay for split in SPLITS for assay in nci.ASSAYS[split]):
            texts: dict[str, list[str]] = {"1.0": [], "-1.0": []}
            for place, (_, (end, chain, middle)) in enumerate(molecules()):
                atoms = ["C"] * (chain + 1) + [middles[middle], "C", middles[middle], ends[end]]
                # The middle of a molecule decides, but for one in ten of each assay.
                value = "1.0" if (middle < 2) != ((place + number) % 10 == 0) else "-1.0"
                texts[value].append(f"{number}\n\n\n{block(atoms)}M  END\n> <value>\n{value}\n\n$$$$\n")
            out.writestr(f"NCI_balanced/{assay}-balance.sdf", "".join(texts["1.0"] + texts["-1.0"]))


def block(atoms: Sequence[str]) -> str:
    """The atoms of a chain and its bonds, in the columns of a V2000 file."""
    lines = [f"{len(atoms):3d}{len(atoms) - 1:3d}  0  0  0  0  0  0  0  0999 V2000"]
    lines += [
        f"{x:10.4f}{0:10.4f}{0:10.4f} {atom:<3} 0  0  0  0  0  0  0  0  0  0  0  0" for x, atom in enumerate(atoms)
    ]
    lines += [f"{one:3d}{one + 1:3d}  1  0" for one in range(1, len(atoms))]
    return "\n".join(lines) + "\n"


def make_mnist(folder: Path) -> None:
    """Just enough images of each digit, all of a digit alike."""
    shapes = np.random.default_rng(0).integers(0, 256, size=(10, 28, 28), dtype=np.uint8)
    for part, each in (("train", 5_000), ("t10k", 600)):
        labels = np.tile(np.arange(10, dtype=np.uint8), each)
        for kind, array in (("images-idx3", shapes[labels]), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes(), 1))


def noisy(shapes: np.ndarray, labels: np.ndarray, most: int = 40) -> np.ndarray:
    """Images [R, ...] of bytes: the shape of each label under noise."""
    noise = np.random.default_rng(1).integers(-most, most + 1, size=(len(labels), *shapes.shape[1:]))
    return np.clip(shapes[labels] + noise, 0, 255).astype(np.uint8)


def make_cifar(folder: Path) -> None:
    inside = folder / cifar100_fs.FOLDER
    inside.mkdir()
    # Patches of like colours under much noise: a network that has not learned errs.
    patches = np.random.default_rng(2).integers(88, 169, size=(cifar100_fs.FINE, 3, 4, 4))
    shapes = patches.repeat(8, axis=2).repeat(8, axis=3).reshape(cifar100_fs.FINE, -1)
    for part, each in (("train", 5 * IMAGES // 6), ("test", IMAGES // 6)):
        labels = np.repeat(np.arange(cifar100_fs.FINE), each)
        content = {b"data": noisy(shapes, labels, most=127), b"fine_labels": labels.tolist()}
        (inside / part).write_bytes(pickle.dumps(content, protocol=2))
    known = {0: b"apple", 11: b"boy", 64: b"possum", 99: b"worm"}
    names = [known.get(number, f"class {number}".encode()) for number in range(cifar100_fs.FINE)]
    (inside / "meta").write_bytes(pickle.dumps({b"fine_label_names": names}, protocol=2))


def make_mini_imagenet(folder: Path) -> None:
    from PIL import Image

    (folder / "images").mkdir()
    classes = {"train": list(mini_imagenet_s.TRAIN_CLASSES)}
    classes |= {"val": [f"n1{number:07}" for number in range(16)], "test": [f"n2{number:07}" for number in range(20)]}
    # Large patches survive the compression of JPEG.
    patches = np.random.default_rng(3).integers(0, 256, size=(48, 4, 4, 3))
    shapes = patches.repeat(21, axis=1).repeat(21, axis=2)
    first = 0
    for table, labels in classes.items():
        lines = ["filename,label"]
        for place, label in enumerate(labels):
            for number, picture in enumerate(noisy(shapes, np.full(PICTURES, first + place))):
                name = f"{label}{number:08}.jpg"
                Image.fromarray(picture).save(folder / "images" / name)
                lines.append(f"{name},{label}")
        first += len(labels)
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")


def make_esc50(folder: Path) -> None:
    """All 2,000 lines of the index, embeddings of every clip, ten clips and weights that nobody has trained."""
    import soundfile

    for name in ("meta", "audio", "yamnet"):
        (folder / name).mkdir()
    categories = [category for split in SPLITS for category in esc50.CLASSES[split]]
    lines, filenames, labels = ["filename,fold,target,category,esc10,src_file,take"], [], []
    for target, number in itertools.product(range(len(categories)), range(CLIPS)):
        fold, source = number // 8 + 1, 1_000 * (target + 1) + number // 2
        take = "AB"[number % 2]
        filenames.append(f"{fold}-{source}-{take}-{target}.wav")
        labels.append(target)
        lines.append(f"{filenames[-1]},{fold},{target},{categories[target]},False,{source},{take}")
    (folder / esc50.INDEX).write_text("\n".join(lines) + "\n")
    rng = np.random.default_rng(4)
    for name in filenames[:10]:
        soundfile.write(folder / "audio" / name, 0.1 * rng.normal(size=44_100 * esc50.SECONDS), 44_100)
    means = rng.exponential(size=(len(categories), 1, 1024)).astype(np.float16)
    frames = means[labels] + rng.exponential(size=(len(labels), 1, 1024)).astype(np.float16)
    np.savez(
        folder / esc50.EMBEDDINGS, emb=frames.repeat(9, axis=1), filename=np.array(filenames),
        category=np.array(categories)[labels],
    )  # fmt: skip
    np.savez(folder / esc50.YAMNET_WEIGHTS, **yamnet_weights(rng))


def yamnet_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights in YAMNet's layout, of such a size that sounds keep their strength on the way."""

    def made(name: str, shape: tuple[int, ...], inputs: int) -> dict[str, np.ndarray]:
        weight = rng.normal(size=shape) * (2 / inputs) ** 0.5
        out = shape[3] if name.endswith("dw") else shape[0]
        return {f"{name}.w": weight.astype(np.float32), f"{name}.b": np.zeros(out, np.float32)}

    weights = made("layer1", (YAMNET_CHANNELS[0], 3, 3, 1), 9)
    for number, (before, after) in enumerate(itertools.pairwise(YAMNET_CHANNELS), start=2):
        weights |= made(f"layer{number}.dw", (1, 3, 3, before), 9)
        weights |= made(f"layer{number}.pw", (after, 1, 1, before), before)
    return weights


def make_glue_scitail(folder: Path) -> None:
    words = ("water", "boils", "cats", "sleep", "rivers", "freeze", "birds", "sing", "stones", "sink")
    for task in glue_scitail.NAMES:
        no = "neutral" if task in ("MNLI", "SNLI") else "not_entailment"
        out = io.StringIO()
        for number in range(90):
            first, second = words[number % 10], words[(number // 10 + 3 * (number % 2)) % 10]
            # Entailment: the hypothesis repeats the premise. Two rows share each hypothesis.
            hypothesis = f"{first} {second} {number // 2 * 2}"
            premise = f"It is said that {hypothesis}" if number % 2 == 0 else f"nobody knows of {number} {second}"
            line = {"premise": premise, "hypothesis": hypothesis, "label": no if number % 2 else "entailment"}
            out.write(json.dumps(line) + "\n")
        (folder / f"{task.lower()}.jsonl").write_text(out.getvalue())


MAKERS = {
    "tox21": make_tox21,
    "metabolism": make_metabolism,
    "nci": make_nci,
    "mnist": make_mnist,
    "cifar100": make_cifar,
    "mini_imagenet": make_mini_imagenet,
    "esc50": make_esc50,
    "glue_scitail": make_glue_scitail,
}

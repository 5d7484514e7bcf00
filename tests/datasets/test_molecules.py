"""Metabolism, Tox21 and NCI: small tables written here, and the publishers' files against the paper."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fewtask.datasets import get_source, metabolism, nci, tox21
from fewtask.datasets.base import Prepared, quiet
from fewtask.datasets.cache import load_dataset, prepare, prepared_folder
from fewtask.datasets.store import read
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings

pytest.importorskip("rdkit", reason="RDKit is not installed")

DATA = DataSettings()


def sizes(pool: TaskPool) -> dict[str, tuple[int, ...]]:
    return {task.name: tuple(int(pool.sizes[index]) for index in task.classes) for task in pool.tasks}


def loaded(name: str, raw_dir: Path, prepared_dir: Path, **settings: object) -> Dataset:
    data = DataSettings(**settings)  # type: ignore[arg-type]
    return load_dataset(name, data, data_dir=prepared_dir, raw_dir=raw_dir)


def from_cache(name: str, raw_dir: Path, prepared_dir: Path) -> Prepared:
    prepare(name, DATA, data_dir=prepared_dir, raw_dir=raw_dir)
    return read(prepared_folder(get_source(name), DATA, prepared_dir))


def write_metabolism(folder: Path, lines: Mapping[str, str]) -> None:
    for assay in metabolism.DATAVERSE:
        text = lines.get(assay, "a\tCCO\t1\nb\tCCN\t0\n")
        (folder / metabolism.file_name(assay)).write_text("Drug_ID\tDrug\tY\n" + text)


def test_repeated_and_contradicting_molecules_are_counted(tmp_path: Path) -> None:
    write_metabolism(tmp_path, {"CYP2D6_Veith": "a\tCCO\t1\nb\tOCC\t0\nc\tCCC\t0\nd\tCCC\t0\ne\tbad\t1\n"})
    prepared = metabolism.prepare(tmp_path, DATA, quiet)
    assert prepared.info["per_assay"]["CYP2D6_Veith"] == {
        "rows": 5, "failed": 1, "inactive": 3, "active": 1, "repeated": 2, "contradicting": 1,
    }  # fmt: skip
    assert prepared.info["failed"] == 1
    assert prepared.info["failed_first"][0]["where"] == "cyp2d6_veith.tab, line 6: bad"
    pool = metabolism.build(prepared, DATA).validation
    assert sizes(pool)["CYP2D6_Veith"] == (3, 1)
    # The molecule that the assay lists twice is two rows with the same bits.
    inactive = pool.class_rows[pool.tasks[0].classes[0]]
    assert len(set(inactive.tolist())) == 3
    assert len(np.unique(pool.rows[inactive].numpy(), axis=0)) == 2


def test_a_table_without_the_needed_column_names_column_and_file(tmp_path: Path) -> None:
    write_metabolism(tmp_path, {})
    (tmp_path / "cyp1a2_veith.tab").write_text("Drug_ID\tDrug\tLabel\na\tCCO\t1\n")
    with pytest.raises(DataError, match=r"cyp1a2_veith\.tab has no column 'Y'.*Drug_ID, Drug, Label"):
        metabolism.prepare(tmp_path, DATA, quiet)


def test_a_label_that_is_neither_0_nor_1_is_refused_with_its_line(tmp_path: Path) -> None:
    write_metabolism(tmp_path, {"CYP1A2_Veith": "a\tCCO\t1\nb\tCCN\tmaybe\n"})
    with pytest.raises(DataError, match=r"cyp1a2_veith\.tab, line 3: the label is 'maybe'"):
        metabolism.prepare(tmp_path, DATA, quiet)


def test_tox21_reads_blanks_as_untested_in_either_publishers_layout(tmp_path: Path) -> None:
    assays = [assay for split in SPLITS for assay in tox21.ASSAYS[split]]
    lines = [["CCO", "1", ""] + ["0"] * 10, ["CCN", "0.0", "1.0"] + [""] * 10]
    found = []
    for first, separator in (("smiles", ","), ("X", "\t")):
        rows = [separator.join(cells) for cells in [[first, *assays], *lines]]
        (tmp_path / "tox21.csv").write_text("\n".join(rows) + "\n")
        found.append(tox21.prepare(tmp_path, DATA, quiet))
    assert found[0].arrays["labels"][0, :3].tolist() == [1, -1, 0]
    assert found[0].arrays["labels"][1, :3].tolist() == [0, 1, -1]
    np.testing.assert_array_equal(found[0].arrays["labels"], found[1].arrays["labels"])
    np.testing.assert_array_equal(found[0].arrays["bits"], found[1].arrays["bits"])


def sdf(symbols: str, value: str | None, title: str = "1") -> str:
    """A chain of atoms as an SDF record."""
    atoms = "".join(f"    0.0000    0.0000    0.0000 {symbol}   0  0  0  0  0  0\n" for symbol in symbols)
    bonds = "".join(f"{n:3d}{n + 1:3d}  1  0  0  0\n" for n in range(1, len(symbols)))
    head = f"{title}\n\n\n{len(symbols):3d}{len(symbols) - 1:3d}  0  0  0  0              1 V2000\n"
    kept = "" if value is None else f"> <value>\n{value}\n\n"
    return f"{head}{atoms}{bonds}M  END\n{kept}$$$$\n"


def write_nci(folder: Path, special: Mapping[str, str]) -> None:
    with zipfile.ZipFile(folder / nci.FILE, "w") as out:
        for split in SPLITS:
            for assay in nci.ASSAYS[split]:
                text = special.get(assay, sdf("CCO", "1.0") + sdf("CCN", "-1.0", "2"))
                out.writestr(f"NCI_balanced/{assay}-balance.sdf", text)


def test_an_sdf_record_that_fails_is_counted_listed_and_left_out(tmp_path: Path) -> None:
    # A fluorine between two carbons breaks the valence rule; the second bad record is no structure at all.
    bad = sdf("CFC", "1.0", "fluorine") + "wreck\n\n\nnonsense\nM  END\n> <value>\n-1.0\n\n$$$$\n"
    write_nci(tmp_path, {"33": sdf("CCO", "1.0") + bad + sdf("CCCC", "-1.0")})
    prepared = nci.prepare(tmp_path, DATA, quiet)
    assert prepared.info["failed"] == 2
    assert [item["where"] for item in prepared.info["failed_first"]] == [
        "33-balance.sdf, record 2: fluorine",
        "33-balance.sdf, record 3: wreck",
    ]
    assert sizes(nci.build(prepared, DATA).test)["33"] == (1, 1)
    # Ethanol recurs in all nine assays and is one molecule.
    assert prepared.info["molecules"] == 3


def test_an_sdf_record_without_its_value_is_refused(tmp_path: Path) -> None:
    write_nci(tmp_path, {"81": sdf("CCO", "1.0") + sdf("CCO", None)})
    with pytest.raises(DataError, match=r"81-balance\.sdf, record 2 has no property 'value'"):
        nci.prepare(tmp_path, DATA, quiet)


def test_a_truncated_zip_of_nci_is_refused_in_one_sentence(tmp_path: Path) -> None:
    write_nci(tmp_path, {})
    content = (tmp_path / nci.FILE).read_bytes()
    (tmp_path / nci.FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"NCI_balanced\.zip is damaged"):
        nci.prepare(tmp_path, DATA, quiet)


def test_a_raw_folder_closed_to_writing_is_enough(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    write_nci(raw, {})
    raw.chmod(stat.S_IRUSR | stat.S_IXUSR)
    before = sorted(raw.iterdir())
    try:
        load_dataset("nci", DATA, data_dir=tmp_path / "data", raw_dir=raw)
        assert sorted(raw.iterdir()) == before
    finally:
        raw.chmod(stat.S_IRWXU)


def test_metabolism_has_the_rows_of_the_publisher_and_the_papers_tasks(
    publishers_dir: Path, prepared_dir: Path
) -> None:
    info = from_cache("metabolism", publishers_dir, prepared_dir).info
    rows = {assay: counts["rows"] for assay, counts in info["per_assay"].items()}
    assert rows == {
        "CYP1A2_Veith": 12579, "CYP3A4_Veith": 12328, "CYP2C9_Substrate_CarbonMangels": 669,
        "CYP2D6_Veith": 13130, "CYP2D6_Substrate_CarbonMangels": 667, "CYP2C19_Veith": 12665,
        "CYP2C9_Veith": 12092, "CYP3A4_Substrate_CarbonMangels": 670,
    }  # fmt: skip
    repeats = {a: c["repeated"] for a, c in info["per_assay"].items() if c["repeated"]}
    assert repeats == {assay: 3 for assay in rows if "Substrate" in assay}
    assert info["per_assay"]["CYP2D6_Substrate_CarbonMangels"]["contradicting"] == info["contradicting"] == 1
    dataset = loaded("metabolism", publishers_dir, prepared_dir)
    assert sizes(dataset.train) == {
        "CYP1A2_Veith": (500, 500), "CYP3A4_Veith": (500, 500), "CYP2C9_Substrate_CarbonMangels": (500, 141),
    }  # fmt: skip
    assert sizes(dataset.validation) == {
        "CYP2D6_Veith": (500, 500), "CYP2D6_Substrate_CarbonMangels": (476, 191),
    }  # fmt: skip
    assert sizes(dataset.test) == {
        "CYP2C19_Veith": (500, 500), "CYP2C9_Veith": (500, 500), "CYP3A4_Substrate_CarbonMangels": (315, 355),
    }  # fmt: skip
    assert dataset.train.class_names[:2] == ("inactive", "active")
    assert dataset.features == {"kind": "fingerprint", "fingerprint": "morgan", "bits": 1024, "radius": 2}
    assert dataset.train.rows.numpy().dtype == np.uint8
    assert set(np.unique(dataset.train.rows.numpy())) == {0, 1}


def test_tox21_has_the_rows_of_the_publisher_and_the_papers_tasks(publishers_dir: Path, prepared_dir: Path) -> None:
    info = from_cache("tox21", publishers_dir, prepared_dir).info
    assert (info["records"], info["molecules"], info["failed"]) == (7831, 7823, 8)
    assert len(info["failed_first"]) == 8
    dataset = loaded("tox21", publishers_dir, prepared_dir)
    for split in SPLITS:
        assert tuple(task.name for task in dataset.split(split).tasks) == tox21.ASSAYS[split]
    assert sizes(dataset.train)["NR-AR"] == (6950, 308)
    assert sizes(dataset.test)["SR-p53"] == (6344, 423)
    assert len(dataset.test.rows) <= 7823


def test_nci_has_the_rows_of_the_publisher_and_the_papers_tasks(publishers_dir: Path, prepared_dir: Path) -> None:
    prepared = from_cache("nci", publishers_dir, prepared_dir)
    info = prepared.info
    assert (info["records"], info["failed"], len(info["failed_first"])) == (33028, 577, 20)
    dataset = loaded("nci", publishers_dir, prepared_dir)
    assert sizes(dataset.train) == dict.fromkeys(("41", "47", "83", "109"), (500, 500))
    assert sizes(dataset.validation) == {"81": (2062, 2016), "145": (1622, 1595)}
    assert sizes(dataset.test) == {"1": (1773, 1734), "33": (1457, 1420), "123": (2690, 2630)}


def test_test_molecules_of_nci_recur_in_other_assays_as_often_as_noted(
    publishers_dir: Path, prepared_dir: Path
) -> None:
    prepared = from_cache("nci", publishers_dir, prepared_dir)
    molecule, labels = prepared.arrays["molecule"], prepared.arrays["labels"]
    columns = {assay: labels[:, index] >= 0 for index, assay in enumerate(prepared.info["assays"])}

    def recurring(seen: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        others = np.unique(np.concatenate([molecule[columns[assay]] for assay in seen]))
        own = {assay: np.unique(molecule[columns[assay]]) for assay in nci.ASSAYS["test"]}
        return {assay: (int(np.isin(ids, others).sum()), len(ids)) for assay, ids in own.items()}

    training, validation = nci.ASSAYS["train"], nci.ASSAYS["validation"]
    assert recurring(training) == {"1": (1947, 3470), "33": (1574, 2840), "123": (2552, 5261)}
    assert recurring(training + validation) == {"1": (2153, 3470), "33": (1760, 2840), "123": (2925, 5261)}


@pytest.mark.parametrize("name", ["metabolism", "tox21", "nci"])
@pytest.mark.parametrize("seed", [0, 1])
def test_strict_splits_share_no_molecule_and_serve_five_shot_episodes(
    raw_dir: Path, prepared_dir: Path, name: str, seed: int
) -> None:
    prepared = from_cache(name, raw_dir, prepared_dir)
    # Instead of bits, each molecule carries its own number, so that rows tell which molecule they are.
    count = len(prepared.arrays["bits"])
    numbers = np.arange(count, dtype=">u4").view(np.uint8).reshape(count, 4)
    marked = Prepared(dict(prepared.arrays) | {"bits": numbers}, prepared.info)
    dataset = get_source(name).build(marked, DataSettings(strict=True, seed=seed))
    held = {}
    for split in SPLITS:
        pool = dataset.split(split)
        rows = np.packbits(pool.rows.numpy(), axis=1).view(">u4").reshape(-1)
        held[split] = set(rows.tolist())
        for index in pool.class_rows:
            assert len(set(rows[index].tolist())) == len(index), "a molecule counts once in a class"
        assert pool.sizes.min() >= 20, "5 support and 15 query rows"
    assert not held["train"] & held["validation"]
    assert not held["train"] & held["test"]
    assert not held["validation"] & held["test"]


def test_a_strict_class_gets_its_share_of_rows(raw_dir: Path, prepared_dir: Path) -> None:
    everything, strict = (loaded("tox21", raw_dir, prepared_dir, strict=flag) for flag in (False, True))
    for split, share in (("train", 0.60), ("validation", 0.15), ("test", 0.25)):
        whole, part = everything.split(split).sizes, strict.split(split).sizes
        np.testing.assert_allclose(part / whole, share, atol=0.03)


def test_the_data_seed_draws_other_rows_and_the_same_seed_the_same(raw_dir: Path, prepared_dir: Path) -> None:
    first, again, other = (loaded("metabolism", raw_dir, prepared_dir, seed=seed) for seed in (0, 0, 1))
    assert first.fingerprint == again.fingerprint
    assert first.train.digest() != other.train.digest()
    assert sizes(first.train) == sizes(other.train)


def test_max_per_class_limits_all_of_metabolism_and_only_training_of_nci(raw_dir: Path, prepared_dir: Path) -> None:
    limited = loaded("metabolism", raw_dir, prepared_dir, max_per_class=50)
    assert {int(size) for split in SPLITS for size in limited.split(split).sizes} == {50}
    limited = loaded("nci", raw_dir, prepared_dir, max_per_class=50)
    assert set(limited.train.sizes.tolist()) == {50}
    assert limited.test.sizes.tolist() == loaded("nci", raw_dir, prepared_dir).test.sizes.tolist()
    assert limited.test.sizes.min() > 50


def test_rows_of_a_class_are_what_a_plain_loop_over_the_file_gives(raw_dir: Path, prepared_dir: Path) -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    make = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    lines = (raw_dir / "metabolism" / "cyp3a4_substrate_carbonmangels.tab").read_text().splitlines()[1:]
    active = [line.split("\t")[1] for line in lines if line.split("\t")[2] == "1"]
    expected = np.stack([make.GetFingerprintAsNumPy(Chem.MolFromSmiles(smiles)) for smiles in active])
    pool = loaded("metabolism", raw_dir, prepared_dir).test
    task = pool.tasks[pool.task_index("CYP3A4_Substrate_CarbonMangels")]
    np.testing.assert_array_equal(pool.gather(pool.class_rows[task.classes[1]]).numpy(), expected)

"""Fingerprints against RDKit called directly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fewtask.datasets import fingerprints
from fewtask.datasets.base import quiet
from fewtask.datasets.fingerprints import from_smiles, kind_of, read_molecules, unpack
from fewtask.errors import DataError, SettingsError
from fewtask.settings import DataSettings

pytest.importorskip("rdkit", reason="RDKit is not installed")

SMILES = ("CC(=O)Nc1ccc(O)cc1", "c1ccccc1", "CCO", "OCC", "CC(=O)Oc1ccccc1C(=O)O")


def plain(smiles: str, kind: str) -> np.ndarray:
    """The same bits through RDKit's older functions."""
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdMolDescriptors

    molecule = Chem.MolFromSmiles(smiles)
    size = 2048 if kind.endswith("-2048") else 1024
    if kind.startswith("morgan"):
        vector = rdMolDescriptors.GetMorganFingerprintAsBitVect(molecule, 2, nBits=size)
    elif kind.startswith("counts"):
        vector = rdMolDescriptors.GetHashedMorganFingerprint(molecule, 2, nBits=size)
    else:
        vector = Chem.RDKFingerprint(molecule, fpSize=size)
    bits = np.zeros(size, dtype=np.uint8)
    DataStructs.ConvertToNumpyArray(vector, bits)
    return bits


@pytest.mark.parametrize("kind", ["morgan", "rdkit", "counts", "morgan-2048", "rdkit-2048", "counts-2048"])
def test_bits_are_those_of_rdkits_own_functions(kind: str) -> None:
    expected = np.stack([plain(smiles, kind) for smiles in SMILES])
    found = from_smiles(SMILES, kind)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, expected)
    assert found.sum(axis=1).min() > 0


def test_two_ways_of_writing_a_molecule_are_one_molecule() -> None:
    found = read_molecules(SMILES, "morgan")
    assert found.index[2] == found.index[3]
    assert len(found.packed) == 4


@pytest.mark.parametrize("kind", ["morgan", "rdkit"])
def test_mirror_images_share_their_bits_and_are_two_molecules(kind: str) -> None:
    found = read_molecules(["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "N[C@@H](C)C(=O)O"], kind)
    np.testing.assert_array_equal(found.packed[0], found.packed[1])
    assert found.index[0] != found.index[1]
    # The third text is the first molecule, written from its other end.
    assert found.index[2] == found.index[0]
    assert len(found.packed) == 2


def test_texts_that_do_not_parse_are_marked_and_the_others_kept() -> None:
    found = read_molecules(["CCO", "C(C)(C)(C)(C)C", "not a molecule", "", "c1ccccc1"], "morgan")
    assert [int(index) >= 0 for index in found.index] == [True, False, False, False, True]


def test_each_distinct_text_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    original = fingerprints.fingerprint_chunk

    def spy(texts: Sequence[str], kind: str, form: str) -> object:
        seen.extend(texts)
        return original(texts, kind, form)  # type: ignore[arg-type]

    monkeypatch.setattr(fingerprints, "fingerprint_chunk", spy)
    found = read_molecules(["CCO", "CCN", "CCO", "CCO"], "morgan", workers=1)
    assert seen == ["CCO", "CCN"]
    assert found.index[0] == found.index[2] == found.index[3] != found.index[1]


def test_processes_give_what_one_process_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "CHUNK", 7)
    smiles = ["C" * carbons + "O" * oxygens for carbons in range(1, 12) for oxygens in range(3)] + ["bad"]
    alone = read_molecules(smiles, "rdkit", workers=1)
    together = read_molecules(smiles, "rdkit", workers=3)
    np.testing.assert_array_equal(alone.packed, together.packed)
    np.testing.assert_array_equal(alone.index, together.index)


def test_progress_counts_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "CHUNK", 2)
    totals: list[int | None] = []

    def progress(items, what, total=None):  # type: ignore[no-untyped-def]
        totals.append(total)
        return quiet(items, what, total)

    read_molecules(["C", "CC", "CCC", "CCCC", "CCCCC"], "morgan", progress=progress, workers=1)
    assert totals == [3]


def test_the_order_of_texts_does_not_change_the_molecules() -> None:
    forward, backward = read_molecules(SMILES, "morgan"), read_molecules(SMILES[::-1], "morgan")
    np.testing.assert_array_equal(forward.packed, backward.packed)
    np.testing.assert_array_equal(forward.index, backward.index[::-1])


def test_no_texts_give_no_molecules() -> None:
    found = read_molecules([], "morgan")
    assert unpack(found.packed).shape == (0, 1024)
    assert found.index.shape == (0,)


def test_an_unreadable_smiles_for_prediction_is_named() -> None:
    with pytest.raises(DataError, match="number 2, 'nonsense'"):
        from_smiles(["CCO", "nonsense"])


def test_an_unknown_kind_is_refused_with_the_nearest_name() -> None:
    assert kind_of(DataSettings()) == "morgan"
    with pytest.raises(SettingsError, match="did you mean 'morgan'"):
        kind_of(DataSettings(features="morgen"))


def test_rdkit_says_nothing_about_bad_molecules(capfd: pytest.CaptureFixture[str]) -> None:
    read_molecules(["C(C)(C)(C)(C)C"], "morgan")
    assert capfd.readouterr().err == ""

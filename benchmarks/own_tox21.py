"""Is the adapted classifier better than logistic regression on the same ten molecules? Tox21, as a user's own table.

    python benchmarks/own_tox21.py tox21.csv [--steps 1500] [--out RUN]

Trains on the nine first assays. From each of the three last it draws, 40 times, 5 active and 5 inactive molecules with
their labels and 100 + 100 others to ask about; the table that it prints is in docs/your-own-data.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from fewtask.features.molecules import Molecules
from fewtask.features.reading import read_table
from fewtask.features.table import Table
from fewtask.learner import MetaLearner, Model
from fewtask.methods.logistic import regress
from fewtask.own import OwnData
from fewtask.own.measures import accuracies, areas, calibration_error

ASIDE = 3
DRAWS, SHOWN, ASKED = 40, 5, 100
SMILES, IDENTITY = "smiles", "mol_id"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--method", default="protonet")
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="keeps the trained model there")
    parser.add_argument("--features", default=None, help="kind of fingerprint")
    arguments = parser.parse_args()
    table = read_table(arguments.table)
    assays = [name for name in table.names if name not in (SMILES, IDENTITY)]
    learner = MetaLearner(arguments.method, steps=arguments.steps, random_state=arguments.seed, verbose=True)
    learner.fit_data(long_form(table, assays[:-ASIDE], arguments.features), arguments.out)
    compare(learner.fitted_model(), table, assays[-ASIDE:])


def long_form(table: Table, assays: list[str], features: str | None) -> OwnData:
    """The labelled molecules of some assays; blank cells are molecules that were not measured."""
    index, labels, tasks = [], [], []
    for assay in assays:
        cells = np.array(table.texts(assay))
        rows = np.flatnonzero(cells != "")
        index.append(rows)
        labels.append(cells[rows])
        tasks.append(np.full(len(rows), assay))
    featuriser = Molecules(SMILES, features)
    return OwnData("tox21", table, np.concatenate(index), np.concatenate(labels), np.concatenate(tasks), featuriser)


def compare(model: Model, table: Table, assays: list[str]) -> None:
    """Both on the same draws; means over draws, and the half-width of the 95 % interval of their difference."""
    assert model.featuriser is not None
    features, good, _ = model.featuriser.transform(table)
    place = np.full(len(table), -1)
    place[good] = np.arange(len(good))
    print("\n| assay | | accuracy % | AUC % | calibration error |\n|---|---|---:|---:|---:|")
    ours_all, theirs_all = [], []
    for number, assay in enumerate(assays):
        cells = np.array(table.texts(assay))
        members = [place[np.flatnonzero((cells == label) & (place >= 0))] for label in ("0", "1")]
        ours, theirs = draws(model, features, members, np.random.default_rng(number))
        report(assay, ours, theirs)
        ours_all.append(ours)
        theirs_all.append(theirs)
    report("all three", np.concatenate(ours_all), np.concatenate(theirs_all))


def draws(
    model: Model, features: np.ndarray, members: list[np.ndarray], rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities [draws, 2 * ASKED, 2] of the adapted model and of logistic regression."""
    labels = np.arange(2).repeat(SHOWN)
    ours, theirs = [], []
    for _ in range(DRAWS):
        mixed = [rng.permutation(rows) for rows in members]
        support = features[np.concatenate([rows[:SHOWN] for rows in mixed])]
        query = features[np.concatenate([rows[SHOWN : SHOWN + ASKED] for rows in mixed])]
        ours.append(model.adapt(support, labels, 2).judge(query).log_probabilities)
        shown, asked = (torch.from_numpy(rows.astype(np.float64)) for rows in (support, query))
        theirs.append(regress(shown, torch.from_numpy(labels), 2, asked).numpy())
    return np.stack(ours), np.stack(theirs)


def report(assay: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    for name, found in (("adapted model", ours), ("logistic regression", theirs)):
        print(
            f"| {assay} | {name} | {100 * accuracies(found).mean():.1f} | {100 * areas(found).mean():.1f} "
            f"| {calibration_error(found):.3f} |"
        )
    for what, measure in (("accuracy", accuracies), ("AUC", areas)):
        gain = 100 * (measure(ours) - measure(theirs))
        print(
            f"| {assay} | gain in {what} | {gain.mean():+.1f} ± {1.96 * gain.std(ddof=1) / len(gain) ** 0.5:.1f} | | |"
        )


if __name__ == "__main__":
    main()

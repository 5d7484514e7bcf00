"""Is choosing by cross-validation worth it? A nested benchmark: python benchmarks/nested.py tox21 nci --minutes 10

For each seed `auto` sees training and validation tasks only, and is scored once on meta-test: its refit, the vote of
its folds, and both. Beside it every single method stands twice: with the usual split (weights selected on validation
tasks) and with the refit (trained on training and validation tasks for as many steps as the usual split selected, no
selection; a λ then learns on tasks that are trained on, which is what `auto` avoids). All on the same episodes of the
same meta-test tasks.

Everything lies in --out, a folder a run; interrupted, the same command goes on. The result is a JSON file a data set
and seed, and a table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fewtask.auto import AutoSettings, Chosen, choose_for
from fewtask.auto.calibration import Calibration
from fewtask.auto.candidates import Candidate, candidate_settings, candidates
from fewtask.auto.folds import available
from fewtask.auto.vote import judge_episodes
from fewtask.datasets.cache import load_dataset
from fewtask.files import read_json, write_json
from fewtask.methods import Method
from fewtask.own.measures import accuracies, calibration_error
from fewtask.pool import Dataset
from fewtask.presets import load_preset, preset_label
from fewtask.protocol import EpisodeList, draw_episodes
from fewtask.run import execute
from fewtask.settings import RunSettings, update

SINGLES = ("centroid, unit", "logistic regression", "protonet", "protonet, weak decay", "protonet, scaled",
           "mean-interpolation", "metamix", "mlti", "meta-interpolation, frozen", "meta-interpolation",
           "protonet-st")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="+", help="data sets or presets")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0, help="of auto, a seed")
    parser.add_argument("--steps", type=int, default=1600, help="of each single method")
    parser.add_argument("--most-steps", type=int, default=3200, help="of auto's longest runs")
    parser.add_argument("--episodes", type=int, default=1000, help="of meta-test")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--singles", default=";".join(SINGLES), help="candidates by name; empty: none")
    parser.add_argument("--out", type=Path, default=Path("runs/nested"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--raw-dir", type=Path)
    flags = parser.parse_args(argv)
    console = Console(width=140)
    for preset in flags.presets:
        for seed in range(flags.seeds):
            one_seed(preset, seed, flags, console)
        console.print(table(preset, [result_of(preset, seed, flags.out) for seed in range(flags.seeds)]))
    return 0


def folder_of(preset: str, seed: int, out: Path) -> Path:
    return out / f"{preset_label(preset)}-{seed}"


def result_of(preset: str, seed: int, out: Path) -> dict[str, Any]:
    path = folder_of(preset, seed, out) / "nested.json"
    found: dict[str, Any] = read_json(path) if path.exists() else {}
    return found


def one_seed(preset: str, seed: int, flags: argparse.Namespace, console: Console) -> None:
    """Fills the file of a seed, row by row; what is in it is not done again."""
    folder = folder_of(preset, seed, flags.out)
    base = update(load_preset(preset, "protonet"), {"seed": seed})
    dataset = load_dataset(base.dataset, base.data, data_dir=flags.data_dir, raw_dir=flags.raw_dir)
    assert dataset.test is not None
    e = base.episode
    episodes = draw_episodes(dataset.test, flags.episodes, e.way, e.shot, base.evaluation.query, base.evaluation.seed)
    found = result_of(preset, seed, flags.out)

    def note(row: str, values: dict[str, Any]) -> None:
        found[row] = values
        write_json(folder / "nested.json", found)
        console.print(f"{preset}, seed {seed}, {row}: {100 * values['accuracy']:.2f}", highlight=False)

    if "auto, both" not in found:
        for row, values in automatic(dataset, base, folder, flags, episodes, console).items():
            note(row, values)
    pool = available(dataset, base.data, e.way)
    tried = {candidate.name: candidate for candidate in candidates(pool)}
    for name in filter(None, flags.singles.split(";")):
        steps = flags.steps
        if f"{name}, usual split" not in found:
            values = single(dataset, base, tried[name], folder, flags.steps, episodes, refit=False)
            note(f"{name}, usual split", values)
        if f"{name}, refit" not in found:
            steps = max(1, found[f"{name}, usual split"]["steps"])
            note(f"{name}, refit", single(dataset, base, tried[name], folder, steps, episodes, refit=True))


def automatic(
    dataset: Dataset,
    base: RunSettings,
    folder: Path,
    flags: argparse.Namespace,
    episodes: EpisodeList,
    console: Console,
) -> dict[str, dict[str, Any]]:
    """What is chosen without a look at meta-test, scored there once for each way to vote."""
    blind = Dataset(dataset.name, dataset.train, dataset.validation, None, dataset.features, dataset.notes,
                    dataset.made_with)  # fmt: skip
    options = AutoSettings(minutes=flags.minutes, most_steps=flags.most_steps, ensemble="both")
    chosen: Chosen = choose_for(
        blind, base, folder / "auto", options, workers=flags.workers, say=console.print, show_progress=False
    )
    about = {"winner": chosen.winner.candidate.name, "steps": chosen.winner.steps, "verdict": chosen.verdict}
    voters = {"refit": chosen.members[:1], "folds": chosen.members[1:] or chosen.members, "both": chosen.members}
    return {
        f"auto, {name}": about | scored(members, dataset, episodes, chosen.calibration)
        for name, members in voters.items()
    }


def single(
    dataset: Dataset,
    base: RunSettings,
    candidate: Candidate,
    folder: Path,
    steps: int,
    episodes: EpisodeList,
    refit: bool,
) -> dict[str, Any]:
    """One method: selected on validation tasks, or trained on them too for a given number of steps."""
    data = {"data": {**base.data.__dict__, "train_on_validation": refit}}
    settings = update(candidate_settings(base, candidate, steps), data)
    settings = update(settings, {"train": {"validate_every": max(1, steps // 16), "validation_episodes": 500}})
    out = folder / f"{candidate.slug}-{'refit' if refit else 'split'}"
    result = execute(settings, dataset, out, test=False, show_progress=False)
    return {"steps": result.record["selected_step"]} | scored((result.method,), dataset, episodes, None)


def scored(
    members: Sequence[Method], dataset: Dataset, episodes: EpisodeList, calibration: Calibration | None
) -> dict[str, Any]:
    """Accuracy, and calibration error before and after, on meta-test."""
    assert dataset.test is not None
    found = judge_episodes(members, dataset.test, episodes).log_probabilities
    values = {"accuracy": float(accuracies(found).mean()), "calibration_error": calibration_error(found)}
    if calibration is not None:
        honest = calibration.apply(found, np.full(episodes.rows.shape[1], episodes.shot))
        values["calibrated_error"] = calibration_error(honest)
    return values


def table(preset: str, seeds: Sequence[dict[str, Any]]) -> Table:
    made = Table(title=f"{preset}: meta-test, {len(seeds)} seeds", title_justify="left")
    for heading in ("", "accuracy %", "each seed", "calibration error", "calibrated", "winners"):
        made.add_column(heading)
    for row in dict.fromkeys(name for one in seeds for name in one):
        values = [one[row] for one in seeds if row in one]
        right = [100 * value["accuracy"] for value in values]
        after = [value["calibrated_error"] for value in values if "calibrated_error" in value]
        made.add_row(
            row,
            f"{np.mean(right):.2f}",
            " ".join(f"{value:.1f}" for value in right),
            f"{np.mean([value['calibration_error'] for value in values]):.3f}",
            f"{np.mean(after):.3f}" if after else "",
            ", ".join(dict.fromkeys(value["winner"] for value in values if "winner" in value)),
        )
    return made


if __name__ == "__main__":
    raise SystemExit(main())

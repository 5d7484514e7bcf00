"""Which fingerprint does meta-validation prefer on Tox21, NCI and Metabolism?

    python benchmarks/fingerprint_kinds.py --raw-dir DIR --seeds 3 --record docs/fingerprints.md

ProtoNet with each kind, on the same validation episodes, with averaged weights and the weight decays that are named;
meta-test is left alone. The better decay of each kind counts. Runs are kept in --runs, so that the command continues
where it was stopped.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from fewtask.cli.common import make_console, progress_on
from fewtask.datasets.cache import load_dataset
from fewtask.datasets.fingerprints import KINDS
from fewtask.errors import FewtaskError
from fewtask.files import write_json, write_text
from fewtask.presets import load_preset
from fewtask.run import execute
from fewtask.settings import update
from fewtask.threads import settle_threads

DATASETS = ("tox21", "nci", "metabolism")


@dataclass(frozen=True)
class Flags:
    raw_dir: Path | None = None
    """Folder of the publishers' files (or FEWTASK_RAW)."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    runs: Path = Path("runs/fingerprints")
    """Where the runs are kept."""
    record: Path | None = None
    """Markdown file to write; the numbers go beside it as JSON."""
    datasets: tuple[str, ...] = DATASETS
    kinds: tuple[str, ...] = KINDS
    decays: tuple[float, ...] = (0.0, 0.1)
    """Weight decays to choose from."""
    steps: int = 1500
    seeds: int = 1
    threads: int = 1


def accuracy(flags: Flags, name: str, kind: str, decay: float, seed: int) -> float:
    """Validation accuracy of the selected weights."""
    changes = {
        "seed": seed,
        "data": {"features": kind},
        "optimizer": {"weight_decay": decay},
        "train": {"steps": flags.steps, "average": 0.999},
    }
    settings = update(load_preset(name, "protonet"), changes)
    progress = progress_on(make_console(stderr=True))
    dataset = load_dataset(
        settings.dataset, settings.data, data_dir=flags.data_dir, raw_dir=flags.raw_dir, progress=progress
    )
    out = flags.runs / f"{name}-{kind}-{decay:g}-{flags.steps}-{seed}"
    return float(execute(settings, dataset, out, test=False).record["validation"]["accuracy"])


def main() -> int:
    flags = tyro.cli(Flags, description=__doc__)
    settle_threads(flags.threads)
    rows = []
    for name in flags.datasets:
        for kind in flags.kinds:
            by_decay = {
                decay: [accuracy(flags, name, kind, decay, seed) for seed in range(flags.seeds)]
                for decay in flags.decays
            }
            best = max(by_decay, key=lambda decay: float(np.mean(by_decay[decay])))
            rows.append({"dataset": name, "kind": kind, "decay": best, "accuracies": by_decay[best]})
            print(line(rows[-1]), flush=True)
    if flags.record is not None:
        head = ["| data set | fingerprint | weight decay | validation accuracy % |", "|---|---|---:|---:|"]
        about = [
            "# Which fingerprint does meta-validation prefer?",
            "",
            f"Written by `benchmarks/fingerprint_kinds.py`: ProtoNet, {flags.steps} steps, averaged weights, the",
            f"better of the weight decays {', '.join(f'{d:g}' for d in flags.decays)}; mean over {flags.seeds} seeds,",
            "and the lowest and the highest of them.",
            "",
        ]
        write_text(flags.record, "\n".join([*about, *head, *map(line, rows)]) + "\n")
        write_json(flags.record.with_suffix(".json"), {"steps": flags.steps, "rows": rows})
    return 0


def line(row: dict[str, object]) -> str:
    values = 100 * np.array(row["accuracies"])
    spread = f" ({values.min():.2f} to {values.max():.2f})" if len(values) > 1 else ""
    return f"| {row['dataset']} | {row['kind']} | {row['decay']:g} | {values.mean():.2f}{spread} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FewtaskError as error:
        print(error, file=sys.stderr)
        sys.exit(1)

"""The demo: ProtoNet and Meta-Interpolation on rainbow digits, three seeds each, side by side."""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewtask.settings import RunSettings, update
from fewtask.statistics import student_half_width
from fewtask.threads import one_thread

METHODS = ("protonet", "meta-interpolation")
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class DemoRun:
    method: str
    seed: int
    record: dict[str, Any]
    history: list[dict[str, Any]]

    def curve(self, key: str) -> tuple[list[int], list[float]]:
        """Steps and values of one quantity of the history."""
        rows = [row for row in self.history if key in row]
        return [row["step"] for row in rows], [row[key] for row in rows]


def run_demo(out: Path, steps: int | None, workers: int, tell: Callable[[DemoRun], None]) -> list[DemoRun]:
    """Trains all runs, in as many processes as there are cores; runs that are finished already are read."""
    # The longer runs first, so that no core is idle at the end.
    jobs = [(method, seed) for method in reversed(METHODS) for seed in SEEDS]
    context = multiprocessing.get_context("spawn")
    runs: list[DemoRun] = []
    with one_thread(), ProcessPoolExecutor(max_workers=workers, mp_context=context) as pool:
        waiting = [pool.submit(demo_run, method, seed, out, steps) for method, seed in jobs]
        for done in as_completed(waiting):
            runs.append(done.result())
            tell(runs[-1])
    return sorted(runs, key=lambda run: (METHODS.index(run.method), run.seed))


def demo_run(method: str, seed: int, out: Path, steps: int | None) -> DemoRun:
    from fewtask.datasets.cache import load_dataset
    from fewtask.run import execute
    from fewtask.threads import settle_threads
    from fewtask.training.history import read_history

    settle_threads(1)
    settings = demo_settings(method, seed, steps)
    folder = out / f"{method}-{seed}"
    dataset = load_dataset(settings.dataset, settings.data)
    result = execute(settings, dataset, folder, show_progress=False)
    return DemoRun(method, seed, result.record, read_history(folder / "history.jsonl"))


def demo_settings(method: str, seed: int, steps: int | None) -> RunSettings:
    from fewtask.presets import load_preset

    settings = update(load_preset("rainbow-digits", method), {"seed": seed})
    return settings if steps is None else update(settings, {"train": {"steps": steps}})


def summary(runs: list[DemoRun], method: str) -> dict[str, tuple[float, float]]:
    """Mean over seeds and half-width of its 95 % interval by Student's t, of each number of the table."""
    own = [run for run in runs if run.method == method]
    columns = {
        "test accuracy %": [100 * run.record["test"]["accuracy"] for run in own],
        "validation accuracy %": [100 * run.record["validation"]["accuracy"] for run in own],
        "training loss": [statistics.fmean(run.curve("loss")[1][-10:]) for run in own],
        "validation loss": [run.curve("validation_loss")[1][-1] for run in own],
        "seconds": [run.record["seconds"] for run in own],
    }
    return {name: (statistics.fmean(values), student_half_width(values)) for name, values in columns.items()}


def draw(runs: list[DemoRun], path: Path) -> None:
    """Training and validation loss against steps, a line a seed and the mean in bold."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"protonet": "#D55E00", "meta-interpolation": "#0072B2"}
    names = {"protonet": "ProtoNet", "meta-interpolation": "Meta-Interpolation"}
    titles = {"loss": "Meta-training loss", "validation_loss": "Meta-validation loss"}
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for axis, (key, title) in zip(axes, titles.items()):
        for method in METHODS:
            curves = [
                smooth(*run.curve(key), 1 if key == "validation_loss" else 5) for run in runs if run.method == method
            ]
            for steps, values in curves:
                axis.plot(steps, values, color=colours[method], alpha=0.25, linewidth=0.8)
            steps = curves[0][0]
            mean = [statistics.fmean(at) for at in zip(*(values for _, values in curves))]
            axis.plot(steps, mean, color=colours[method], linewidth=2.2, label=names[method])
        axis.set(title=title, xlabel="step", ylabel="cross-entropy")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].legend(frameon=False)
    figure.suptitle(f"Rainbow digits, 10-way 1-shot, {len(SEEDS)} seeds", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def smooth(steps: list[int], values: list[float], width: int) -> tuple[list[int], list[float]]:
    """A running mean over so many points."""
    means = [statistics.fmean(values[max(0, i - width + 1) : i + 1]) for i in range(len(values))]
    return steps, means

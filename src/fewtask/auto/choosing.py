"""Choose for the user: cross-validate over tasks, take the best, train it on everything, say how sure it may be.

OUT/tasks.safetensors   the tasks
OUT/auto.json           what was asked, so that the same command goes on
OUT/folds/              a run for each candidate and fold; the winner's stay
OUT/refit/              the winner trained on all tasks: an ordinary run
OUT/leaderboard.csv     all candidates
OUT/vote.json           who votes, temperature and doubt by shot, calibration error before and after, the verdict
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewtask.auto.calibration import SHOTS, Calibration
from fewtask.auto.candidates import candidates, keeping
from fewtask.auto.fold_run import TASKS, Clock, FoldRun, Search
from fewtask.auto.folds import available, fold_count
from fewtask.auto.halving import Budget, Outcome, Say, halve, outcome, time_spent
from fewtask.auto.leaderboard import as_csv, lines
from fewtask.auto.refit import fold_runs, refit
from fewtask.auto.rungs import rungs_for
from fewtask.auto.scores import Standing, choose, ranked
from fewtask.auto.stored import write_dataset
from fewtask.auto.sureness import HeldOutShot, calibration_of, held_out_shots
from fewtask.auto_settings import AutoSettings
from fewtask.changes import flat
from fewtask.errors import RunError
from fewtask.files import is_leftover, read_json, write_json, write_text
from fewtask.locks import alone
from fewtask.methods import Method
from fewtask.pool import Dataset
from fewtask.protocol import draw_episodes
from fewtask.settings import RunSettings, to_dict
from fewtask.threads import usable_cores
from fewtask.workers import Executor, InlineExecutor, LocalExecutor

VOTE = "vote.json"
SHOWN_EPISODES = 40
"""Of each held-out task and number of examples, for calibration and for the table of the card."""
NOT_ASKED = ("minutes", "rule", "ensemble", "frozen", "steps_scale", "margin")
"""Options that may differ when a search goes on: they say what is made of the scores, not what was scored."""


@dataclass(frozen=True, eq=False)
class Chosen:
    """Who predicts, and why.

    search:   the folder that it came from. members: methods that vote. settings: those of the refit.
    held_out: the winner's folds on their held-out tasks.
    floors:   the same of the best centroid and of logistic regression, by the name of their method.
    """

    search: Search
    members: tuple[Method, ...]
    settings: RunSettings
    winner: Standing
    verdict: str
    outcome: Outcome
    calibration: Calibration
    held_out: tuple[HeldOutShot, ...]
    floors: Mapping[str, tuple[HeldOutShot, ...]]
    record: dict[str, Any]

    @property
    def leaderboard(self) -> list[dict[str, str | float | int]]:
        return lines(self.outcome, self.winner)


def choose_for(
    dataset: Dataset,
    base: RunSettings,
    out: Path,
    options: AutoSettings | None = None,
    *,
    workers: int = 0,
    device: str = "cpu",
    executor: Executor | None = None,
    clock: Clock = time.time,
    say: Say = lambda sentence: None,
    show_progress: bool | None = None,
    floors: bool = True,
    shots: Sequence[int] = SHOTS,
    kept: Mapping[str, Any] | None = None,
) -> Chosen:
    """Everything in one folder; interrupted at any moment, the same call goes on.

    base: encoder, sizes of episodes, learning rate, seed; candidates change the rest. Meta-test tasks of the data set
    are not looked at. floors: also what is untrained, by number of examples, which takes a while with many classes.
    shots: numbers of examples to calibrate for, besides that of training.
    kept: what the user changed of the settings; every candidate keeps it.
    """
    options = options or AutoSettings()
    workers = workers or usable_cores()
    out = out.absolute()
    with alone(out.with_name(f".{out.name}.lock"), busy=f"process {{process}} is at work in {out}: wait for it"):
        search = start(dataset, base, out, options, device, kept or {})
        tried = candidates(search.all_folds()[0].train, options.wanted)
        if kept:
            tried, told = keeping(tried, base, kept)
            for sentence in told:
                say(sentence)
        budget = Budget(options.seconds, clock)
        rungs = rungs_for(search, tried, options, workers)
        budget.spent = time_spent(search, tried, rungs, workers)
        runner = executor or (InlineExecutor() if workers == 1 else LocalExecutor(workers))
        if finished(out, options):
            found = outcome(search, tried, rungs)
        else:
            found = halve(search, tried, rungs, runner, budget, workers, say, show_progress is not False)
        winner, verdict = choose(found.standings, options.rule, options.margin)
        say(f"{verdict}; {budget.said()}")
        return finish(search, dataset, options, found, winner, verdict, show_progress, floors, shots)


def start(
    dataset: Dataset,
    base: RunSettings,
    out: Path,
    options: AutoSettings,
    device: str,
    kept: Mapping[str, Any] | None = None,
) -> Search:
    """The folder with the tasks and what was asked, or the one that is there, if it is of the same search."""
    pool = available(dataset, base.data, base.episode.way)
    folds = fold_count(pool, options.folds, base.episode.way)
    # Episodes that the tasks cannot give are refused before anything is trained: one of each task is tried.
    e = base.episode
    for query in (e.query, base.evaluation.query):
        draw_episodes(pool, len(pool.tasks), e.way, e.shot, query, seed=0)
    asked = {key: value for key, value in dataclasses.asdict(options).items() if key not in NOT_ASKED}
    asked |= {"base": to_dict(base), "tasks": pool.digest()} | ({"kept": flat(kept)} if kept else {})
    if (out / "auto.json").exists():
        if read_json(out / "auto.json") != asked:
            raise RunError(f"{out} holds a search with other settings or tasks: choose another --out")
    elif out.exists() and not all(_unfinished_start(path) for path in out.iterdir()):
        raise RunError(f"{out} is not empty and holds no search: choose another --out")
    else:
        whole = Dataset(dataset.name, pool, None, None, dataset.features, dataset.notes)
        write_dataset(out / TASKS, whole)
        write_json(out / "auto.json", asked)
    return Search(out, base, folds, options.episodes, device)


def _unfinished_start(path: Path) -> bool:
    """What a search leaves that was killed before it had written what was asked."""
    return path.name == TASKS or is_leftover(path)


def finished(out: Path, options: AutoSettings) -> bool:
    """Whether a search that had as much time is over."""
    if not (out / VOTE).exists():
        return False
    vote, asked = read_json(out / VOTE), options.minutes
    had = vote.get("minutes", False) if isinstance(vote, dict) else False
    if had is not None and type(had) not in (int, float):
        raise RunError(f"{out / VOTE} is damaged: remove it, and the search goes on")
    return not had or bool(asked and asked <= had)


def finish(
    search: Search,
    dataset: Dataset,
    options: AutoSettings,
    found: Outcome,
    winner: Standing,
    verdict: str,
    show_progress: bool | None,
    with_floors: bool,
    wanted: Sequence[int],
) -> Chosen:
    """The refit, the vote, how sure it may be; losers' weights go."""
    result = refit(
        search, dataset, winner, search.folder / "refit",
        scale=options.steps_scale, frozen=options.frozen, show_progress=show_progress,
    )  # fmt: skip
    runs = fold_runs(search, winner)
    # After the choice: enough to say how sure it is, few enough not to outlast the budget.
    few = min(options.episodes, SHOWN_EPISODES)
    shots = tuple(held_out_shots(runs, few, wanted))
    calibration = calibration_of(shots)
    floors = {}
    for one in ranked([one for one in found.standings if with_floors and one.candidate.floor]):
        if one.candidate.method not in floors:
            floors[one.candidate.method] = (
                shots if one is winner else tuple(held_out_shots(fold_runs(search, one), few, wanted))
            )
    # Untrained methods are the same in every fold.
    ensemble = "refit" if winner.candidate.floor else options.ensemble
    members = [] if ensemble == "folds" else [result.method]
    members += [] if ensemble == "refit" else [run.model() for run in runs]
    write_text(search.folder / "leaderboard.csv", as_csv(lines(found, winner)))
    about = vote_file(ensemble, winner, verdict, runs, calibration, shots)
    write_json(search.folder / VOTE, {"minutes": options.minutes, **about})
    remove_losers(search, runs)
    return Chosen(
        search,
        tuple(members),
        result.method.settings,
        winner,
        verdict,
        found,
        calibration,
        shots,
        floors,
        result.record,
    )


def vote_file(
    ensemble: str,
    winner: Standing,
    verdict: str,
    runs: list[FoldRun],
    calibration: Calibration,
    shots: tuple[HeldOutShot, ...],
) -> dict[str, Any]:
    folder = runs[0].search.folder
    paths = ["refit/model.safetensors"] if ensemble != "folds" else []
    paths += [str(run.model_path.relative_to(folder)) for run in runs] if ensemble != "refit" else []
    return {
        "ensemble": ensemble,
        "members": paths,
        "winner": winner.candidate.name,
        "accuracy": winner.accuracy,
        "standard_error": winner.standard_error,
        "tasks": dict(winner.accuracies),
        "steps": winner.steps,
        "steps_by_fold": list(winner.steps_by_fold),
        "verdict": verdict,
        **calibration.as_dict(),
        "calibration_error": {
            str(one.shot): {"before": one.error_before, "after": one.error_after, "accuracy": one.accuracy}
            for one in shots
        },
    }


def remove_losers(search: Search, kept: list[FoldRun]) -> None:
    """Weights and checkpoints go; scores stay, so that the same command finds everything done."""
    needed = {run.model_path for run in kept}
    for path in (search.folder / "folds").rglob("*.safetensors"):
        if path not in needed:
            path.unlink()

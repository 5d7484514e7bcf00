"""Killed between its parts, what `train FILE` and `tune FILE` do goes on and ends bit for bit as if nothing had been.

Kills in the middle of a fold, of a rung and of the refit are in tests/auto/test_search.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from synthetic import many_tasks

from fewtask import MetaLearner
from fewtask.files import read_json, read_tensors
from fewtask.own import OwnData


class KilledError(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def train(folder: Path) -> None:
    options = {"folds": 2, "episodes": 4, "first_steps": 4, "most_steps": 8, "margin": -100.0}
    made = MetaLearner(
        "auto", settings={"encoder": {"width": 8}}, minutes=None, n_jobs=1,
        auto={**options, "candidates": "protonet; metamix"},
    )  # fmt: skip
    made.fit_data(OwnData.from_arrays(*many_tasks(4, 20)), folder)


def left(folder: Path) -> dict[str, Any]:
    """What a user has in the end, without times."""
    lines = (folder / "leaderboard.csv").read_text().splitlines()
    time = lines[0].split(",").index("milliseconds_a_step")
    # A name with a comma in it is quoted, and there is none among these candidates but the centroids.
    table = [row[:time] + row[time + 1 :] for row in (line.replace(", ", " ").split(",") for line in lines)]
    names = ("vote.json", "predictor.json", "held-out.csv")
    return {name: (folder / name).read_text() for name in names} | {"leaderboard": table}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(folder)
    return folder


@pytest.mark.parametrize(
    "place",
    [
        "fewtask.auto.halving.survivors",
        "fewtask.auto.choosing.refit",
        "fewtask.auto.choosing.calibration_of",
        "fewtask.auto.choosing.remove_losers",
        "fewtask.learner.meta_learner.write_held_out",
    ],
)
def test_between_rungs_around_the_refit_and_while_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path, place: str
) -> None:
    def killed(*args: Any, **kwargs: Any) -> Any:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(place, killed)
        with pytest.raises(KilledError):
            train(tmp_path / "run")
    train(tmp_path / "run")
    assert left(tmp_path / "run") == left(undisturbed)
    members = [member["weights"] for member in read_json(undisturbed / "predictor.json")["members"]]
    assert len(members) == 3
    for name in members:
        one, two = (read_tensors(folder / name)[0] for folder in (tmp_path / "run", undisturbed))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one), name

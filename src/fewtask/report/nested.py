"""Is choosing by cross-validation over tasks worth it? One table over all data sets that declare `auto`, and its goals.

`auto` never saw meta-test before it was scored there. What it is compared with did: the best method in hindsight is
the one that is best on meta-test, among the rows of the experiment and of the data set's leading one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fewtask.experiments.declared import declared_names
from fewtask.experiments.render import calibration_text, grid, mean_text
from fewtask.experiments.statistics import Mean, over_seeds, paired_difference
from fewtask.experiments.summary import calibration
from fewtask.experiments.tables import METHOD_TITLES
from fewtask.report.collect import PROTONET, Collected, Shown, dataset_title

NAME, BEST = "auto", "best"
AUTO, REFIT, FOLDS = "auto", "auto, refit alone", "auto, folds alone"
CENTROID = METHOD_TITLES["centroid"]
NOT_RUN = "not run"
FROZEN, AVERAGED, OTHER_LAMBDAS = "frozen", "λ of the folds, averaged", ("λ of one fold", "λ random")
LEAD, NEAR, SURE = 0.02, 0.005, 0.03
LEADS_ON = ("tox21", "nci")
HEADER = ["data set", "auto", "its refit alone", "its folds alone", "tuned ProtoNet", "auto − tuned ProtoNet",
          "best in hindsight", "auto − best", "auto − centroid", "calibration error", "chosen"]  # fmt: skip

Records = Mapping[int, dict[str, Any]]


@dataclass(frozen=True)
class Rival:
    """A row that auto is compared with; the title names its experiment where that is another."""

    row: str
    title: str
    records: Records


@dataclass(frozen=True)
class Nested:
    """A data set: its experiment `auto`, and the leading one; None while they have no run."""

    dataset: str
    title: str
    shown: Shown | None
    leading: Shown | None

    @cached_property
    def own(self) -> dict[str, Records]:
        """Records by row, then by seed."""
        return _rows(self.shown)

    @property
    def auto(self) -> Records:
        return self.own.get(AUTO, {})

    @cached_property
    def rivals(self) -> list[Rival]:
        """Rows that were scored on the same episodes: its own and the leading experiment's."""
        others = [Rival(row, row, records) for row, records in self.own.items() if row not in (AUTO, REFIT, FOLDS)]
        if self.leading is not None and self.leading is not self.shown:
            name = self.leading.experiment.folder.name
            others += [Rival(row, f"{row} ({name})", records) for row, records in _rows(self.leading).items()]
        return [one for one in others if self.lead(one) is not None]

    def lead(self, rival: Rival | None) -> Mean | None:
        """auto minus a rival, seed by seed on the same episodes."""
        return None if rival is None else paired_difference(self.auto, rival.records)

    @property
    def tuned(self) -> Rival | None:
        """The ProtoNet with the usual split that meta-validation prefers."""
        known = [one for one in self.rivals if one.row == PROTONET]
        return max(known, key=lambda one: _value(over_seeds(one.records, "validation")), default=None)

    @property
    def best(self) -> Rival | None:
        """The row that leaves auto furthest behind, or least far."""
        return min(self.rivals, key=lambda one: _value(self.lead(one)), default=None)

    @property
    def centroid(self) -> Rival | None:
        return next((one for one in self.rivals if one.row == CENTROID), None)

    @property
    def sureness(self) -> tuple[float, float] | None:
        return calibration(list(self.auto.values()))

    @property
    def winners(self) -> str:
        """What was chosen, with how many seeds chose it."""
        names = [record["auto"]["winner"] for record in self.auto.values()]
        return ", ".join(f"{name} ({names.count(name)})" for name in dict.fromkeys(names))

    def line(self) -> list[str]:
        if not self.auto:
            return [self.title, NOT_RUN, *[""] * (len(HEADER) - 2)]
        means = [over_seeds(self.own.get(row, {})) for row in (AUTO, REFIT, FOLDS)]
        texts = [
            self.title,
            f"{mean_text(means[0])} ({len(self.auto)})",
            *map(mean_text, means[1:]),
            _accuracy(self.tuned),
            mean_text(self.lead(self.tuned), sign=True),
            _accuracy(self.best),
            mean_text(self.lead(self.best), sign=True),
            mean_text(self.lead(self.centroid), sign=True),
            calibration_text(self.sureness),
            self.winners,
        ]
        return [text.replace("*", "\\*") for text in texts]


def _accuracy(rival: Rival | None) -> str:
    return NOT_RUN if rival is None else f"{rival.title} {mean_text(over_seeds(rival.records))}"


def _value(mean: Mean | None) -> float:
    return 0.0 if mean is None else mean.value


def _rows(shown: Shown | None) -> dict[str, Records]:
    if shown is None or not shown.experiment.test:
        return {}
    cells = [cell for table in shown.experiment.tables if table.kind == "table" for cell in table.cells]
    found = {cell.row: shown.gathered.of(cell) for cell in cells}
    return {row: records for row, records in found.items() if records}


def nested(collected: Collected) -> list[Nested]:
    """Every data set that declares `auto`, run or not."""
    datasets = [name.partition("/")[0] for name in declared_names(collected.root) if name.endswith(f"/{NAME}")]
    shown = {one.experiment.name: one for one in collected.shown}
    leading = {page.name: page.leading for page in collected.datasets}
    return [
        Nested(
            name,
            dataset_title(collected.root / name),
            shown.get(f"{name}/{NAME}"),
            # At their best methods need not lead the page: with 20 images a class, where the paper has 100.
            shown.get(f"{name}/{BEST}") or leading.get(name),
        )
        for name in datasets
    ]


def nested_table(collected: Collected) -> str:
    """Markdown: a row a data set, and below it the goals with what was measured."""
    found = nested(collected)
    lines = [*goals(found), *votes(found), *frozen(collected)]
    return "\n".join([*grid(HEADER, [one.line() for one in found]), "", *(f"- {line}" for line in lines)])


def votes(found: Sequence[Nested]) -> list[str]:
    """What each way to vote is worth against the refit alone, over data sets."""
    texts, count = [], 0
    for row, name in ((AUTO, "refit and folds together"), (FOLDS, "the folds alone")):
        leads = [paired_difference(one.own[row], one.own[REFIT]) for one in found if {row, REFIT} <= set(one.own)]
        values = [mean.value for mean in leads if mean is not None]
        if values:
            count = len(values)
            texts.append(f"{name} {100 * sum(values) / count:+z.2f}")
    return [f"Votes against the refit alone, the mean over {count} data sets: {', '.join(texts)}."] if texts else []


def frozen(collected: Collected) -> list[str]:
    """What other λs of a refit are worth against their mean over folds, on the data sets that declare it."""
    sentences = []
    for one in collected.shown:
        if one.experiment.folder.name == FROZEN:
            rows = _rows(one)
            leads = {row: paired_difference(rows.get(row, {}), rows.get(AVERAGED, {})) for row in OTHER_LAMBDAS}
            texts = [f"{row} {mean_text(mean, sign=True)}" for row, mean in leads.items() if mean is not None]
            title = dataset_title(collected.root / one.experiment.dataset)
            if texts:
                sentences.append(f"Against a refit with λ averaged over the folds, {title}: {', '.join(texts)}.")
    return [sentence.replace("*", "\\*") for sentence in sentences]


def goals(found: Sequence[Nested]) -> list[str]:
    """Each goal, met or not, on what has been run."""
    run = [one for one in found if one.auto]
    leads = {one.dataset: mean.value for one in run if (mean := one.lead(one.tuned)) is not None}
    behind = {one.title: mean.value for one in run if (mean := one.lead(one.best)) is not None}
    above = {one.title: mean.value for one in run if (mean := one.lead(one.centroid)) is not None}
    errors = {one.title: sureness[1] for one in run if (sureness := one.sureness) is not None}
    titles = {one.dataset: one.title for one in found}
    ahead = "At least 2 points above tuned ProtoNet with the usual split"
    sentences = [f"{ahead} on {titles[name]}: {_met(leads.get(name), LEAD)}." for name in LEADS_ON if name in titles]
    average = sum(leads.values()) / len(leads) if leads else None
    where = f"of the {len(leads)} data sets that have run, of {len(found)}" if len(leads) < len(found) else "of all"
    sentences.append(f"{ahead} on the mean {where}: {_met(average, LEAD)}.")
    sentences += [
        f"Within 0.5 points of the best method in hindsight on each: {_each(behind, len(found), -NEAR)}.",
        f"Never below the centroid: {_each(above, len(found), 0.0)}.",
        f"Calibration error of at most 0.03 after calibration on each: {_each_error(errors, len(found))}.",
    ]
    return sentences


def _met(value: float | None, least: float) -> str:
    if value is None:
        return NOT_RUN
    return f"{'met' if value >= least else 'not met'}, {100 * value:+z.2f}"


def _each(values: Mapping[str, float], total: int, least: float) -> str:
    missed = [f"{title} ({100 * value:+z.2f})" for title, value in values.items() if value < least]
    return _counted(len(values), total, missed)


def _each_error(values: Mapping[str, float], total: int) -> str:
    return _counted(len(values), total, [f"{title} ({value:.3f})" for title, value in values.items() if value > SURE])


def _counted(run: int, total: int, missed: Sequence[str]) -> str:
    if not run:
        return NOT_RUN
    text = f"met on {run - len(missed)} of {run}" + (f", not on {', '.join(missed)}" if missed else "")
    return text + (f"; {total - run} of {total} have not run" if run < total else "")

"""The measurements as tables: for the terminal, and as a page."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from typing import Any

import torch

from fewtask.bench.measure import PARTS
from fewtask.bench.sizes import get_size
from fewtask.files import filled

NEW_PAGE = "# Speed\n\n<!-- bench:begin -->\n<!-- bench:end -->\n"
Table = tuple[str, list[str], list[list[str]]]


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Title, head and lines of each table that the results can fill."""
    sizes = results["sizes"]
    yield steps_table(sizes)
    yield arithmetic_table(sizes)
    yield other_table(sizes)
    if "growth" in results:
        yield growth_table(results["growth"])
    yield equality_table(sizes)
    yield profile_table(sizes)
    yield goals_table(results)


def steps_table(sizes: dict[str, Any]) -> Table:
    head = [
        "size",
        "plain, ms",
        "all, ms",
        "matched, ms",
        "ProtoNet, ms",
        "plain / all",
        "plain / matched",
        "all / ProtoNet",
    ]
    lines = []
    for name, found in sizes.items():
        t = found["steps"]["times"]
        lines.append(
            [get_size(name).title]
            + [f"{1e3 * t[key]:.1f}" for key in ("plain", "all", "matched", "protonet")]
            + [_times(t["plain"], t["all"]), _times(t["plain"], t["matched"]), _times(t["all"], t["protonet"])]
        )
    return "A training step", head, lines


def arithmetic_table(sizes: dict[str, Any]) -> Table:
    names = ("plain", "all", "matched", "protonet")
    head = ["size", "matrix products, GFLOP/s"]
    head += [f"{name}, GFLOP" for name in names] + [f"{name}, share" for name in names]
    lines = []
    for name, found in sizes.items():
        steps = found["steps"]
        lines.append(
            [get_size(name).title, f"{steps['rate'] / 1e9:.0f}"]
            + [f"{steps['operations'][key] / 1e9:.2f}" for key in names]
            + [f"{steps['share'][key]:.0%}" for key in names]
        )
    return "Arithmetic of a step (counted), and its share of the rate of matrix products", head, lines


def other_table(sizes: dict[str, Any]) -> Table:
    head = [
        "size",
        "sampling / ProtoNet step",
        "hyper-update, plain / product",
        "3,000 episodes, s",
        "one by one, s",
        "faster",
    ]
    lines = []
    for name, found in sizes.items():
        t, e = found["steps"]["times"], found["evaluation"]["times"]
        hyper = "not measured"
        if "hyper" in found:
            h = found["hyper"]["times"]
            hyper = f"{h['plain']:.2f} s / {h['product']:.2f} s = {_times(h['plain'], h['product'])}"
        ratio = _times(e["one by one"], e["together"])
        sampling = f"{t['sampling'] / t['protonet']:.1%}"
        lines.append([get_size(name).title, sampling, hyper, f"{e['together']:.2f}", f"{e['one by one']:.0f}", ratio])
    return "Sampling, hyper-update and evaluation (one by one: extrapolated from five)", head, lines


def growth_table(growth: dict[str, Any]) -> Table:
    lines = [
        [what, value, f"{1e3 * times['all']:.0f}", f"{1e3 * times['matched']:.0f}" if "matched" in times else ""]
        for what, values in growth.items()
        for value, times in values.items()
    ]
    return (
        "Growth at the size of ESC-50 with d_h = 256 (q: of a step with its hyper-update)",
        ["what", "value", "all, ms", "matched, ms"],
        lines,
    )


def equality_table(sizes: dict[str, Any]) -> Table:
    head = ["size", "episodes", "loss, float32", "loss, float64", "gradient, float32", "rounding alone"]
    head += ["gradient, float64"]
    keys = ("loss32", "loss64", "gradient32", "rounding", "gradient64")
    lines = [
        [
            get_size(name).title,
            "1 of the preset's" if found["equality"]["whole"] else "1 small",
            *(f"{found['equality'][key]:.1e}" for key in keys),
        ]
        for name, found in sizes.items()
    ]
    title = "Product against plain transcription: relative differences, no dropout"
    return f"{title} (rounding alone: plain in float32 against float64)", head, lines


def profile_table(sizes: dict[str, Any]) -> Table:
    """Where a step's time goes: what is not in matrix products is what could still be saved without less arithmetic."""
    parts = [*PARTS, "other"]
    lines = [
        [get_size(name).title, pairs, *(f"{shares[part]:.0%}" for part in parts)]
        for name, found in sizes.items()
        for pairs, shares in found["steps"]["profile"].items()
    ]
    return "Where the time of a step goes", ["size", "pairs", *parts], lines


def goals_table(results: dict[str, Any]) -> Table:
    """What was aimed at, and what this run reached."""
    lines: list[list[str]] = []

    def goal(what: str, wanted: str, reached: float, shown: str, good: bool) -> None:
        lines.append([what, wanted, shown if reached == reached else "-", "yes" if good else "no"])

    for name in ("tox21", "esc50"):
        if name not in results["sizes"]:
            continue
        found, title = results["sizes"][name], get_size(name).title
        t = found["steps"]["times"]
        for key, wanted in (("all", 4), ("matched", 10)):
            ratio = t["plain"] / t[key]
            goal(f"{title}: step, {key}", f"≥ {wanted}×", ratio, f"{ratio:.1f}×", ratio >= wanted)
        for bits, most in (("32", 1e-5), ("64", 1e-10)):
            apart = found["equality"][f"loss{bits}"]
            goal(f"{title}: difference, float{bits}", f"≤ {most:.0e}", apart, f"{apart:.0e}", apart <= most)
        if "hyper" in found:
            h = found["hyper"]["times"]
            ratio = h["plain"] / h["product"]
            goal(
                f"{title}: hyper-update, q = {found['hyper']['terms']:.0f}", "≥ 3×", ratio, f"{ratio:.1f}×", ratio >= 3
            )
        e = found["evaluation"]["times"]
        ratio = e["one by one"] / e["together"]
        goal(f"{title}: 3,000 test episodes", "≥ 20×", ratio, f"{ratio:.0f}×", ratio >= 20)
        part = t["sampling"] / t["protonet"]
        goal(f"{title}: sampling's share of a ProtoNet step", "≤ 5 %", part, f"{100 * part:.1f} %", part <= 0.05)
        share = found["steps"]["share"]["all"]
        goal(f"{title}: share of the rate of matrix products", "≥ 60 %", share, f"{100 * share:.0f} %", share >= 0.6)
    for name, found in results["sizes"].items():
        t = found["steps"]["times"]
        if "convolutions" in t:
            share = t["convolutions"] / t["protonet"]
            what = f"{get_size(name).title}: convolutions alone, of a ProtoNet step"
            goal(what, "≥ 70 %", share, f"{100 * share:.0f} %", share >= 0.7)
    if "memory" in results:
        peak = results["memory"]["peak"]
        goal("ESC-50: peak memory of a hyper-update", "≤ 1.5 GB", peak, f"{peak:.2f} GB", peak <= 1.5)
    return "Goals", ["what", "goal", "reached", "met"], lines


def page_text(results: dict[str, Any], figure: str | None, before: str | None = None) -> str:
    """The page of measurements; of one that is there already only what stands between its marks is made anew."""
    return filled(NEW_PAGE if before is None else before, "bench", markdown(results, figure))


def markdown(results: dict[str, Any], figure: str | None) -> str:
    """Generated, so that it says what was measured and nothing else."""
    parts = [
        "Made by `fewtask bench --markdown FILE`; `--help` explains. Times are processor time with one thread, "
        "medians of runs in turns in one process. "
        f"{machine()}. Rows are random, with the shapes of the data sets; settings are the presets'.",
        "*plain* is `fewtask.bench.plain`: the paper written down episode by episode and class by class, all pairs "
        "through `SetTransformer.forward`, queries embedded for each loss, gradients of λ accumulated. *all* and "
        "*matched* are Meta-Interpolation with those `interpolation.pairs`. The plain one multiplies as torch does by "
        "itself, the product by whichever of torch's libraries suits the processor (`fewtask.products`).",
    ]
    if figure is not None:
        parts.append(f"![Step times of the five sizes, and their growth]({figure})")
    for title, head, lines in tables(results):
        parts.append(f"## {title}")
        rows = [head, ["---"] * len(head), *lines]
        parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
    return "\n\n".join(parts)


def machine() -> str:
    return (
        f"{platform.system()} on {platform.machine()} with {os.cpu_count()} cores, torch {torch.__version__} "
        f"({torch.backends.cpu.get_cpu_capability()})"
    )


def _times(slow: float, fast: float) -> str:
    return f"{slow / fast:.1f}×"

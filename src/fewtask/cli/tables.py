"""Tables that commands print."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from fewtask.settings import RunSettings


def percent(value: float, interval: float | None = None) -> str:
    return f"{100 * value:.2f}" if interval is None else f"{100 * value:.2f} ± {100 * interval:.2f}"


def result_table(settings: RunSettings, record: dict[str, Any]) -> Table:
    """Validation and test accuracy of a run, a row a task."""
    title = f"{settings.method} on {settings.dataset}, seed {settings.seed}"
    table = Table(title=title, title_justify="left")
    table.add_column("task")
    table.add_column("episodes", justify="right")
    table.add_column("accuracy %", justify="right")
    validation = record["validation"]
    table.add_row(
        f"validation (step {record['selected_step']})",
        str(validation["episodes"]),
        percent(validation["accuracy"], validation["interval"]),
    )
    if "test" in record:
        test = record["test"]
        table.add_section()
        for row in test["tasks"]:
            table.add_row(row["task"], str(row["episodes"]), percent(row["accuracy"], row["interval"]))
        table.add_section()
        table.add_row("test, all", str(test["episodes"]), percent(test["accuracy"], test["interval"]))
    table.caption = "\n".join(record.get("notes", [])) or None
    return table

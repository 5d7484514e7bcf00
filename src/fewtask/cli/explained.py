"""Which page of the documentation explains an error: that of the room in which it was raised."""

from __future__ import annotations

from fewtask.errors import DamagedError, FewtaskError

PAGES = {
    "datasets": "docs/data.md",
    "own": "docs/your-own-data.md",
    "features": "docs/your-own-data.md",
    "learner": "docs/your-own-data.md",
    "auto": "docs/which-method.md",
    "plugins": "docs/extend.md",
    "hypergradient": "docs/every-method.md",
    "cost": "docs/cost-model.md",
    "workers.ray_cluster": "docs/ray.md",
}
DAMAGED = "docs/trust.md"


def page_of(error: FewtaskError) -> str | None:
    """The page, or None where the message is all that there is to say."""
    if isinstance(error, DamagedError):
        return DAMAGED
    module, trace = "", error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        # Errors themselves, and the limits that many rooms share, are raised on behalf of whoever called.
        if name.startswith("fewtask.") and name not in ("fewtask.errors", "fewtask.bounds"):
            module = name.removeprefix("fewtask.")
        trace = trace.tb_next
    return PAGES.get(module) or PAGES.get(module.partition(".")[0])


def sentence(error: FewtaskError) -> str:
    """What the command line prints of an error: one line."""
    page = page_of(error)
    return f"fewtask: {error}" + (f" [{page}]" if page else "")

"""Few-task meta-learning: classify from a handful of examples when there are only a handful of tasks to learn from."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fewtask.datasets.cache import load_dataset
    from fewtask.episodes import Episode
    from fewtask.evaluation import evaluate
    from fewtask.hypergradient import hypergradient
    from fewtask.learner import FewShotClassifier, MetaLearner
    from fewtask.methods import make_method
    from fewtask.own import read_own
    from fewtask.pool import Dataset, TaskPool
    from fewtask.presets import load_preset
    from fewtask.protocol import draw_episodes
    from fewtask.run import execute, load_run
    from fewtask.sampler import EpisodeSampler
    from fewtask.settings import RunSettings, update

_PLACES = {
    "Dataset": "fewtask.pool",
    "Episode": "fewtask.episodes",
    "EpisodeSampler": "fewtask.sampler",
    "FewShotClassifier": "fewtask.learner",
    "MetaLearner": "fewtask.learner",
    "RunSettings": "fewtask.settings",
    "TaskPool": "fewtask.pool",
    "draw_episodes": "fewtask.protocol",
    "evaluate": "fewtask.evaluation",
    "execute": "fewtask.run",
    "hypergradient": "fewtask.hypergradient",
    "load_dataset": "fewtask.datasets.cache",
    "load_preset": "fewtask.presets",
    "load_run": "fewtask.run",
    "make_method": "fewtask.methods",
    "read_own": "fewtask.own",
    "update": "fewtask.settings",
}

__all__ = [
    "Dataset",
    "Episode",
    "EpisodeSampler",
    "FewShotClassifier",
    "MetaLearner",
    "RunSettings",
    "TaskPool",
    "__version__",
    "draw_episodes",
    "evaluate",
    "execute",
    "hypergradient",
    "load_dataset",
    "load_preset",
    "load_run",
    "make_method",
    "read_own",
    "update",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are used, so that `fewtask --help` does not wait for torch."""
    if name not in _PLACES:
        raise AttributeError(f"module 'fewtask' has no attribute '{name}'")
    from importlib import import_module

    module = import_module(_PLACES[name])
    return getattr(module, name)

"""5. Comparing fairly: the same test episodes for all, differences seed by seed, intervals over seeds."""

from __future__ import annotations

import numpy as np

from fewtask import execute, load_dataset, load_preset, update
from fewtask.statistics import student_half_width

METHODS = ("centroid", "protonet", "mean-interpolation")
SEEDS = (0, 1, 2)

dataset = load_dataset("rainbow-digits", load_preset("rainbow-digits", "protonet").data)
accuracy: dict[str, list[float]] = {}
lists = set()
for name in METHODS:
    for seed in SEEDS:
        settings = update(
            load_preset("rainbow-digits", name),
            {
                "seed": seed,
                "train": {"steps": 40, "validate_every": 40, "validation_episodes": 40},
                "evaluation": {"episodes": 100},
            },
        )
        # Weights are selected on validation tasks; the test tasks are looked at once, at the end.
        test = execute(settings, dataset, out=None).record["test"]
        accuracy.setdefault(name, []).append(100 * test["accuracy"])
        lists.add(test["episode_list"])
assert len(lists) == 1, "one list of test episodes for all methods and seeds"

# Three runs: the interval is 4.30 standard errors wide by Student's t, not 1.96.
for name in METHODS:
    print(f"{name:20} {np.mean(accuracy[name]):6.2f} ± {student_half_width(accuracy[name]):.2f}")

# Runs of one seed share their first weights and see the same test episodes: take differences first.
difference = [a - b for a, b in zip(accuracy["mean-interpolation"], accuracy["protonet"])]
mean, interval = np.mean(difference), student_half_width(difference)
verdict = "tells them apart" if abs(mean) > interval else "is within what chance allows"
print(f"mean-interpolation minus protonet: {mean:+.2f} ± {interval:.2f}, which {verdict}")

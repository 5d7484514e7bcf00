"""Faults to be planted, one at a time, each with the quick tests of which at least one must notice it."""

from __future__ import annotations

from dataclasses import dataclass

LOOP = "tests/training/test_against_plain_loop.py::test_every_step_is_that_of_the_algorithms"
METAREG = f"{LOOP}[metareg, two layers without BatchNorm]"
HALVED = f"{LOOP}[meta-interpolation, halved validation]"
JOINT = f"{LOOP}[protonet-st, joint]"
SAMPLER = "tests/test_pool_and_sampler.py"
EVALUATION = "tests/test_evaluation.py"
PROTOCOL = "tests/test_protocol.py"
STATISTICS = "tests/experiments/test_experiments_statistics.py"
NEUMANN = "tests/hypergradient/test_neumann.py"
METRIC = "tests/methods/test_metric_methods.py"
MERGED = "tests/methods/test_meta_interpolation.py"
RESUME = "tests/training/test_resume.py::test_stopping_between_checkpoints_changes_nothing[meta-interpolation]"
SURENESS = "tests/learner/test_calibration.py"
VOTES = f"{SURENESS}::test_the_temperature_of_a_vote_follows_from_how_much_its_members_agree"
SPREAD = f"{SURENESS}::test_the_temperature_goes_with_the_spread_of_a_task_where_log_probabilities_do"
AGREEMENT = "tests/auto/test_choice.py::test_agreement_is_that_of_the_model_that_has_not_seen_a_task_with_the_next_one"


@dataclass(frozen=True)
class Fault:
    """`old`, which must occur exactly once in the file below src/fewtask, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    # Training loop
    Fault(
        "the outer batch comes from training tasks",
        "training/loop.py",
        "outer_sampler=EpisodeSampler(outer_pool,",
        "outer_sampler=EpisodeSampler(train_pool,",
        (METAREG,),
    ),
    Fault(
        "lambda goes uphill",
        "training/loop.py",
        "_apply(state.hyper_optimiser, state.hyper_schedule, lam, gradient)",
        "_apply(state.hyper_optimiser, state.hyper_schedule, lam, [-g for g in gradient])",
        (METAREG,),
    ),
    Fault(
        "the series has a step of next to nothing",
        "training/hyper.py",
        "else learning_rate(state.optimiser)",
        "else 1e-9",
        (METAREG,),
    ),
    Fault(
        "the schedule of theta is twice as long",
        "training/loop.py",
        "make_schedule(settings.optimizer.schedule, optimiser, settings.train.steps)",
        "make_schedule(settings.optimizer.schedule, optimiser, 2 * settings.train.steps)",
        (METAREG,),
    ),
    Fault(
        "the schedule of lambda counts steps instead of updates",
        "training/loop.py",
        "settings.train.steps // settings.hyper_period",
        "settings.train.steps",
        (METAREG,),
    ),
    Fault(
        "lambda is updated one step late",
        "training/loop.py",
        "(state.step + 1) % method.settings.hyper_period == 0",
        "state.step % method.settings.hyper_period == 0",
        (METAREG,),
    ),
    Fault(
        "lambda may become negative in MetaReg",
        "methods/metareg.py",
        "coefficient.clamp_(min=0.0)",
        "pass",
        (METAREG,),
    ),
    Fault(
        "halves of the validation tasks are swapped",
        "pool.py",
        "outer, selection = validation.halves(data.seed)",
        "selection, outer = validation.halves(data.seed)",
        (HALVED,),
    ),
    Fault(
        "joint training forgets lambda",
        "training/loop.py",
        "_apply(state.hyper_optimiser, state.hyper_schedule, lam, slopes[len(theta) :])",
        "pass",
        (JOINT,),
    ),
    Fault(
        "the last weights are selected, not the best",
        "training/loop.py",
        "if score.accuracy > state.best.accuracy if pools.selects else last:",
        "if True:",
        ("tests/training/test_selection.py",),
    ),
    Fault(
        "validation judges the weights and not their average",
        "training/loop.py",
        "with averaged(method, state.average):",
        "with averaged(method, {}):",
        (HALVED, "tests/training/test_selection.py"),
    ),
    Fault(
        "the average of lambda moves a tenth of the way",
        "training/averaging.py",
        "1 - decay**OUTER_EVERY",
        "1 - decay",
        (METAREG,),
    ),
    Fault(
        "a checkpoint forgets torch's random state",
        "training/state.py",
        'torch.set_rng_state(tensors["random/cpu"])',
        "pass",
        ("tests/training/test_resume.py::test_stopping_between_checkpoints_changes_nothing[mlti]",),
    ),
    Fault(
        "a checkpoint forgets the sampler of the outer objective",
        "training/state.py",
        'self.outer_sampler.set_state(plain["outer_sampler"])',
        "pass",
        (RESUME,),
    ),
    # Sampler
    Fault(
        "a query is a support row",
        "sampler.py",
        "query=rows[:, :, shot:],",
        "query=rows[:, :, shot - 1 : -1],",
        (SAMPLER,),
    ),
    Fault("rows of a class are repeated", "sampler.py", "if not repeated.size:", "if True:", (SAMPLER,)),
    Fault(
        "a given task does not lead its group",
        "sampler.py",
        "keys[np.arange(batch), tasks] = -1.0",
        "keys[np.arange(batch), tasks] = 3.0",
        (SAMPLER,),
    ),
    Fault("tasks of a class pool share classes", "sampler.py", "if size * way <= count:", "if False:", (SAMPLER,)),
    Fault("shared labels are not aligned", "sampler.py", "keys[:] = keys[:1]", "pass", (SAMPLER,)),
    Fault(
        "classes keep their order",
        "sampler.py",
        "order = keys.argsort(axis=-1)[..., :way]",
        "order = np.broadcast_to(np.arange(way), (*keys.shape[:-1], way))",
        (SAMPLER,),
    ),
    Fault(
        "support and query share a group",
        "sampler.py",
        "~np.isin(groups[own], taken)",
        "~np.isin(groups[own], taken[:1])",
        (SAMPLER,),
    ),
    # Hypergradient
    Fault(
        "the indirect part has the wrong sign",
        "hypergradient/base.py",
        "return [-m for m in problem.mixed(system.stretch(found))]",
        "return problem.mixed(system.stretch(found))",
        (NEUMANN,),
    ),
    Fault(
        "one Hessian product too many",
        "hypergradient/neumann.py",
        "for _ in range(system.terms):",
        "for _ in range(system.terms + 1):",
        (NEUMANN,),
    ),
    Fault(
        "the direct part is forgotten",
        "hypergradient/__init__.py",
        "return [a + b for a, b in zip(direct, indirect)]",
        "return [b for a, b in zip(direct, indirect)]",
        (NEUMANN,),
    ),
    Fault(
        "the series is not scaled by the learning rate",
        "hypergradient/neumann.py",
        "return scaled(total, step)",
        "return total",
        (NEUMANN,),
    ),
    Fault(
        "a series that diverges goes on",
        "hypergradient/neumann.py",
        "if not norms[-1] <= DIVERGED * norms[0]:",
        "if False:",
        (NEUMANN,),
    ),
    # Evaluation and protocol
    Fault(
        "evaluation normalises by the batch",
        "evaluation.py",
        "    method.eval()\n",
        "    method.train()\n",
        (EVALUATION,),
    ),
    Fault(
        "labels of queries are in another order",
        "evaluation.py",
        ".repeat_interleave(queries // K)",
        ".repeat(queries // K)",
        (EVALUATION,),
    ),
    Fault(
        "the last support row is a query too",
        "evaluation.py",
        "query = z[chunk[:, :, episodes.shot :]]",
        "query = z[chunk[:, :, episodes.shot - 1 : -1]]",
        (EVALUATION,),
    ),
    Fault(
        "the list of episodes depends on the run's seed",
        "protocol.py",
        "e.way, e.shot, v.query, v.seed)",
        "e.way, e.shot, v.query, settings.seed)",
        (EVALUATION, PROTOCOL),
    ),
    Fault(
        "all episodes are of the first task",
        "protocol.py",
        "tasks = np.arange(episodes) % len(pool.tasks)",
        "tasks = np.zeros(episodes, dtype=np.int64)",
        (EVALUATION, SAMPLER),
    ),
    Fault(
        "meta-test takes the validation tasks",
        "protocol.py",
        "return _by_settings(settings, pools.test, settings.evaluation.episodes)",
        "return _by_settings(settings, pools.selection, settings.evaluation.episodes)",
        (PROTOCOL,),
    ),
    # Statistics
    Fault(
        "the interval divides by n and not by n - 1",
        "statistics.py",
        "1.96 * values.std(ddof=1)",
        "1.96 * values.std(ddof=0)",
        (EVALUATION,),
    ),
    Fault(
        "five seeds have the interval of many",
        "statistics.py",
        "float(stats.t.ppf(0.5 + LEVEL / 2, count - 1))",
        "1.96",
        (STATISTICS,),
    ),
    Fault("the interval is one-sided", "statistics.py", "0.5 + LEVEL / 2, count", "LEVEL, count", (STATISTICS,)),
    Fault(
        "runs on other episodes are paired",
        "experiments/statistics.py",
        ' and one[split]["episode_list"] == two[split]["episode_list"]',
        "",
        (STATISTICS,),
    ),
    # Methods
    Fault(
        "a prototype is the first support row",
        "methods/metric.py",
        "return embedded.mean(dim=2)",
        "return embedded[:, :, 0]",
        (METRIC,),
    ),
    Fault("the farthest prototype wins", "methods/metric.py", "return -squared\n", "return squared\n", (METRIC,)),
    Fault(
        "MetaReg weighs absolute values", "methods/metareg.py", "(c * p.pow(2)).sum()", "(c * p.abs()).sum()", (METRIC,)
    ),
    Fault(
        "the outer objective moves running statistics",
        "methods/base.py",
        "return self.episode_loss(episode, update=False).loss",
        "return self.episode_loss(episode, update=True).loss",
        (MERGED,),
    ),
    Fault(
        "interpolated passes move running statistics",
        "methods/meta_interpolation.py",
        "update=not self.settings.model.clean_statistics)[0] for sets in merged]",
        "update=True)[0] for sets in merged]",
        (MERGED,),
    ),
    Fault(
        "the shares of the two losses are swapped",
        "methods/meta_interpolation.py",
        "(1 - share) * singleton.loss + share * mix.loss",
        "share * singleton.loss + (1 - share) * mix.loss",
        (MERGED,),
    ),
    Fault(
        "a row is paired with one partner only",
        "methods/meta_interpolation.py",
        "second = rows.view(classes, 1, n).expand",
        "second = rows.view(classes, n, 1).expand",
        (MERGED,),
    ),
    Fault(
        "MetaMix swaps query and support",
        "methods/mixing.py",
        "mixed = weight * query + (1 - weight) * others",
        "mixed = weight * others + (1 - weight) * query",
        (METRIC,),
    ),
    Fault(
        "MLTI mixes where it should not",
        "methods/mlti.py",
        "if chance < mixup.cross_task:",
        "if chance > mixup.cross_task:",
        (METRIC,),
    ),
    Fault(
        "MAML climbs",
        "methods/fomaml.py",
        "return {name: w - rate * g for (name, w), g in zip(weights.items(), slopes)}",
        "return {name: w + rate * g for (name, w), g in zip(weights.items(), slopes)}",
        ("tests/methods/test_fomaml.py",),
    ),
    Fault(
        "attention is scaled by d_k",
        "sets/set_transformer.py",
        "keepdim=True) / math.sqrt(block.width))",
        "keepdim=True) / block.width)",
        ("tests/sets/test_set_functions.py",),
    ),
    # What is kept
    Fault(
        "a changed checkpoint is believed",
        "files.py",
        "if changed or not texts.keys() <= TEXTS:",
        "if False:",
        ("tests/training/test_resume.py::test_no_changed_byte_of_a_file_of_tensors_goes_unnoticed",),
    ),
    Fault(
        "merged MAML is judged on its support",
        "methods/fomaml_meta_interpolation.py",
        "lambda weights, b: self.plain(weights, first.query[b]),",
        "lambda weights, b: self.plain(weights, first.support[b]),",
        ("tests/training/test_against_plain_loop.py",),
    ),
    Fault(
        "a cache of other raw files is believed",
        "datasets/cache.py",
        "if present is None or not changed_files(manifest, source, present):",
        "if True:",
        ("tests/datasets/test_cache.py",),
    ),
    Fault(
        "a second download may be another",
        "datasets/raw.py",
        "known = one.known_hash or (None if one.git_trees else first_use(folder, url))",
        "known = one.known_hash",
        ("tests/datasets/test_raw.py::test_a_file_without_a_checksum_is_trusted_once_and_must_then_stay_the_same",),
    ),
    # Sureness
    Fault(
        "a vote is no surer than one voter",
        "auto/calibration.py",
        "return agreement + (1 - agreement) / voters",
        "return 1.0",
        (VOTES,),
    ),
    Fault(
        "the spread of a task does not matter",
        "auto/calibration.py",
        "factor * self.temperature * judged.spreads**self.power",
        "factor * self.temperature * judged.spreads**0.0",
        (SPREAD,),
    ),
    Fault(
        "agreement is that of a model with itself",
        "auto/sureness.py",
        "models[(fold.number + 1) % len(models)]",
        "models[fold.number]",
        (AGREEMENT,),
    ),
)
QUICK = (
    "the outer batch comes from training tasks",
    "lambda goes uphill",
    "one Hessian product too many",
    "a query is a support row",
    "the interval is one-sided",
)
"""Those that `make test` plants; `make chaos` plants all."""

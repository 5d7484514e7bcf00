"""The groups of settings, one a concern: what each setting means, its default and what it may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from fewtask.ranges import Checked, Count, Decay, Factor, Range, Rate, Seed, Share, Size

OptimizerName = Literal["adam", "adamw", "sgd"]
ScheduleName = Literal["constant", "linear"]


@dataclass(frozen=True)
class DataSettings(Checked):
    """Which rows make up the tasks."""

    GROUP: ClassVar[str] = "data."
    seed: Seed = 0
    """Seed of every choice of rows; apart from the run's seed, so that all methods see the same rows."""
    max_per_class: Count | None = None
    """At most so many rows a class, where the data set limits them; unset: the data set's own default."""
    features: str | None = None
    """Kind of features, where a data set offers several; unset: the data set's own default."""
    strict: bool = False
    """Leak-free variant: molecules, recordings or hypotheses are divided, not only tasks."""
    train_classes: Annotated[int, Range(2, 1e9)] | None = None
    """Use only the first so many meta-training classes of a class pool."""
    validation_classes: Annotated[int, Range(2, 1e9)] | None = None
    """Use only the first so many meta-validation classes of a class pool."""
    train_tasks: Count | None = None
    """Only so many of the meta-training tasks (classes, in a class pool), drawn by `draw`."""
    train_rows: Count | None = None
    """At most so many rows of each meta-training class, drawn by `draw`; the other splits stay whole."""
    draw: Seed = 0
    """Which draw of `train_tasks` and `train_rows`: apart from `seed`, so that the other splits stay the same."""
    train_on_validation: bool = False
    """Add the meta-validation tasks to meta-training: the extra row that shows what their labels are worth."""
    halve_validation: bool = False
    """Give the set function one half of each validation class and the selection of weights the other."""


@dataclass(frozen=True)
class EpisodeSettings(Checked):
    """Size of the episodes."""

    GROUP: ClassVar[str] = "episode."
    way: Annotated[int, Range(2, 100_000)] = 5
    """Classes an episode (K)."""
    shot: Size = 5
    """Support rows a class (N)."""
    query: Size = 10
    """Query rows a class in meta-training (Q)."""
    batch: Size = 4
    """Episodes a step (B)."""


@dataclass(frozen=True)
class EncoderSettings(Checked):
    """The network that embeds rows."""

    GROUP: ClassVar[str] = "encoder."
    name: str = "mlp"
    """conv4, mlp, residual-mlp, text-head, or electra."""
    width: Size = 500
    """Width of the hidden and the output layers; for conv4 the number of filters."""
    scale: Factor = 5.0
    """residual-mlp: length of the normalised input."""
    path: str = "google/electra-small-discriminator"
    """electra: name or folder of the pretrained model."""


@dataclass(frozen=True)
class ModelSettings(Checked):
    """How embeddings become predictions, and how they are normalised."""

    GROUP: ClassVar[str] = "model."
    distance: Literal["squared-euclidean", "euclidean"] = "squared-euclidean"
    """Distance between a query and a prototype."""
    scale: Factor = 1.0
    """Factor of the distances before the softmax: squared distances over hundreds of numbers saturate it."""
    scale_by: Literal["fixed", "dimension", "learned"] = "fixed"
    """The factor as it is, divided by the width of the embedding, or learned with theta from there."""
    normalisation: Literal["joint", "episode"] = "joint"
    """BatchNorm statistics in training: over the whole batch of episodes, or each episode by itself."""
    clean_statistics: bool = True
    """Running statistics, used at test, come from un-interpolated passes only."""


@dataclass(frozen=True)
class OptimizerSettings(Checked):
    """Optimiser of the encoder's weights, theta."""

    GROUP: ClassVar[str] = "optimizer."
    name: OptimizerName = "adam"
    lr: Rate = 1e-3
    schedule: ScheduleName = "constant"
    weight_decay: Rate = 0.0


@dataclass(frozen=True)
class HyperSettings(Checked):
    """Outer optimisation of lambda: Algorithm 2."""

    GROUP: ClassVar[str] = "hyper."
    estimator: str = "neumann"
    """direct, t1t2, neumann, conjugate-gradient, nystrom, or finite-difference (first derivatives only)."""
    name: OptimizerName = "adam"
    lr: Rate = 1e-4
    schedule: ScheduleName = "linear"
    updates: Count = 100
    """How often lambda is updated in a run, at least: the steps between two updates follow from it."""
    period: Count | None = None
    """Steps between two updates of lambda (S), where they are to be given instead of `updates`."""
    terms: Annotated[int, Range(0, 100_000)] = 5
    """Hessian products of the estimator (q): terms of a series, steps of conjugate gradients, rank of nystrom."""
    step: Literal["lr", "auto"] = "lr"
    """Step of the series: the learning rate of theta, or one over the Hessian's norm, found at every update."""
    damping: Rate = 0.0
    """Added to the Hessian, so that flat directions do not count without end."""
    decay: bool = False
    """Count theta's weight decay as part of the Hessian."""
    precondition: bool = False
    """See the Hessian through Adam's scale of each weight, as the inner steps do."""
    warm_start: bool = False
    """Start from the solution of the last update."""
    weight_lr: Rate = 0.05
    """Learning rate of a learned interpolation.weight, one number that must move further than phi's many."""


@dataclass(frozen=True)
class SetFunctionSettings(Checked):
    """The set function phi_lambda."""

    GROUP: ClassVar[str] = "set_function."
    name: str = "set-transformer"
    """set-transformer, deep-sets, mean; or with few learned numbers gate, random-weight, low-rank."""
    hidden: Size = 1024
    """Width of its hidden layers (d_h)."""
    heads: Size = 4
    """Attention heads of the Set Transformer; the rank of low-rank."""
    dropout: Decay = 0.1


@dataclass(frozen=True)
class InterpolationSettings(Checked):
    """Where and how tasks are interpolated."""

    GROUP: ClassVar[str] = "interpolation."
    layer: Annotated[int, Range(0, 1_000)] = 1
    """Layer after which features are interpolated, 0 (the input) to L (the output)."""
    pairs: Literal["all", "matched"] = "all"
    """Every support pair of a class (Eq. 3), or a random one-to-one matching: several times cheaper."""
    strategy: Literal["support", "query", "support+query", "support+noise"] = "support"
    cardinality: Annotated[int, Range(1, 1_000)] = 2
    """Elements of an interpolated set, each from another task."""
    label_sharing: bool = False
    """Tasks have the same classes (active, inactive), which are merged class by class and not paired at random."""
    bilevel: bool = True
    """Learn lambda on validation tasks; otherwise jointly with theta."""
    singleton_loss: bool = True
    """Also train on the original tasks."""
    share: Share = 1.0
    """Share of the steps that interpolate; the others train on the original tasks alone and cost less."""
    weight: Share = 0.5
    """Share of the loss of interpolated tasks; the rest is that of the original ones. The paper's is 0.5."""
    learn_weight: bool = False
    """Learn that share with lambda, from there."""


@dataclass(frozen=True)
class MixupSettings(Checked):
    """Manifold Mixup of MetaMix and MLTI."""

    GROUP: ClassVar[str] = "mixup."
    alpha: Factor = 0.5
    """Beta(alpha, alpha) of the mixing weight: 0.5 for features, 2 for images."""
    cross_task: Share = 0.5
    """MLTI: probability of mixing two tasks, against `within_task` and training on the tasks as they are."""
    within_task: Share = 0.0
    """MLTI: probability of mixing a task with itself, as `within` says."""
    within: Literal["support", "query", "classes"] = "support"
    """MLTI: queries mixed with support rows (MetaMix) or with other queries of their task, by one weight a task; or
    the whole task with itself, its classes paired anew."""
    coin: Literal["step", "episode"] = "step"
    """MLTI: whether a whole step or each of its episodes decides for itself. Its authors' code: each episode."""
    random_layer: bool = False
    """Mix at a random layer up to the interpolation layer instead of always there."""
    label_sharing: bool = False
    """MLTI: tasks have the same classes, which are mixed class by class."""
    cutmix: bool = False
    """MLTI: paste rectangles of images instead of mixing at a layer."""


@dataclass(frozen=True)
class MetaRegSettings(Checked):
    """Learned l2 coefficients."""

    GROUP: ClassVar[str] = "metareg."
    initial: Rate = 1e-5
    """Coefficient of every weight at the start."""


@dataclass(frozen=True)
class AdaptationSettings(Checked):
    """Inner steps of FOMAML."""

    GROUP: ClassVar[str] = "adaptation."
    steps: Annotated[int, Range(0, 100_000)] = 5
    """Gradient steps on the support set in training."""
    test_steps: Annotated[int, Range(0, 100_000)] = 10
    """Gradient steps on the support set at test."""
    lr: Rate = 0.01


@dataclass(frozen=True)
class CentroidSettings(Checked):
    """Prototypes of the input itself."""

    GROUP: ClassVar[str] = "centroid."
    preparation: Literal["auto", "raw", "standardised", "unit"] = "auto"
    """What happens to the rows first; auto chooses on meta-validation."""


@dataclass(frozen=True)
class TrainSettings(Checked):
    """Length of the run, validation and selection."""

    GROUP: ClassVar[str] = "train."
    steps: Count = 10_000
    validate_every: Count = 250
    validation_episodes: Annotated[int, Range(1, 10_000_000)] = 1_000
    average: Decay = 0.0
    """Decay of an exponential average of the weights that is validated, selected and saved instead; 0: off."""
    pieces: Size = 1
    """Work a batch of episodes through in so many parts: less memory, the same gradient. Not with joint BatchNorm."""
    log_every: Count = 50
    checkpoint_every: Count = 250


@dataclass(frozen=True)
class EvaluationSettings(Checked):
    """Meta-test, and the episodes of meta-validation."""

    GROUP: ClassVar[str] = "evaluation."
    episodes: Annotated[int, Range(1, 10_000_000)] = 3_000
    query: Size = 15
    """Query rows a class in validation and test."""
    seed: Seed = 0
    """Seed of the list of episodes: the same for every method and every run."""

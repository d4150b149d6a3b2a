"""The models by name. The library of a model is imported when the model is made."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from svdkl_research.datasets.dataset import Kind
from svdkl_research.rivals.interface import Baseline, ClassBaseline, Gaussian, RealBaseline, Refined


def _network(**options: object) -> Callable[[Kind, str], Baseline]:
    def make(task: Kind, dataset: str) -> Baseline:
        from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor

        return NetworkClassifier(**options) if task == "classification" else NetworkRegressor(**options)

    return make


def _paper(task: Kind, dataset: str) -> Baseline:
    return _network(**paper_options(dataset))(task, dataset)


def _on_images(**options: object) -> Callable[[str, int | None], Baseline]:
    def make(dataset: str, max_epochs: int | None) -> Baseline:
        from svdkl_research.rivals.image_networks import ImageClassifier

        return ImageClassifier(dataset, max_epochs, **options)

    return make


def _boosting(task: Kind, dataset: str) -> Baseline:
    from svdkl_research.rivals.boosting import BoostingClassifier, BoostingRegressor

    return BoostingClassifier() if task == "classification" else BoostingRegressor()


def _ensemble(task: Kind, dataset: str) -> Baseline:
    from svdkl_research.rivals.ensemble import EnsembleClassifier, EnsembleRegressor
    from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor

    if task == "classification":
        return EnsembleClassifier(lambda: NetworkClassifier(recipe="dnn"))
    return EnsembleRegressor(lambda: NetworkRegressor(recipe="dnn"))


def _image_ensemble(dataset: str, max_epochs: int | None) -> Baseline:
    from svdkl_research.rivals.ensemble import EnsembleClassifier
    from svdkl_research.rivals.image_networks import ImageClassifier

    return EnsembleClassifier(lambda: ImageClassifier(dataset, max_epochs, recipe="dnn"))


def _tempered(model: Baseline) -> Refined:
    from svdkl_research.rivals.temperature import ScaledRegressor, TemperedClassifier

    if isinstance(model, ClassBaseline):
        return TemperedClassifier(model)
    assert isinstance(model, RealBaseline)
    return ScaledRegressor(model)


def _laplace(model: Baseline) -> Refined:
    from svdkl_research.rivals.image_networks import ImageClassifier
    from svdkl_research.rivals.laplace import LaplaceClassifier
    from svdkl_research.rivals.networks import NetworkClassifier

    assert isinstance(model, NetworkClassifier | ImageClassifier)
    return LaplaceClassifier(model)


def _with_gps(model: Baseline) -> Refined:
    from svdkl_research.rivals.frozen_features import FrozenFeaturesClassifier, FrozenFeaturesRegressor
    from svdkl_research.rivals.image_networks import ImageClassifier
    from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor

    if isinstance(model, NetworkRegressor):
        return FrozenFeaturesRegressor(model)
    assert isinstance(model, NetworkClassifier | ImageClassifier)
    return FrozenFeaturesClassifier(model)


def _mc_gp(dataset: str, max_epochs: int | None) -> Baseline:
    from svdkl_research.rivals.mc_gp import SampledGPClassifier

    return SampledGPClassifier()


def _savi_gp(dataset: str, max_epochs: int | None) -> Baseline:
    from svdkl_research.rivals.savi_gp import MixtureGPClassifier

    return MixtureGPClassifier()


def _d_gplvm(dataset: str, max_epochs: int | None) -> Baseline:
    from svdkl_research.rivals.d_gplvm import LatentVariableClassifier

    return LatentVariableClassifier()


def _svgp(task: Kind, dataset: str) -> Baseline:
    from svdkl_research.rivals.svgp import SparseGP

    return SparseGP()


def _klsp_gp(*which: object) -> Baseline:
    from svdkl_research.rivals.klsp_gp import SparseGPClassifier

    return SparseGPClassifier()


def _svm(task: Kind, dataset: str) -> Baseline:
    from svdkl_research.rivals.svm import SupportVectorMachine

    return SupportVectorMachine()


@dataclass(frozen=True)
class Entry:
    """How to make a model, and for which tasks.

    Attributes
    ----------
    make
        Function that makes the model for tables from the task and the set's name; None for a model of images only.
    tasks
        The tasks on tables that the model can do.
    on_images
        Function that makes the model for images from the set's name and the most epochs; None for tables only.
    """

    make: Callable[[Kind, str], Baseline] | None
    title: str
    tasks: tuple[Kind, ...] = ("classification", "regression")
    on_images: Callable[[str, int | None], Baseline] | None = None


def _refined(refinement: Callable[[Baseline], Refined], title: str, tasks: tuple[Kind, ...]) -> Entry:
    """Make an entry for a plain network that is trained and then refined."""
    on_tables, on_images = _network(recipe="dnn"), _on_images(recipe="dnn")
    return Entry(
        lambda *which: refinement(on_tables(*which)), title, tasks, lambda *which: refinement(on_images(*which))
    )


_PAPER: dict[str, object] = {"recipe": "svdkl", "gps": "outputs", "evidence": False}
PAPER_BATCHES = {"flights": 50_000, "airline": 50_000}  # rows of a joint step; the paper names none for its UCI sets


def paper_options(dataset: str) -> dict[str, object]:
    """Return the options of SV-DKL as in the paper, with the paper's minibatches on a set that it names."""
    batch = PAPER_BATCHES.get(dataset)
    return _PAPER if batch is None else {**_PAPER, "joint_batch_size": batch}


MODELS: dict[str, Entry] = {
    "dnn": Entry(_network(recipe="dnn"), "network"),
    "dnn_plus": Entry(_network(recipe="dnn_plus"), "network, one more layer"),
    "dnn_gp": Entry(_network(recipe="dnn_gp"), "GP on frozen features"),
    "cnn": Entry(None, "network", (), _on_images(recipe="dnn")),
    "dnn_temperature": _refined(_tempered, "network, temperature", ("classification", "regression")),
    "laplace": _refined(_laplace, "network, Laplace last layer", ("classification",)),
    "cnn_plus": Entry(None, "network, one more layer", (), on_images=_on_images(recipe="dnn_plus")),
    "cnn_gp": Entry(None, "GP on frozen features", (), on_images=_on_images(recipe="dnn_gp")),
    "svdkl_paper": Entry(_paper, "SV-DKL as in the paper", ("classification",), on_images=_on_images(**_PAPER)),
    "svdkl_paper_small_batches": Entry(
        _network(**_PAPER), "SV-DKL as in the paper, the network's minibatches", ("classification",)
    ),
    "svdkl": Entry(_network(recipe="svdkl"), "SV-DKL", on_images=_on_images(recipe="svdkl")),
    "ensemble": Entry(_ensemble, "five networks", on_images=_image_ensemble),
    "lightgbm": Entry(_boosting, "LightGBM"),
    "svgp": Entry(_svgp, "SVGP, no network", ("regression",)),
    "klsp_gp": Entry(_klsp_gp, "KLSP-GP", ("classification",), on_images=_klsp_gp),
    "mc_gp": Entry(None, "MC-GP", (), on_images=_mc_gp),
    "savi_gp": Entry(None, "SAVI-GP", (), on_images=_savi_gp),
    "d_gplvm": Entry(None, "D-GPLVM", (), on_images=_d_gplvm),
    "svm": Entry(_svm, "SVM", ("classification",)),
}
TITLES: dict[str, str] = {name: entry.title for name, entry in MODELS.items()}
# Models that are made from a fitted plain network, without another fit of it.
REFINEMENTS: dict[str, Callable[[Baseline], Refined]] = {
    "dnn_temperature": _tempered,
    "laplace": _laplace,
    "dnn_gp": _with_gps,
    "cnn_gp": _with_gps,
}
PLAIN_NETWORKS = ("dnn", "cnn")  # the models that can be refined so
# Models whose first epochs are the plain network's, and the options on a set in which they differ from it.
FORKS: dict[str, Callable[[str], dict[str, object]]] = {
    "svdkl_paper": paper_options,
    "svdkl_paper_small_batches": lambda dataset: _PAPER,
    "svdkl": lambda dataset: {"recipe": "svdkl"},
}


def make_baseline(name: str, task: Kind, dataset: str = "") -> Baseline:
    """Make a model for tables by name; ``dataset`` lets it use the paper's minibatches there."""
    entry = MODELS.get(name)
    if entry is None or entry.make is None or task not in entry.tasks:
        raise ValueError(f"Expected a model out of {', '.join(models_for(task))} for {task}, got {name!r}.")
    return entry.make(task, dataset)


def make_image_baseline(name: str, dataset: str, max_epochs: int | None = None) -> Baseline:
    """Make a model for a set of images by name."""
    entry = MODELS.get(name)
    if entry is None or entry.on_images is None:
        known = ", ".join(name for name, entry in MODELS.items() if entry.on_images is not None)
        raise ValueError(f"Expected a model out of {known} for images, got {name!r}.")
    return entry.on_images(dataset, max_epochs)


def models_for(task: Kind) -> Iterable[str]:
    """List the models that can do a task on tables."""
    return [name for name, entry in MODELS.items() if task in entry.tasks]


__all__ = [
    "FORKS",
    "MODELS",
    "PLAIN_NETWORKS",
    "REFINEMENTS",
    "TITLES",
    "Baseline",
    "ClassBaseline",
    "Entry",
    "Gaussian",
    "RealBaseline",
    "Refined",
    "make_baseline",
    "make_image_baseline",
    "models_for",
]

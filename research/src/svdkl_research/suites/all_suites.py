"""The suites themselves, as data."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

from svdkl_research.suites.suite import Suite

QUICK = "quick/"  # beginning of a quick suite's name, and so the folder of its results
QUICK_ROWS = 4_000  # training rows of a quick suite, at most
QUICK_EPOCHS = 6  # epochs of networks on images in a quick suite, at most
GP_RIVALS = ("klsp_gp", "mc_gp", "savi_gp", "d_gplvm")  # on principal components of images
IMAGE_NETWORKS = ("cnn", "cnn_plus", "svdkl_paper", "svdkl")
# Further results that each fit of the plain network gives, on tables and on images.
OF_TABLES, OF_IMAGES = ("dnn_temperature", "dnn_gp"), ("dnn_temperature", "laplace", "cnn_gp")
DIGITS, PHOTOGRAPHS = ("mnist_binary", "mnist"), ("cifar10", "tiny_imagenet20")
UCI_SETS = ("adult", "connect4", "covertype", "diabetes")
# The paper's minibatches there are larger than the network's; a run with the network's shows what they cost.
AIRLINE_MODELS = ("klsp_gp", "dnn", "dnn_plus", "svdkl_paper", "svdkl_paper_small_batches", "svdkl", "lightgbm")
QUICK_MODELS = ("dnn", "dnn_plus", "cnn", "cnn_plus", "svdkl_paper", "svdkl", "lightgbm")

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "uci",
            "The paper's UCI sets",
            "classification",
            UCI_SETS,
            ("svm", "dnn", "dnn_plus", "klsp_gp", "svdkl_paper", "svdkl", "lightgbm", "ensemble"),
            folds=(0, 1, 2, 3, 4),
            seeds=(0,),
            refined=(*OF_TABLES, "laplace"),
            # A fold takes up to half an hour of a core, on the largest set an hour.
            fewer_folds=dict.fromkeys(product(UCI_SETS, ("svm", "ensemble")), (0,)),
        ),
        Suite(
            "airline",
            "Late flights",
            "classification",
            ("flights",),
            AIRLINE_MODELS,
            folds=(0,),
            seeds=(0, 1, 2),
            # One run suffices for models that are far from SV-DKL or take long; verdicts on the others need a spread.
            fewer_seeds=dict.fromkeys(product(("flights",), ("klsp_gp", "dnn_plus", "lightgbm")), (0,)),
            # Shares of the rows for the paper's Figure 2, a and b.
            parts=(Fraction(1, 50), Fraction(1, 10), Fraction(1, 3)),
            models_on_parts=("dnn", "svdkl"),
            refined=OF_TABLES,
        ),
        # The paper's own flights are a suite of their own, since their public files are large.
        Suite(
            "airline2008",
            "Late flights of 2008",
            "classification",
            ("airline",),
            AIRLINE_MODELS,
            folds=(0,),
            seeds=(0,),
            refined=OF_TABLES,
        ),
        Suite(
            "tabular",
            "Classes from tables",
            "classification",
            ("adult", "connect4", "covertype", "diabetes", "flights"),
            ("dnn", "svdkl_paper", "svdkl", "lightgbm"),
            folds=(0,),
            seeds=(0, 1, 2),
            refined=OF_TABLES,
        ),
        Suite(
            "regression",
            "Real targets from tables",
            "regression",
            ("bike", "elevators", "pol", "kin40k", "keggdirected", "concrete", "energy", "yacht"),
            ("dnn", "svdkl", "lightgbm", "svgp"),
            folds=tuple(range(10)),
            seeds=(0,),
        ),
        Suite(
            "images",
            "Classes from images",
            "classification",
            (*DIGITS, *PHOTOGRAPHS),
            (*GP_RIVALS, *IMAGE_NETWORKS, "ensemble"),
            folds=(0,),
            seeds=(0, 1, 2),
            refined=OF_IMAGES,
            # GPs on colour pictures are left out, as in the paper: distances between pixels mean little there. Five
            # networks compete at recognising strange images, which Tiny-ImageNet's models are not shown.
            fewer_folds={
                **dict.fromkeys(product(PHOTOGRAPHS, GP_RIVALS), ()),
                ("mnist_binary", "mc_gp"): (),
                ("tiny_imagenet20", "ensemble"): (),
            },
            fewer_seeds={
                **dict.fromkeys(product(("mnist_binary", *PHOTOGRAPHS), IMAGE_NETWORKS), (0, 1)),
                **dict.fromkeys(product(PHOTOGRAPHS, ("svdkl_paper",)), (0,)),
                **dict.fromkeys(product(DIGITS, GP_RIVALS), (0,)),
                **dict.fromkeys(product((*DIGITS, *PHOTOGRAPHS), ("ensemble",)), (0,)),
            },
        ),
        Suite(
            "resnet",
            "ResNet-20 on CIFAR-10",
            "classification",
            ("cifar10_resnet",),
            ("cnn", "svdkl_paper", "svdkl"),
            folds=(0,),
            seeds=(0,),
        ),
        # SVHN is a suite of its own, since few have a copy of the set.
        Suite(
            "svhn",
            "House numbers",
            "classification",
            ("svhn",),
            IMAGE_NETWORKS,
            folds=(0,),
            seeds=(0, 1),
            refined=("dnn_temperature", "cnn_gp"),
        ),
        # Two sets that come with scikit-learn, to check an installation within minutes.
        Suite(
            "smoke",
            "Classes, a small set",
            "classification",
            ("tumours",),
            ("dnn", "dnn_plus", "svdkl_paper", "svdkl", "lightgbm"),
            folds=(0, 1),
            seeds=(0,),
            refined=OF_TABLES,
        ),
        Suite(
            "smoke_regression",
            "Real targets, a small set",
            "regression",
            ("progression",),
            ("dnn", "svdkl", "lightgbm", "svgp"),
            folds=(0, 1),
            seeds=(0,),
            refined=OF_TABLES,
        ),
    )
}


def get_suite(name: str) -> Suite:
    """Return a suite by name, or its small version if ``quick/`` comes before the name."""
    own = name.removeprefix(QUICK)
    if own not in SUITES:
        raise ValueError(f"Expected a suite out of {', '.join(SUITES)}, got {name!r}.")
    return SUITES[own] if own == name else quick(SUITES[own])


def quick(suite: Suite) -> Suite:
    """Return the small version of a suite: fast models, few rows, one run of each, and its own folder of results."""
    return replace(
        suite,
        name=f"{QUICK}{suite.name}",
        title=f"{suite.title}, a quick look",
        models=tuple(model for model in suite.models if model in QUICK_MODELS),
        folds=suite.folds[:1],
        seeds=suite.seeds[:1],
        fewer_folds={},
        max_rows=QUICK_ROWS,
        max_epochs=QUICK_EPOCHS,
        fewer_seeds={},
    )

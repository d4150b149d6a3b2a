"""Which encoding of numbers a table's real targets want: short runs of the network, judged by the held-out rows.

Targets that jump want the bins, targets that are smooth in the numbers are learned far better without: on validation
rows of kin40k the network's RMSE was half as large again with them, on those of energy a third smaller. No property of
a column tells, and a run of a fifth of the epochs does.
"""

from dataclasses import replace
from typing import Any

import torch

from svdkl.estimators.settings import MANY_ROWS, build_net
from svdkl.training.config import TrainingConfig
from svdkl.training.history import History
from svdkl.training.recipe import train
from svdkl.training.rows import InMemory, Rows, Source

TRIED = ("piecewise", "plain")
TRIAL_SHARE = 0.2  # of the epochs, but not fewer than
FEWEST_EPOCHS = 5


def is_open(estimator: Any, source: Source, held_out: Rows, config: TrainingConfig) -> bool:
    """Whether runs are to choose: where they are wanted, with other rows to judge by."""
    judged = isinstance(source, InMemory) and source.rows is not held_out
    return judged and trial_epochs(estimator, source.num_rows, config) > 0


def trial_epochs(estimator: Any, num_rows: int, config: TrainingConfig) -> int:
    """Epochs of each run; 0 where none is wanted: for classes, in large tables, where the encoding is given."""
    wanted = estimator._task == "regression" and estimator.encoding == "auto" and estimator.net is None
    if not wanted or num_rows >= MANY_ROWS or config.epochs <= FEWEST_EPOCHS:
        return 0
    return max(FEWEST_EPOCHS, round(TRIAL_SHARE * config.epochs))


def try_encodings(estimator: Any, source: Source, held_out: Rows, config: TrainingConfig) -> str:
    """The encoding whose network does best on the held-out rows after a short run; all runs start alike."""
    epochs = trial_epochs(estimator, source.num_rows, config)
    short = replace(config, recipe="dnn", pretrain_epochs=epochs, joint_epochs=0)
    options, scores = estimator.network_options_, {}
    for encoding in TRIED:
        estimator.network_options_ = {**options, "encoding": encoding}
        torch.manual_seed(config.seed)
        net, features = build_net(estimator, estimator.encoder_.layout, estimator.num_features_, estimator._num_outputs)
        history = History()
        train(
            net.to(source.device),
            features,
            estimator._num_outputs,
            estimator._likelihood(),
            source,
            held_out,
            short,
            history=history,
        )
        scores[encoding] = min(epoch.held_out_nlp for epoch in history.epochs)
    estimator.network_options_ = options
    return min(scores, key=lambda encoding: scores[encoding])

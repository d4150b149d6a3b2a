"""Prepare the rows of a table, build a model and train it, or train it further."""

import copy
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from sklearn.utils import check_random_state

from svdkl.estimators.building import (
    MANY_ROWS,
    build_head,
    build_net,
    choose_device,
    features_of,
    head_options,
    network_options,
    training_config,
)
from svdkl.estimators.examples import Examples, Learned, TableLike, encode, read_examples
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.options import Options, plain
from svdkl.estimators.targets import Targets
from svdkl.tables.encoder import TabularEncoder
from svdkl.training.batches import InMemory, Rows, Source
from svdkl.training.best_epochs import Standing
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import Display, Epoch, History
from svdkl.training.recipe import train, train_more

HISTORY = "history.jsonl"

# Which encoding of numbers do real targets want? Targets that jump want the bins, and targets that are smooth in the
# numbers are learned far better without: on validation rows of kin40k the network's RMSE was half as large again with
# bins, on those of energy a third smaller. No property of a column tells, but a short run of the network does.
TRIED = ("piecewise", "plain")
TRIAL_SHARE = 0.2  # of the epochs: enough to tell the two apart, at two fifths more time
FEWEST_TRIAL_EPOCHS = 5  # in fewer, both networks are still where they started

WhatIsSaved = Callable[[Snapshot], None]
StageEnd = Callable[[str, Mapping[str, Standing]], None]


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rows that are ready to train on, with the options and what was learned of their table.

    Attributes
    ----------
    source, held_out
        Rows to fit, and rows for early stopping and the held-out evidence; the rows to fit themselves, if none are held
        out.
    holds_out
        Whether rows are held out.
    config
        The training that the options describe for these rows.
    split_seed
        The seed by which rows were held out of a table in memory.
    """

    options: Options
    learned: Learned
    encoder: TabularEncoder | None
    source: Source
    held_out: Rows
    holds_out: bool
    config: TrainingConfig
    split_seed: int | None = None


def prepare_table(
    options: Options,
    kind: type[Targets],
    X: TableLike,
    y: object,
    sample_weight: object = None,
    eval_set: object = None,
    known: Fitted | None = None,
    labels: object = None,
    holds_out: bool = True,
) -> TrainingSet:
    """Read a table, hold rows out, and bring all to tensors.

    Parameters
    ----------
    kind
        Whether targets are classes or real numbers.
    eval_set
        Rows to hold out, if they are given beside the table.
    known
        The model that is to be trained further, whose columns and targets these rows have.
    labels
        All labels that will come, if they are named.
    holds_out
        Whether rows may be held out of the table.
    """
    examples, learned = read_examples(
        options, kind, X, y, sample_weight, None if known is None else known.learned, labels
    )
    seed = draw_seed(options)
    # A model that is trained further holds out the rows that it held out before: the network has not seen them.
    split_seed = seed if known is None or known.split_seed is None else known.split_seed
    held = None if eval_set is None else read_examples(options, kind, *_rows_of(eval_set), known=learned)[0]
    if not (options.holds_out and holds_out):
        held = None
    elif held is None:
        examples, held = examples.hold_out(float(options.validation_fraction), split_seed)
    if known is None:
        learned = learned._replace(targets=learned.targets.scaled_to(examples.y, examples.weight))
        own = options.net is not None
        encoder = None if own else TabularEncoder().fit(examples.X, examples.y, learned.targets.task)
    else:
        encoder = known.encoder
    rows = to_rows(options, learned, encoder, examples)
    held_rows = rows if held is None else to_rows(options, learned, encoder, held)
    config = training_config(options, learned.targets.task, len(rows), held is not None, seed)
    return TrainingSet(options, learned, encoder, InMemory(rows), held_rows, held is not None, config, split_seed)


def _rows_of(eval_set: object) -> tuple[Any, Any, Any]:
    if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
        raise ValueError(
            "Expected eval_set to be (X, y) or (X, y, sample_weight), got something else: one such tuple holds all "
            "held-out rows."
        )
    X, y, weight = (*eval_set, None)[:3]
    return X, y, weight


def to_rows(options: Options, learned: Learned, encoder: TabularEncoder | None, examples: Examples) -> Rows:
    """Bring examples to tensors on the device."""
    device = choose_device(options.device)
    weight = None if examples.weight is None else torch.tensor(examples.weight, dtype=torch.float32, device=device)
    x, y = encode(encoder, examples.X), learned.targets.to_tensor(examples.y)
    return Rows(x.to(device), y.to(device), weight)


def draw_seed(options: Options) -> int:
    """Draw the seed of a fit, which is the first worker's where several fit together."""
    return joined().gather(int(check_random_state(options.random_state).randint(2**31 - 1)))[0]


# ----------------------------------------------------------------------------------------------------------- training


def fit_model(
    given: TrainingSet,
    checkpoint: Path | None = None,
    on_save: WhatIsSaved | None = None,
    on_stage_end: StageEnd | None = None,
) -> Fitted:
    """Build a model and train it.

    Parameters
    ----------
    checkpoint
        A file that keeps the state after every epoch; a fit that finds its own there goes on from it.
    on_save, on_stage_end
        Callbacks for programs that watch the training: told of every snapshot that a checkpoint saves, and of how
        things stood at the best epochs of a stage.
    """
    options, config, targets = given.options, given.config, given.learned.targets
    history = History() if checkpoint is None else _history_beside(checkpoint)
    with _seeded(options, config) as report:
        own = options.net is not None
        num_features = features_of(options.net, given.held_out.x[:1]) if own else options.num_features
        network = network_options(options, targets.task, given.source.num_rows)
        if _is_open(given, config):
            network["encoding"] = _try_encodings(given, config, network, num_features)
            torch.manual_seed(config.seed)
        layout = None if given.encoder is None else given.encoder.layout
        net, head_features = build_net(options, layout, network, num_features, targets.num_outputs)
        head = build_head(options, head_features, targets.num_outputs, targets.likelihood)
        place = None
        if checkpoint is not None:
            place = Checkpoint(checkpoint, facts_of(given, config, network, num_features), on_save)
        model = train(
            net.to(given.source.device),
            head,
            given.source,
            given.held_out,
            config,
            history=history,
            checkpoint=place,
            on_epoch=report,
            on_stage_end=on_stage_end,
        )
    return Fitted(
        options=options,
        learned=given.learned,
        encoder=given.encoder,
        network=network,
        num_features=num_features,
        model=model.eval(),
        history=history.epochs,
        num_rows_seen=given.source.num_rows,
        split_seed=given.split_seed,
        seconds_waited=given.source.waited,
    )


def fit_more(known: Fitted, given: TrainingSet, as_chunk: bool = False) -> Fitted:
    """Train a copy of a model further, so that the model itself stays whole whatever happens.

    Parameters
    ----------
    as_chunk
        Whether the rows are new ones, which are gone through once, and not the model's own once more.
    """
    history, model = History(), copy.deepcopy(known.model)
    config, num_rows_seen, split_seed = given.config, given.source.num_rows, given.split_seed
    if as_chunk:
        config = replace(config, pretrain_epochs=0, joint_epochs=1)
        num_rows_seen, split_seed = known.num_rows_seen + num_rows_seen, known.split_seed
    with _seeded(given.options, config, going_on=True) as report:
        train_more(model, given.source, given.held_out, config, num_rows_seen, history, report)
    return replace(
        known,
        options=given.options,
        model=model.eval(),
        history=[*known.history, *history.epochs],
        num_rows_seen=num_rows_seen,
        split_seed=split_seed,
    )


@contextmanager
def _seeded(options: Options, config: TrainingConfig, going_on: bool = False) -> Iterator[Callable[[Epoch], None]]:
    """Give torch's generator the run's seed for as long as the run takes, and show its progress if that is wanted."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if options.verbose and joined().first:
            with Display(config, going_on=going_on) as display:
                yield display.show
        else:
            yield lambda epoch: None


def trial_epochs(options: Options, task: str, num_rows: int, config: TrainingConfig) -> int:
    """Count the epochs of each trial of an encoding.

    There are none for classes, in large tables, and where the encoding is given.
    """
    wanted = task == "regression" and options.encoding == "auto" and options.net is None
    if not wanted or num_rows >= MANY_ROWS or config.epochs <= FEWEST_TRIAL_EPOCHS:
        return 0
    return max(FEWEST_TRIAL_EPOCHS, round(TRIAL_SHARE * config.epochs))


def _is_open(given: TrainingSet, config: TrainingConfig) -> bool:
    """Tell whether trials are to choose an encoding: where they are wanted, with other rows to judge by."""
    judged = isinstance(given.source, InMemory) and given.holds_out
    return judged and trial_epochs(given.options, given.learned.targets.task, given.source.num_rows, config) > 0


def _try_encodings(given: TrainingSet, config: TrainingConfig, network: dict[str, Any], num_features: int) -> str:
    """Return the encoding whose network does best on the held-out rows after a short run; all runs start alike."""
    targets = given.learned.targets
    plain_options = replace(given.options, recipe="dnn")
    epochs = trial_epochs(given.options, targets.task, given.source.num_rows, config)
    short = replace(config, recipe="dnn", pretrain_epochs=epochs, joint_epochs=0)
    assert given.encoder is not None
    scores = {}
    for encoding in TRIED:
        torch.manual_seed(config.seed)
        tried = {**network, "encoding": encoding}
        net, features = build_net(plain_options, given.encoder.layout, tried, num_features, targets.num_outputs)
        head = build_head(plain_options, features, targets.num_outputs, targets.likelihood)
        history = History()
        train(net.to(given.source.device), head, given.source, given.held_out, short, history=history)
        scores[encoding] = min(epoch.held_out_nlp for epoch in history.epochs)
    return min(scores, key=lambda encoding: scores[encoding])


# --------------------------------------------------------------------------------------------- what is kept of a fit


def read_checkpoint(checkpoint: object, warm: bool = False) -> Path:
    """Return the file that a caller names to keep the state of a fit."""
    if not isinstance(checkpoint, str | os.PathLike) or Path(checkpoint).is_dir():
        raise ValueError(
            f"Expected checkpoint to be the path of a file, got {str(checkpoint)!r}: name one, in a folder that need "
            f"not exist yet."
        )
    if warm:
        raise ValueError(
            f"Expected checkpoint=None where warm_start goes on from a model, got {str(checkpoint)!r}: only fits from "
            f"the start can be taken up again, so save the model before."
        )
    return Path(checkpoint)


def facts_of(given: TrainingSet, config: TrainingConfig, network: dict[str, Any], num_features: int) -> dict[str, Any]:
    """Return what tells a fit from others, so that a checkpoint of another table or of other options is refused."""
    options, targets = given.options, given.learned.targets
    columns = None if given.encoder is None else json.dumps(given.encoder.to_json())
    facts = {
        **asdict(config),
        **given.source.facts,
        "fingerprint of the held-out rows": given.held_out.fingerprint(),
        "class_weight": repr(options.class_weight),
        "columns": None if columns is None else hashlib.sha256(columns.encode()).hexdigest(),
        "outputs": targets.num_outputs,
        "likelihood": targets.likelihood,
        "num_features": num_features,
        **network,
        **{name: str(value) for name, value in head_options(options).items()},
    }
    return {name: plain(value) for name, value in facts.items()}


def _history_beside(checkpoint: Path) -> History:
    """Return a history that the first worker keeps in a file beside the checkpoint."""
    if not joined().first:
        return History()
    path = checkpoint.with_name(HISTORY)
    if not checkpoint.exists():
        path.unlink(missing_ok=True)  # what stands there is another fit's
    return History(path)

"""Rows streamed from Parquet: all of them, once, in an order that depends on the epoch alone."""

import threading
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from refusals import refused
from tolerances import close

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.options import Options
from svdkl.estimators.streaming import open_stream
from svdkl.estimators.targets import Classes
from svdkl.tables.parquet_files import ParquetFiles
from svdkl.training import parquet_batches as stream
from svdkl.training.batches import Rows
from svdkl.training.distributed import ALONE, WorkerGroup
from svdkl.training.parquet_batches import ParquetRows
from svdkl.training.parquet_survey import survey

CPU = torch.device("cpu")


@pytest.fixture
def files(tmp_path) -> ParquetFiles:
    """Row numbers and a label, in two files with row groups of unequal sizes."""
    number = np.arange(5000)
    table = pa.table({"number": number, "label": np.where(number % 7 == 0, "rare", "common")})
    pq.write_table(table.slice(0, 3100), tmp_path / "a.parquet", row_group_size=700)
    pq.write_table(table.slice(3100), tmp_path / "b.parquet", row_group_size=333)
    return ParquetFiles(tmp_path)


def encode(table: pa.Table) -> Rows:
    number = torch.tensor(table.column("number").to_numpy(), dtype=torch.float64)
    return Rows(number[:, None], number.long())


def rows_of(files: ParquetFiles, held=(), epoch_rows: int = 10**9) -> ParquetRows:
    held = np.array(sorted(held), np.int64)
    return ParquetRows(files, ["number"], encode, held, Rows(torch.zeros(10, 1), torch.zeros(10)), epoch_rows, 3, CPU)


def numbers(source: ParquetRows, epoch: int, workers: WorkerGroup = ALONE, batch_size: int = 64) -> list[list[int]]:
    generator = torch.Generator().manual_seed(epoch)
    return [batch.y.long().flatten().tolist() for batch in source.batches(epoch, batch_size, generator, workers)]


def test_an_epoch_holds_every_row_once_but_those_held_out(files, monkeypatch):
    monkeypatch.setattr(stream, "BUFFER_ROWS", 1000)
    held = [0, 5, 699, 700, 3099, 3100, 4999]
    source = rows_of(files, held)
    batches = numbers(source, 0)
    assert {len(batch) for batch in batches[:-1]} == {64}
    assert len(batches) == source.steps(64)
    flat = sum(batches, [])  # noqa: RUF017
    assert sorted(flat) == sorted(set(range(5000)) - set(held))
    assert source.num_rows == 4993


def test_batches_are_mixed_and_repeatable(files, monkeypatch):
    monkeypatch.setattr(stream, "BUFFER_ROWS", 1000)
    source = rows_of(files)
    first = numbers(source, 0)
    assert first == numbers(rows_of(files), 0)
    assert first != numbers(source, 1)
    # A batch comes from several row groups, and is in no order.
    assert np.mean([np.ptp(batch) for batch in first]) > 1500
    assert np.mean([np.mean(np.diff(batch) > 0) for batch in first]) < 0.6


def test_epochs_that_are_parts_of_a_pass(files):
    source = rows_of(files, epoch_rows=1250)
    assert 900 < source.epoch_rows < 1600
    epochs = [sum(numbers(source, epoch), []) for epoch in range(11)]  # noqa: RUF017
    groups = source.groups_an_epoch
    assert len(files.groups) % groups != 0  # an epoch reaches over the end of a pass
    seen = Counter(number for epoch in epochs for number in epoch)
    passes = 11 * groups / len(files.groups)
    assert set(seen) == set(range(5000))
    assert max(seen.values()) - min(seen.values()) <= 1
    assert np.floor(passes) <= min(seen.values()) <= passes


@pytest.mark.parametrize("size", [2, 3])
def test_processes_share_the_rows_and_take_the_same_number_of_steps(files, size):
    source = rows_of(files, held=[17])
    shares = [numbers(source, 0, WorkerGroup(rank, size), batch_size=63) for rank in range(size)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(sum((batch for share in shares for batch in share), [])) == sorted(set(range(5000)) - {17})  # noqa: RUF017
    assert max(sum(map(len, batches)) for batches in zip(*shares, strict=True)) == 63  # what the user typed
    with pytest.raises(ValueError, match="row group for each of 99 processes"):
        numbers(source, 0, WorkerGroup(0, 99))


def test_a_failure_of_the_reader_is_one_of_the_training(files):
    source = rows_of(files)

    def fail(table: pa.Table) -> Rows:
        raise ValueError("a bad cell")

    source.encode = fail
    with pytest.raises(ValueError, match="a bad cell"):
        numbers(source, 0)


def test_the_reader_ends_with_the_training(files, monkeypatch):
    monkeypatch.setattr(stream, "BUFFER_ROWS", 100)
    batches = rows_of(files).batches(0, 10, torch.Generator(), ALONE)
    next(batches)
    batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "svdkl-reader"]


def test_a_function_of_the_rows(files):
    source = rows_of(files).mapped(lambda x: 2 * x)
    batch = next(iter(source.batches(0, 64, torch.Generator(), ALONE)))
    assert torch.equal(batch.x[:, 0].long(), 2 * batch.y)


@dataclass(frozen=True)
class Together(WorkerGroup):
    """A process of two whose partner has done its part before."""

    partner: tuple = ()

    def gather(self, value):
        return [value, self.partner] if self.rank == 0 else [self.partner, value]


def test_a_survey_is_the_same_for_any_number_of_processes(files, monkeypatch):
    monkeypatch.setattr("svdkl.training.parquet_survey.SAMPLE_ROWS", 1500)
    options = {"columns": ["number", "label"], "target": "label", "held_out_fraction": 0.1, "seed": 5}
    alone = survey(files, **options, workers=ALONE, count_targets=True)
    assert alone.targets == {"rare": 715, "common": 4285}
    held, sampled = (set(table.column("number").to_pylist()) for table in (alone.held_out, alone.sample))
    assert len(held) == 500
    assert held == set(alone.held_positions.tolist())
    assert len(sampled) == 1500
    assert not held & sampled
    done = []

    class Spy(WorkerGroup):
        def gather(self, value):
            done.append(value)
            raise StopIteration

    for rank in (0, 1):
        with pytest.raises(StopIteration):
            survey(files, **options, workers=Spy(rank, 2), count_targets=True)
    for rank in (0, 1):
        together = survey(files, **options, workers=Together(rank, 2, done[1 - rank]), count_targets=True)
        assert together.sample.equals(alone.sample)
        assert together.held_out.equals(alone.held_out)
        assert together.targets == alone.targets


def table_of(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 3))
    kind = rng.choice(["a", "b", "c"], num_rows)
    score = x[:, 0] * 2 + (kind == "a") + 0.3 * rng.normal(size=num_rows)
    label = np.where(score > 1, "high", "low")
    label[:3] = "odd"  # a class of three rows
    return pa.table({"x0": x[:, 0], "x1": x[:, 1], "x2": x[:, 2], "kind": kind, "score": score, "label": label})


OPTIONS = {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 6, "batch_size": 128, "random_state": 0}
OPTIONS |= {"learning_rate_init": 1e-2}


def test_a_streamed_classifier(tmp_path):
    table = table_of(4000)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    model = SVDKLClassifier(**OPTIONS, class_weight={"high": 2.0})
    model.fit_parquet(tmp_path / "t.parquet", "label", drop=["score"], epoch_rows=2000)
    assert model.classes_.tolist() == ["high", "low", "odd"]
    inputs = table.drop_columns(["label", "score"])
    assert model.feature_names_in_.tolist() == inputs.column_names
    assert model.score(inputs, table.column("label").to_numpy(zero_copy_only=False)) > 0.9
    model.save(tmp_path / "model")
    again = SVDKLClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(inputs), model.predict_proba(inputs))


def test_a_head_on_streamed_features_sees_the_network_at_rest(tmp_path, monkeypatch):
    """Without dropout, as in predictions, though features are computed in the midst of training."""
    pq.write_table(table_of(2000), tmp_path / "t.parquet", row_group_size=500)
    seen: list[tuple[bool, bool]] = []
    mapped = ParquetRows.mapped

    def watched(source: ParquetRows, function) -> ParquetRows:
        def repeated(x: torch.Tensor) -> torch.Tensor:
            features = function(x)
            seen.append((torch.is_grad_enabled(), torch.equal(features, function(x))))
            return features

        return mapped(source, repeated)

    monkeypatch.setattr(ParquetRows, "mapped", watched)
    model = SVDKLClassifier(recipe="dnn_gp", dropout=0.5, **OPTIONS).fit_parquet(tmp_path / "t.parquet", "label")
    assert [epoch.stage for epoch in model.history_].count("joint") == 2
    assert len(seen) > 1
    assert set(seen) == {(False, True)}


def test_decimal_labels_are_numbers(tmp_path):
    table = table_of(2000)
    codes = pa.array((table.column("score").to_numpy() > 1).astype(int), pa.int8()).cast(pa.decimal128(5, 1))
    pq.write_table(table.select(["x0", "x1"]).append_column("code", codes), tmp_path / "t.parquet", row_group_size=500)
    model = SVDKLClassifier(**{**OPTIONS, "max_iter": 1}).fit_parquet(tmp_path / "t.parquet", "code")
    assert model.classes_.tolist() == [0.0, 1.0]
    model.save(tmp_path / "model")
    assert SVDKLClassifier.load(tmp_path / "model").classes_.tolist() == [0.0, 1.0]


def test_class_weights_are_those_of_all_rows(tmp_path):
    """Balanced by the counts of the whole file: 3 of 4,000 rows; the weights of all rows add up to their number."""
    table = table_of(4000)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    options = Options.of({**OPTIONS, "class_weight": "balanced"})
    found = open_stream(options, Classes, tmp_path, "label", epoch_rows=10**6)
    counts = np.array([np.count_nonzero(table.column("label").to_numpy() == label) for label in ("high", "low", "odd")])
    rows = found.source.encode(table)
    for code, count in enumerate(counts):
        close(rows.weight[rows.y == code], torch.full((int(count),), 4000 / (3 * count)), "float32")
    assert abs(rows.weight.sum().item() - 4000) < 0.01


def test_a_streamed_regressor_goes_on_where_it_was(tmp_path):
    """Cut off by an error in the fifth epoch; the same call afterwards ends with the same model, to the last bit."""
    table = table_of(3000).drop_columns(["label"])
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=500)
    whole = SVDKLRegressor(**OPTIONS).fit_parquet(path, "score")
    assert whole.score(table.drop_columns(["score"]), table.column("score").to_numpy()) > 0.9

    kept = tmp_path / "run" / "checkpoint.safetensors"
    broken = SVDKLRegressor(**OPTIONS)
    original, epochs = ParquetRows.batches, []

    def cut_off(self, epoch, *arguments):
        epochs.append(epoch)
        if epoch == 4:
            raise KeyboardInterrupt
        return original(self, epoch, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetRows, "batches", cut_off)
        with pytest.raises(KeyboardInterrupt):
            broken.fit_parquet(path, "score", checkpoint=kept)
    assert epochs == [0, 1, 2, 3, 4]
    resumed = SVDKLRegressor(**OPTIONS).fit_parquet(path, "score", checkpoint=kept)
    assert [epoch.stage for epoch in resumed.history_] == [epoch.stage for epoch in whole.history_]
    assert (kept.parent / "history.jsonl").read_text().count("\n") == len(whole.history_)
    for name, tensor in whole.model_.state_dict().items():
        assert torch.equal(resumed.model_.state_dict()[name], tensor), name
    other = SVDKLRegressor(**{**OPTIONS, "batch_size": 64})
    refused(lambda: other.fit_parquet(path, "score", checkpoint=kept), "batch_size 128 instead of 64")


def test_a_checkpoint_of_another_file_is_refused(tmp_path):
    """As many rows with the same columns, and other targets."""
    table = table_of(2000).drop_columns(["score"]).slice(3)
    label = table.column("label").to_numpy(zero_copy_only=False)
    for name, labels in (("one", label), ("other", np.where(label == "high", "low", "high"))):
        pq.write_table(table.set_column(4, "label", pa.array(labels)), tmp_path / f"{name}.parquet", row_group_size=500)
    kept = tmp_path / "run" / "checkpoint.safetensors"
    options = {**OPTIONS, "max_iter": 1, "encoding": "plain"}
    SVDKLClassifier(**options).fit_parquet(tmp_path / "one.parquet", "label", checkpoint=kept)
    other = SVDKLClassifier(**options)
    refused(lambda: other.fit_parquet(tmp_path / "other.parquet", "label", checkpoint=kept), "same run")
    refused(lambda: other.fit_parquet(tmp_path / "one.parquet", "label", checkpoint=tmp_path), "path of a file")


def test_streamed_counts_start_at_their_mean(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    table = pa.table({"x": x, "count": rng.poisson(np.exp(9 + 0.3 * x))})
    pq.write_table(table, tmp_path / "t.parquet")
    model = SVDKLRegressor(**{**OPTIONS, "max_iter": 1}, likelihood="poisson")
    model.fit_parquet(tmp_path / "t.parquet", "count")
    assert 0.8 < model.predict(table.select(["x"])).mean() / np.exp(9 + 0.3**2 / 2) < 1.2


def test_what_cannot_be_streamed(tmp_path):
    table = table_of(2000)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    refused(lambda: SVDKLClassifier().fit_parquet(path, "lable"), "the nearest name is 'label'")
    refused(lambda: SVDKLClassifier(net=torch.nn.Linear(2, 2)).fit_parquet(path, "label"), "net=None")
    missing = table.set_column(5, "label", pa.array([*["a", "b"] * 999, None, "a"]))
    pq.write_table(missing, path)
    refused(lambda: SVDKLClassifier().fit_parquet(path, "label"), "row 1,999")
    pq.write_table(table.slice(0, 100), path)
    refused(lambda: SVDKLClassifier().fit_parquet(path, "label"), "at least 1,000 rows")


def test_files_that_differ_in_what_does_not_matter(tmp_path):
    """An empty file, an empty row group, and a column that may or may not have missing values."""
    table = table_of(1200).select(["x0", "kind"])
    strict = table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))
    pq.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    pq.write_table(table.slice(0, 700), tmp_path / "b.parquet")
    pq.write_table(strict.slice(700), tmp_path / "c.parquet")
    files = ParquetFiles(tmp_path)
    assert [group.rows for group in files.groups] == [700, 500]
    assert files.read().equals(table)
    assert pa.concat_tables(files.batches(rows=500)).equals(table)
    assert pa.concat_tables(part for group in files.groups for part in files.blocks(group, files.names, 300)).equals(
        table
    )


def test_epochs_have_as_many_groups_for_each_process():
    assert stream._groups_an_epoch(20, 0.25, 1) == 5
    assert stream._groups_an_epoch(20, 0.25, 2) == 4
    assert stream._groups_an_epoch(20, 0.01, 3) == 3
    assert stream._groups_an_epoch(20, 3.0, 3) == 20  # a pass has all
    assert stream._groups_an_epoch(2, 0.1, 4) == 2

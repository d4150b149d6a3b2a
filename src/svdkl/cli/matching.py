"""The columns of a file against those that a model was fitted on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from svdkl.cli.messages import say

SHOWN = 5  # names in a message


class MatchedFile:
    """A file with all columns that a model needs, and perhaps others that are known.

    Parameters
    ----------
    estimator
        The fitted model.
    path
        Of the file.
    known
        Columns that may be there beside the model's: its target, those that were left out of the training, those that
        are copied or compared by.
    ignore_extra
        Whether all others may be there too.
    """

    def __init__(self, estimator: Any, path: Path, known: Sequence[str], ignore_extra: bool) -> None:
        from svdkl.tabular.files import open_table_file

        if not hasattr(estimator, "feature_names_in_"):
            raise ValueError(
                "Expected a model that was fitted on a table with names, got one of nameless columns: use it from "
                "Python, or fit it on a table with names."
            )
        self.features: list[str] = estimator.feature_names_in_.tolist()
        self.file = open_table_file(path)
        lacking = [name for name in self.features if name not in self.file.names]
        if lacking:
            raise ValueError(
                f"Expected the columns that the model was fitted on, got {path} without {listed(lacking)}: add what is "
                f"missing, as empty columns if need be."
            )
        extra = [name for name in self.file.names if name not in {*self.features, *known}]
        if extra and not ignore_extra:
            raise ValueError(
                f"Expected only columns that the model knows, got {listed(extra)} in {path} too: leave them out with "
                f"--drop, or all such with --ignore-extra."
            )
        if extra:
            say(f"Ignored columns that the model does not know: {listed(extra)}.")

    def batches(self, beside: Sequence[str] = ()) -> Iterator[tuple[Any, Any]]:
        """Tables of the model's columns, in its order, and of others beside them; part by part."""
        wanted = [*self.features, *(name for name in dict.fromkeys(beside) if name not in self.features)]
        for table in self.file.batches(wanted):
            yield table.select(self.features), table.select(list(dict.fromkeys(beside)))


def known_columns(facts: dict[str, Any], *others: str | None) -> list[str]:
    """Columns that a model does not read but that are no surprise: its target, and what its training left out."""
    return [name for name in (facts.get("target"), *facts.get("dropped", ()), *others) if name is not None]


def listed(names: Sequence[str]) -> str:
    """The first few names."""
    shown = ", ".join(map(repr, names[:SHOWN]))
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown

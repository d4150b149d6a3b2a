"""Summaries of measurements: a row of a table for each, and curves of time against m."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from svdkl_research.bench.child import MEASURED
from svdkl_research.bench.runner import Record, sentence
from svdkl_research.bench.studies import SCALING
from svdkl_research.bench.systems import SYSTEMS
from svdkl_research.bench.timing import quartiles, ratios, slope

HOLDS, MISSED = "holds", "missed"


class Row(NamedTuple):
    """The cells of one measurement in a table; a cell that does not apply is "-"."""

    study: str
    system: str
    size: str
    time: str
    base: str
    compared: str
    limit: str
    verdict: str


class Curve(NamedTuple):
    """Medians and quartiles of a system's seconds, by m.

    Attributes
    ----------
    slope
        Exponent of a power law through the medians; None where there are fewer than two.
    ended
        The first m that was not measured, and why.
    """

    name: str
    title: str
    m: tuple[int, ...]
    seconds: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    slope: float | None
    ended: tuple[int, str] | None


def rows(records: Sequence[Record]) -> list[Row]:
    """Return a row for each timing, in order; profiles have tables of their own."""
    return [_row(record) for record in records if "operations" not in record.outcome]


def missed_limits(records: Sequence[Record]) -> list[Record]:
    """Return the measurements whose median is beyond their limit."""
    return [record for record in records if record.task.limit and _verdict(record) == MISSED]


def curves(records: Sequence[Record]) -> list[Curve]:
    """Return a curve for each system of the scaling study; the network's is flat, at its median over all tasks."""
    mine = [record for record in records if record.task.study == SCALING]
    measured = [record for record in mine if record.status == MEASURED]
    found = []
    for name in dict.fromkeys(record.task.system for record in mine):
        own = [record for record in measured if record.task.system == name]
        if name == "network":
            alone = [second for record in measured for second in record.outcome["seconds"]["network"]]
            sizes = sorted({record.task.setting.m for record in measured})
            places = tuple(dict.fromkeys((sizes[0], sizes[-1]))) if sizes else ()
            spreads = [quartiles(alone) for _ in places]
        else:
            places = tuple(record.task.setting.m for record in own)
            spreads = [quartiles(record.outcome["seconds"][name]) for record in own]
        low, middle, high = (tuple(values) for values in zip(*spreads)) if spreads else ((), (), ())
        steepness = None if name == "network" else slope(places, middle)
        found.append(Curve(name, SYSTEMS[name].title, places, middle, low, high, steepness, _end(mine, name)))
    return found


def document(records: Sequence[Record]) -> dict[str, Any]:
    """Return all measurements, summaries and slopes as one JSON document."""
    entries = []
    for record in records:
        entry: dict[str, Any] = {"task": record.task.document(), "outcome": record.outcome}
        if "seconds" in record.outcome:
            limit = record.task.limit
            entry["summary"] = ratios(record.outcome["seconds"], record.task.base)
            entry["limit"], entry["verdict"] = limit and str(limit), _verdict(record)
        entries.append(entry)
    return {"measurements": entries, "slopes": {curve.name: curve.slope for curve in curves(records)}}


def milliseconds(value: float) -> str:
    """Write a number of milliseconds with three significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{max(0, 2 - math.floor(math.log10(max(value, 1e-3))))}f}"


def _end(records: Sequence[Record], name: str) -> tuple[int, str] | None:
    for record in records:
        if record.task.system == name and record.status != MEASURED:
            return record.task.setting.m, record.status
    return None


def _row(record: Record) -> Row:
    task = record.task
    title, base = SYSTEMS[task.system].title, SYSTEMS[task.base].title
    size = "-" if task.study == "import" else str(task.setting)
    limit = str(task.limit) if task.limit else "-"
    if record.status != MEASURED:
        return Row(task.study, title, size, sentence(record.outcome), "-", "-", limit, "-")
    own = ratios(record.outcome["seconds"], task.base)[task.system]
    time = f"{_ms(own, 'milliseconds')} ms [{_ms(own, 'milliseconds_low')}, {_ms(own, 'milliseconds_high')}]"
    compared = f"{own['ratio']:.3f} [{own['ratio_low']:.3f}, {own['ratio_high']:.3f}]"
    if task.study == "import":
        compared = f"{own['more']:+.3f} s [{own['more_low']:+.3f}, {own['more_high']:+.3f}]"
    if task.base == task.system:
        base, compared = "-", "-"
    return Row(task.study, title, size, time, base, compared, limit, _verdict(record))


def _ms(summary: dict[str, float], name: str) -> str:
    return milliseconds(summary[name])


def _verdict(record: Record) -> str:
    if record.task.limit is None or record.status != MEASURED:
        return "-"
    own = ratios(record.outcome["seconds"], record.task.base)[record.task.system]
    return HOLDS if record.task.limit.holds(own) else MISSED

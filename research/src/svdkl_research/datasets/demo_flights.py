"""How the sample of flights that comes with svdkl was drawn: ``python -m svdkl_research.datasets.demo_flights``.

The command writes ``src/svdkl/data/flights.parquet`` anew, and needs ``svdkl[demo]``.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import svdkl
from svdkl.flights import all_flights

ROWS, SEED = 30_000, 0


def draw_flights() -> pa.Table:
    """Draw random flights and keep the order of their dates, which makes the file a fifth smaller."""
    flights = all_flights()
    rows = np.random.default_rng(SEED).choice(flights.num_rows, ROWS, replace=False)
    return flights.take(pa.array(np.sort(rows)))


if __name__ == "__main__":
    path = Path(svdkl.__file__).parent / "data" / "flights.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(draw_flights(), path, compression="zstd", compression_level=19)
    print(f"Wrote {path}.")

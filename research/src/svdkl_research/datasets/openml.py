"""Tables from OpenML, fetched only where that was asked for, and kept as Parquet."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from svdkl.errors import first_line
from svdkl.writing import written_whole


def download(name: str, openml_id: int, path: Path) -> None:
    """Fetch a table by its OpenML number, features and target, and write it to a Parquet file, all or nothing."""
    try:
        import pandas as pd
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise ImportError(f"Expected pandas to be installed to download {name}: pip install pandas.") from error
    try:
        frame = fetch_openml(data_id=openml_id, as_frame=True, parser="auto", cache=False).frame
    except OSError as error:
        raise OSError(
            f"Expected to download {name} from OpenML (number {openml_id}), but that failed ({first_line(error)}): "
            f"check the network, or put {path.name} into {path.parent}."
        ) from error
    # Categories as text, so that the file looks the same whoever wrote it.
    texts = {c: frame[c].astype("string") for c in frame.columns if isinstance(frame[c].dtype, pd.CategoricalDtype)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as beside:
        pyarrow.parquet.write_table(pa.Table.from_pandas(frame.assign(**texts), preserve_index=False), beside)

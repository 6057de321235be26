"""Tables for a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amity.data.schema import Schema
from amity.errors import DataError


def read_frame(path: Path, text: Sequence[str] = ()) -> Any:
    import pandas as pd

    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        return pd.read_csv(path, dtype=dict.fromkeys(text, str))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: cannot be read as a table ({str(error).splitlines()[0]})"
        ) from None


def encode_table(schema: Schema, where: str, frame: Any) -> np.ndarray[Any, Any]:
    lacking = [c.name for c in schema.columns if c.name not in frame.columns]
    if lacking:
        raise DataError(f"{where}: lacks the columns {', '.join(map(repr, lacking))}")
    names = [c.name for c in schema.columns]
    return np.asarray(frame[names].to_numpy(dtype=np.float32))

"""Tables of any kind become typed columns, and these become one float32 matrix with a layout."""

from typing import TYPE_CHECKING

from svdkl.doors import door

if TYPE_CHECKING:
    from svdkl.tables.encoder import TabularEncoder

__all__ = ["TabularEncoder"]

__getattr__ = door(__name__, {"TabularEncoder": "svdkl.tables.encoder"})

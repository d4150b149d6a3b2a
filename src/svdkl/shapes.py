"""Tensor shapes in signatures, such as ``Float[Tensor, "B J D"]``, in the letters of NOTATION.md.

The tests check every call against them (jaxtyping's import hook with beartype). Users need neither package: without
jaxtyping the annotation means a plain tensor.
"""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Int
else:
    try:
        from jaxtyping import Float, Int
    except ImportError:

        class _Unchecked:
            def __class_getitem__(cls, item):
                return item[0]

        Float = Int = _Unchecked

__all__ = ["Float", "Int", "Tensor"]

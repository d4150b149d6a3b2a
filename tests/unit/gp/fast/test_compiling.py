"""Loops on slices of tensors."""

import pytest
import torch

from svdkl.gp.fast.compiling import on_slices


def test_loops_write_into_tensors_and_not_into_copies():
    def double(given, result, first, last):
        result[first:last] = 2 * given[first:last]

    given, result = torch.arange(12.0).view(3, 4), torch.zeros(3, 4)
    on_slices(double, given, into=(result,), entries=12)
    assert result.tolist() == (2 * given).tolist()
    on_slices(double, given.T, into=(result.view(4, 3),), entries=12)
    assert result.view(4, 3).tolist() == (2 * given.T).tolist()
    with pytest.raises(ValueError, match="contiguous"):
        on_slices(double, given, into=(torch.zeros(4, 3).T,), entries=12)

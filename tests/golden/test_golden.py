"""Small fits of every kind predict what they predicted before, to the last bit.

Digests are kept for each kind of processor, since processors round differently. On a kind that has none yet, freeze
them at a commit that is trusted (``python tests/golden/fits.py --freeze``) before changing anything.
"""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("golden_fits", Path(__file__).with_name("fits.py"))
fits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fits)

KEPT = fits.frozen().get(fits.processor())


@pytest.mark.parametrize("name", fits.FITS)
def test_predictions_are_as_they_were(name):
    if KEPT is None:
        pytest.skip(f"no digests are kept for this kind of processor ({fits.processor()})")
    assert fits.digest_of(name) == KEPT[name]

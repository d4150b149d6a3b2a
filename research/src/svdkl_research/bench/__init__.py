"""Times of a training step: the network alone, SV-DKL and its rivals, in turns in one run."""

"""How long a step takes: the network alone, SV-DKL and its rivals, side by side in one run."""

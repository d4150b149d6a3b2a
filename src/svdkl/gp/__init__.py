"""The Gaussian processes, in the order of the equations: from features to the distribution of the outputs."""

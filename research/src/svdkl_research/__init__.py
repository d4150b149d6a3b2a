"""Real data sets x models x folds and seeds, each run with its provenance, and the tables made from them."""

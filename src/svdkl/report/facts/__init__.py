"""All numbers of a report, computed from an estimator and test rows; nothing is drawn here."""

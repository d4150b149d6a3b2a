"""All numbers of a report, computed from a fitted model and test rows; nothing is drawn here."""

"""Figures, each a function from numbers to SVG; nothing is computed here that a reader would quote."""

"""Figures, each a function from plain numbers to SVG; nothing is computed here that a reader would quote."""

"""Compiled paths for what costs most, each equal to an eager one; the eager path always works."""

"""Compiled forms of the costliest functions; each equals an eager form, which always works."""

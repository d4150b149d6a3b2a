"""Typed columns of a table -> one float32 matrix, with a layout that says what each of its columns is."""

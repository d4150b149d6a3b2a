"""The parts of a page: facts put into words, tables and figures."""

"""Pages and figures made of the results of suites."""

"""What an error of another library says, for a sentence of ours."""


def first_line(error: BaseException) -> str:
    """The first line of its text, without the point at its end; its kind, if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__

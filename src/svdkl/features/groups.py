"""Which features each GP sees: Q features in J groups of D."""

from collections.abc import Sequence
from numbers import Integral

Groups = tuple[tuple[int, ...], ...]


def make_groups(num_features: int, dims_per_gp: int = 1, groups: Sequence[Sequence[int]] | None = None) -> Groups:
    """The groups given, checked, or consecutive runs of ``dims_per_gp`` features."""
    if groups is None:
        if not 1 <= dims_per_gp <= num_features or num_features % dims_per_gp:
            raise ValueError(
                f"Expected dims_per_gp to divide the {num_features} features, got {dims_per_gp}: choose a divisor, or "
                f"name the groups yourself with groups=[(0, 1), ...]."
            )
        starts = range(0, num_features, dims_per_gp)
        return tuple(tuple(range(start, start + dims_per_gp)) for start in starts)
    if len(groups) == 0:
        raise ValueError("Expected at least one group of features, got none.")
    for group in groups:
        if not isinstance(group, Sequence) or not all(isinstance(feature, Integral) for feature in group):
            raise ValueError(f"Expected groups of feature numbers, such as [(0,), (1, 2)], got {group!r} among them.")
        if len(group) == 0:
            raise ValueError("Expected each group to name at least one feature, got an empty group.")
        if len(set(group)) != len(group):
            raise ValueError(f"Expected each group to name a feature once, got {tuple(group)}.")
        for feature in group:
            if not 0 <= feature < num_features:
                raise ValueError(
                    f"Expected groups of features 0 to {num_features - 1}, got {tuple(group)}, which names feature "
                    f"{feature}."
                )
    return tuple(tuple(int(feature) for feature in group) for group in groups)

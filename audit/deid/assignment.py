"""Maximum-weight matching of a small sparse bipartite graph, with exact integer weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping


def best_assignment(weights: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """Return the one-to-one matching, row to column, of the largest total weight.

    Parameters
    ----------
    weights
        The edges (row, column) and their weights, all above 0.

    Which of several best matchings comes back depends only on the numbers of rows and columns.
    Time O(matched * rows * edges) at worst; the graphs here are a handful of spans.
    Source: successive best augmenting paths (Ahuja, Magnanti & Orlin 1993, section 9.7).
    """
    columns_of: dict[int, list[int]] = {}
    for row, column in sorted(weights):
        columns_of.setdefault(row, []).append(column)
    column_of: dict[int, int] = {}
    row_of: dict[int, int] = {}
    while True:
        path = _best_path(weights, columns_of=columns_of, column_of=column_of, row_of=row_of)
        if path is None:
            return column_of
        for row, column in path:
            column_of[row] = column
            row_of[column] = row


def _best_path(
    weights: Mapping[tuple[int, int], int],
    *,
    columns_of: Mapping[int, list[int]],
    column_of: Mapping[int, int],
    row_of: Mapping[int, int],
) -> list[tuple[int, int]] | None:
    """Return the new pairs of the augmenting path of the largest gain; None if none gains."""
    gain = {row: 0 for row in columns_of if row not in column_of}
    came_from: dict[int, int] = {}  # column -> row
    gain_at: dict[int, int] = {}  # column -> gain of the best path that ends there
    waiting = deque(gain)
    is_waiting = set(gain)
    while waiting:
        row = waiting.popleft()
        is_waiting.discard(row)
        for column in columns_of[row]:
            if column_of.get(row) == column:
                continue
            new = gain[row] + weights[row, column]
            if column in gain_at and new <= gain_at[column]:
                continue
            gain_at[column], came_from[column] = new, row
            owner = row_of.get(column)
            if owner is not None:
                gain[owner] = new - weights[owner, column]
                if owner not in is_waiting:
                    waiting.append(owner)
                    is_waiting.add(owner)
    ends = [column for column in sorted(gain_at) if column not in row_of and gain_at[column] > 0]
    if not ends:
        return None
    at: int | None = max(ends, key=lambda end: gain_at[end])
    path = []
    while at is not None:
        path.append((came_from[at], at))
        at = column_of.get(came_from[at])
    return path

"""Cosine similarity of vectors such as embeddings: matrices with one row per text."""

import numpy as np

from ragscore.frames.typing import Values


def cosine_matrix(a: Values, b: Values) -> Values:
    """Cosine of every row of `a` with every row of `b`, as a matrix of len(a) by len(b).

    Rows of different lengths, and empty or zero vectors, have a cosine of 0.
    """
    if a.shape[1] != b.shape[1]:
        return np.zeros((len(a), len(b)))
    lengths = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)[None, :]
    return np.clip(
        np.divide(a @ b.T, lengths, out=np.zeros_like(lengths), where=lengths > 0), -1, 1
    )

"""The demo's answerer: names the entries it would use, cites their passages, and refuses by one rule for all systems.

It writes its own words only, no text of the manuals. The rule: a question's words, weighted by how rare they are in the
corpus, must be covered by the best passages; the threshold is tuned on half of the golden set and reported on the other.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.demo.retrievers import Index, Ranking

REFUSAL = "These manuals don't answer that."
N_NAMED = 2  # documents an answer names
N_READ = 5  # passages the refusal rule reads
Values = npt.NDArray[np.float64]


@dataclass
class Coverage:
    """How much of a question's words, weighted by rarity, a set of passages covers (0 to 1)."""

    index: Index

    def __post_init__(self) -> None:
        tokens = self.index.words(self.index.chunks["text"].tolist())
        self.vocabulary: dict[str, int] = tokens.vocab
        self.words: list[set[int]] = [set(ids) for ids in tokens.ids]
        counts = np.bincount(np.concatenate([np.fromiter(ids, dtype=np.int64) for ids in self.words]), minlength=len(self.vocabulary))
        self.rarity: Values = np.log((1 + len(self.words)) / (1 + counts))
        self.unseen = float(np.log(1 + len(self.words)))  # a word that no passage has

    def of(self, question: str, ranking: Ranking) -> float:
        """Share of the question's weight that its best passages hold; 0 for a question without words."""
        asked = self.index.words([question])
        words = [word for word, _ in sorted(asked.vocab.items(), key=lambda item: item[1]) if word]
        ids = [self.vocabulary.get(word) for word in words]
        weights = np.array([self.unseen if one is None else self.rarity[one] for one in ids])
        read = set().union(*(self.words[one] for one in ranking.chunk[:N_READ])) if len(ranking.chunk) else set()
        held = np.array([one is not None and one in read for one in ids], dtype=bool)
        return float(weights[held].sum() / weights.sum()) if len(weights) and weights.sum() else 0.0


def tune_threshold(coverage: Values, answerable: npt.NDArray[np.bool_]) -> float:
    """The threshold below which to refuse: best mean of right refusals and right answers; the lowest of equals."""
    candidates = np.unique(coverage)
    refuses = coverage[None, :] < candidates[:, None]
    balanced = ((refuses & ~answerable).sum(axis=1) / max((~answerable).sum(), 1) + (~refuses & answerable).sum(axis=1) / max(answerable.sum(), 1)) / 2
    return float(candidates[np.argmax(balanced)])


def answer(ranking: Ranking, chunks: pd.DataFrame, refuses: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One answer: fields of its response, and its citations."""
    if refuses or not len(ranking.chunk):
        return {"answer": REFUSAL, "grounded": False, "refused": True, "refusal_reason": "words_not_covered" if len(ranking.chunk) else "no_hits"}, []
    found = chunks.iloc[ranking.chunk].drop_duplicates("doc_id").head(N_NAMED)
    named = [f"{doc_id} [{number}]" for number, doc_id in enumerate(found["doc_id"], 1)]
    citations = [
        {
            "position": number,
            "marker": f"[{number}]",
            **{name: row[name] for name in ("chunk_id", "path", "start", "end", "span_unit")},
            "x_citation.kind": "line",
        }
        for number, row in enumerate(found.to_dict("records"), 1)
    ]
    return {"answer": f"See {' or '.join(named)}.", "grounded": True, "refused": False}, citations

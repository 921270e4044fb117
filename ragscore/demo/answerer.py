"""The demo's answerer: it names documents, cites their passages, and refuses by one rule.

It writes its own words only, no text of the manuals. The rule: refuse a query whose words are rare
in the manuals and not covered by the passages found. The threshold is tuned on half of the golden
set and reported on the other half.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.demo.retrievers import Index, Ranking
from ragscore.frames.typing import Values

REFUSAL = "These manuals don't answer that."
N_NAMED = 2  # documents an answer names
N_READ = 10  # passages the refusal rule reads
# The weight of the covered words, against words that no passage uses; chosen on the tuning half.
COVERAGE_WEIGHT = 0.2


@dataclass
class Familiarity:
    """Familiarity of a query's words: 0.2 × the covered share, minus the share no passage uses.

    A word is covered if one of the passages found has it; rare words weigh more.
    """

    index: Index

    def __post_init__(self) -> None:
        tokens = self.index.words(self.index.chunks["text"].tolist())
        self.vocabulary: dict[str, int] = tokens.vocab
        self.words: list[set[int]] = [set(ids) for ids in tokens.ids]
        counts = np.bincount(
            np.concatenate([np.fromiter(ids, dtype=np.int64) for ids in self.words]),
            minlength=len(self.vocabulary),
        )
        self.rarity: Values = np.log((1 + len(self.words)) / (1 + counts))
        self.unused = float(np.log(1 + len(self.words)))  # rarity of a word that no passage has

    def of(self, question: str, ranking: Ranking) -> float:
        """Return a value from −1 (no word is in the manuals) to 0.2 (all are in the passages)."""
        asked = [self.vocabulary.get(word) for word in self.index.words([question]).vocab if word]
        if not asked:
            return -1.0
        weights = np.array([self.unused if word is None else self.rarity[word] for word in asked])
        read = set().union(*(self.words[one] for one in ranking.chunk[:N_READ]))
        held = np.array([word in read for word in asked])
        covered = weights[held].sum() / weights.sum() if weights.sum() else 1.0
        return float(COVERAGE_WEIGHT * covered - np.mean([word is None for word in asked]))


def answer(
    ranking: Ranking, chunks: pd.DataFrame, refuses: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return one answer: the fields of its response, and its citations."""
    if refuses or not len(ranking.chunk):
        return {
            "answer": REFUSAL,
            "grounded": False,
            "refused": True,
            "refusal_reason": "unfamiliar_words" if len(ranking.chunk) else "no_hits",
        }, []
    found = chunks.iloc[ranking.chunk].drop_duplicates("doc_id").head(N_NAMED)
    named = [f"{doc_id} [{number}]" for number, doc_id in enumerate(found["doc_id"], 1)]
    citations = [
        {
            "marker": f"[{number}]",
            **{name: row[name] for name in ("chunk_id", "path", "start", "end", "span_unit")},
        }
        for number, row in enumerate(found.to_dict("records"), 1)
    ]
    return {"answer": f"See {' or '.join(named)}.", "grounded": True, "refused": False}, citations

"""An answer's text against the reference answer: exact match, token F1, ROUGE-L.

In: texts side by side. Out: one value per pair. ROUGE-L is own code: the package rouge-score had
its last release in 2022, brings nltk and absl along, and drops every letter outside a to z. Ours
works on any script, needs no package, and gives rouge-score's values on ASCII texts (a test
compares them).
"""

import re
import string

import numpy as np
import numpy.typing as npt
import pandas as pd

Values = npt.NDArray[np.float64]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORD = re.compile(r"[^\W_]+")


def normalised(text: str) -> str:
    """A text as SQuAD compares it.

    Lower case, no ASCII punctuation, no English articles, single spaces.

    Words of scripts without spaces stay one token.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def score_texts(answers: pd.Series, references: pd.Series) -> dict[str, Values]:
    """Compare each answer with the reference in the same row.

    Returns
    -------
    `exact_match` (1 if the normalised texts are equal), `token_f1` (F1 of their tokens, counted
    with repetition; where a side has no token, 1 if both have none, else 0: Rajpurkar et al. 2016,
    doi:10.18653/v1/D16-1264), `rouge_l` (F1 of the longest common subsequence of words, without
    stemming: Lin 2004, ACL W04-1013). 0 to 1, higher is better.
    """
    # By a Python function per text: Arrow's regular expressions know word boundaries of ASCII only.
    left, right = (
        pd.Series([normalised(text) for text in texts], dtype="str")
        for texts in (answers, references)
    )
    return {
        "exact_match": np.asarray(left == right, dtype="float64"),
        "token_f1": _token_f1(left, right),
        "rouge_l": _rouge_l(answers, references),
    }


def _token_f1(left: pd.Series, right: pd.Series) -> Values:
    n_left, n_right = (texts.str.split().map(len).to_numpy("float64") for texts in (left, right))
    counted = [
        texts.str.split()
        .explode()
        .dropna()
        .rename("token")
        .rename_axis("row")
        .reset_index()
        .groupby(["row", "token"])
        .size()
        for texts in (left, right)
    ]
    both = pd.concat(counted, axis=1, keys=["left", "right"], join="inner").min(axis=1)
    n_same = np.bincount(
        both.index.get_level_values("row").to_numpy("int64"), both.to_numpy("float64"), len(left)
    )
    f1 = np.divide(
        2 * n_same, n_left + n_right, out=np.zeros(len(left)), where=n_left + n_right > 0
    )
    return np.where((n_left == 0) & (n_right == 0), 1.0, f1)


def _rouge_l(answers: pd.Series, references: pd.Series) -> Values:
    words = [[_WORD.findall(text.lower()) for text in texts] for texts in (answers, references)]
    n_left, n_right = (np.array([len(one) for one in side], dtype="float64") for side in words)
    common = np.array(
        [common_length(left, right) for left, right in zip(*words, strict=True)], dtype="float64"
    )
    return np.divide(
        2 * common, n_left + n_right, out=np.zeros(len(common)), where=n_left + n_right > 0
    )


def common_length(left: list[str], right: list[str]) -> int:
    """Length of the longest common subsequence of two lists of words (Hyyrö 2004).

    Each row of the usual table is one whole number, a bit per word of `left`, so a step takes a
    word and not a cell.
    """
    places: dict[str, int] = {}
    for position, word in enumerate(left):
        places[word] = places.get(word, 0) | 1 << position
    full = (1 << len(left)) - 1
    row = full
    for word in right:
        met = row & places.get(word, 0)
        row = ((row + met) | (row - met)) & full
    return len(left) - row.bit_count()

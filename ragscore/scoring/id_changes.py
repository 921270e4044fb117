"""Changes of ids by which hits and targets would join: case, paths, prefixes, chunk suffixes.

In: the distinct ids of both sides. Out: the smallest change that joins most of the expected ids, in
words and as code to paste. Only ids are read, never hits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from itertools import combinations
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among

Apply = Callable[[pd.Series], pd.Series]

# Affixes are tried with so many of the expected ids: enough to tell the right one.
TRIED = 500
# A change may be left out if at least this share of the ids still joins without it.
ENOUGH = 0.9
# Ids that differ by chance don't count as joined: at least this share of one side has to.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Change:
    """One way to write ids anew: in words, as code around the name of a column, as a function."""

    words: str
    code: str
    apply: Apply = field(compare=False)


Changes = tuple[Change, ...]


@dataclass(frozen=True)
class Join:
    """Changes that make ids of hits equal expected ones.

    Attributes
    ----------
    of_hits, of_expected
        The changes of each side, in the order they are made.
    n_joined
        The number of distinct expected ids that equal one of the hits' then.
    pairs
        Up to three of them as they are now: the id of a hit, and the expected one.
    """

    of_hits: Changes
    of_expected: Changes
    n_joined: int
    pairs: tuple[tuple[str, str], ...]

    @property
    def words(self) -> str:
        """The changes in words, each once."""
        return " and ".join(dict.fromkeys(one.words for one in (*self.of_hits, *self.of_expected)))


def _substitution(words: str, pattern: str, by: str) -> Change:
    new = f'r"{by}"' if by else '""'
    return Change(
        words,
        f'{{}}.str.replace(r"{pattern}", {new}, regex=True)',
        lambda ids: ids.str.replace(pattern, by, regex=True),
    )


_CHUNK = _substitution(
    "without the chunk suffix",
    r"(?i)(#.*|(::|[_:@/-])(chunk|passage|section|segment|page|part|[cps])?[_:-]?\d+)$",
    "",
)
# Simpler ones, which are proposed where they do as well.
_SIMPLE_CHUNKS = tuple(
    _substitution(_CHUNK.words, pattern, "") for pattern in (r"#.*$", r"::.*$", r"[_-]\d+$")
)
# In the order they are made; what changes least comes first, and is tried last to be left out.
_CHANGES = (
    Change("without surrounding white space", "{}.str.strip()", lambda ids: ids.str.strip()),
    Change("in lower case", "{}.str.lower()", lambda ids: ids.str.lower()),
    _CHUNK,
    _substitution("by the last part of their path", r"^.*[/\\:](.)", r"\1"),
    _substitution("without file extension", r"\.[A-Za-z][A-Za-z0-9]{0,4}$", ""),
    _substitution("without zero padding", r"(^|\D)0+(\d)", r"\1\2"),
)


def _as_urls(ids: pd.Series) -> pd.Series:
    """Write URLs as what they name: without scheme, www. and trailing slash, host in lower case.

    A text without a scheme is one if it begins with www., or with a host and a slash.
    """
    is_url = _matches(ids, _URL)
    if is_url.any():
        bare = ids[is_url].str.replace(r"(?i)^(?:https?://)?(?:www\.)?", "", regex=True)
        host = bare.str.replace(r"(?s)[/?#].*$", "", regex=True).str.lower()
        rest = bare.str.replace(r"^[^/?#]*", "", regex=True)
        rest = rest.str.replace(r"^([^?#]*?)/+($|[?#])", r"\1\2", regex=True)
        ids = ids.mask(is_url, host.str.replace(r":(?:80|443)$", "", regex=True) + rest)
    is_encoded = _matches(ids, r"%[0-9A-Fa-f]{2}")
    if is_encoded.any():
        decoded = [unquote(one) for one in ids[is_encoded].tolist()]
        ids = ids.mask(is_encoded, pd.Series(decoded, ids.index[is_encoded], dtype="str"))
    return ids


def _matches(ids: pd.Series, pattern: str) -> npt.NDArray[np.bool_]:
    return ids.str.contains(pattern, regex=True).fillna(False).to_numpy(dtype=bool)


_URL = r"(?i)^(?:https?://|www\.|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?/)"
# Readings of ids by name, in the order they are made.
READINGS = {
    "strip": _CHANGES[0],
    "url": Change("as URLs (scheme, host case, www., slash, percent encoding)", "", _as_urls),
    "lower": _CHANGES[1],
    "fragment": _substitution("without the fragment", r"#.*$", ""),
    "query": _substitution("without the query string", r"\?[^#]*", ""),
    "chunk": _CHUNK,
    "path": _CHANGES[3],
    "extension": _CHANGES[4],
    "zeros": _CHANGES[5],
}
# These leave out a part that may tell two documents apart. An id that has the part is held to be
# the same as one that lacks it, never as one that has another.
CUTTING = ("fragment", "query", "chunk", "path", "extension")


# Where no id has any of these, the reading changes none; looking is cheaper than reading.
_MARKS = {
    "url": "/%wW", "fragment": "#", "query": "?", "chunk": "#:_@/-", "path": "/\\:",
    "extension": ".", "zeros": "0",
}  # fmt: skip


def read_as(ids: pd.Series, names: Iterable[str]) -> pd.Series:
    """Return ids as these readings give them."""
    of, characters = None, ""
    for name in names:
        if marks := _MARKS.get(name, ""):
            if of is not ids:
                of, characters = ids, "".join(ids.tolist())
            if not any(one in characters for one in marks):
                continue
        ids = READINGS[name].apply(ids)
    return ids


def near_keys(ids: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return what ids have in common if any readings would join them.

    The second is without the chunk suffix too, which is cut from one side alone.
    """
    names = list(READINGS)
    at = names.index("chunk")
    whole = read_as(ids, names[:at])
    return read_as(whole, names[at + 1 :]), read_as(whole, names[at:])


def readings_that_join(
    expected: pd.Series, hits: pd.Series
) -> tuple[tuple[str, ...], npt.NDArray[np.bool_]]:
    """Return the fewest readings that make most of these pairs equal, and flags of those pairs."""
    kept = tuple(name for name in READINGS if name not in CUTTING)
    names, found = kept, _are_read_equal(expected, hits, kept)
    for subset in (*combinations(CUTTING, 1), *combinations(CUTTING, 2)):
        more = _are_read_equal(expected, hits, (*kept, *subset))
        if ENOUGH * more.sum() > found.sum():
            names, found = (*kept, *subset), more
    for name in kept[::-1]:
        fewer = tuple(one for one in names if one != name)
        less = _are_read_equal(expected, hits, fewer)
        if less.sum() >= ENOUGH * found.sum():
            names, found = fewer, less
    return tuple(name for name in READINGS if name in names), found


def _are_read_equal(
    one: pd.Series, other: pd.Series, names: Iterable[str]
) -> npt.NDArray[np.bool_]:
    used = [name for name in READINGS if name in names and name != "path"]
    bare = [name for name in used if name not in CUTTING]
    left, right = read_as(one, bare), read_as(other, bare)
    is_equal = (left == right).to_numpy(dtype=bool)
    for longer, shorter in ((read_as(one, used), right), (read_as(other, used), left)):
        is_equal = is_equal | (longer == shorter).to_numpy(dtype=bool)
        if "path" in names:
            pairs = zip(longer.tolist(), shorter.tolist(), strict=True)
            is_equal = is_equal | [_is_path_of(whole, part) for whole, part in pairs]
    return is_equal


def _is_path_of(whole: str, part: str) -> bool:
    return whole.endswith(part) and whole.removesuffix(part).endswith(("/", "\\", ":"))


def find_join(hits: pd.Index, expected: pd.Index) -> Join | None:
    """Return the smallest changes that join most of the expected ids; None if nothing joins.

    Parameters
    ----------
    hits, expected
        The distinct ids of each side, as texts. Where they join as they are, no change is needed.
    """
    ids, wanted = (pd.Series(side[side != ""].astype("str")) for side in (hits, expected))
    least = max(1, LEAST_SHARE * min(len(ids), len(wanted)))
    as_they_are = _join(ids, wanted, (), ())
    if as_they_are.n_joined >= least:
        return as_they_are
    by_affix = _by_affix(ids, wanted)
    if by_affix.n_joined >= ENOUGH * min(len(ids), len(wanted)):
        found = by_affix
    else:
        found = max(by_affix, _by_changes(ids, wanted), key=lambda one: one.n_joined)
    return found if found.n_joined >= least else None


def _join(ids: pd.Series, wanted: pd.Series, of_hits: Changes, of_expected: Changes) -> Join:
    """Count the expected ids that equal one of the hits' once both are changed."""
    changed, changed_wanted = _changed(ids, of_hits), _changed(wanted, of_expected)
    is_joined = is_among(changed_wanted, changed)
    pairs = []
    for at in np.flatnonzero(is_joined)[:3]:
        hit = np.flatnonzero(is_among(changed, changed_wanted.iloc[[at]]))[0]
        pairs.append((str(ids.iloc[hit]), str(wanted.iloc[at])))
    return Join(of_hits, of_expected, int(is_joined.sum()), tuple(pairs))


def _changed(ids: pd.Series, changes: Changes) -> pd.Series:
    return reduce(lambda so_far, change: change.apply(so_far), changes, ids)


def _by_changes(ids: pd.Series, wanted: pd.Series) -> Join:
    """Join by as few of `_CHANGES` as suffice: all are made, then one after another is left out.

    The chunk suffix is cut off from one side only: chunks of one document are different chunks.
    """
    others = tuple(change for change in _CHANGES if change is not _CHUNK)
    starts = [(others, others), (_CHANGES, others), (others, _CHANGES)]
    found = max((_join(ids, wanted, *sides) for sides in starts), key=lambda one: one.n_joined)
    # Ids that don't join with every change made can't do so with fewer.
    full = _changed(ids, found.of_hits), _changed(wanted, found.of_expected)
    ids, wanted = ids[is_among(full[0], full[1])], wanted[is_among(full[1], full[0])]
    for change in reversed(_CHANGES):
        hits, expected = (
            tuple(one for one in side if one is not change)
            for side in (found.of_hits, found.of_expected)
        )
        # Left out of both sides, else of one; the hits are easier to change.
        for sides in ((hits, expected), (found.of_hits, expected), (hits, found.of_expected)):
            fewer = _join(ids, wanted, *sides)
            if fewer.n_joined >= ENOUGH * found.n_joined:
                found = fewer
                break
    for simple in _SIMPLE_CHUNKS:
        hits, expected = (
            tuple(simple if one is _CHUNK else one for one in side)
            for side in (found.of_hits, found.of_expected)
        )
        same = _join(ids, wanted, hits, expected)
        if same.n_joined >= found.n_joined:
            return same
    return found


def _by_affix(ids: pd.Series, wanted: pd.Series) -> Join:
    """Join by a prefix or suffix that most ids of one side share, and those of the other lack."""
    known = set(ids)
    tried = wanted.iloc[:: max(1, len(wanted) // TRIED)].tolist()
    best, changes = 0, Changes()
    for is_suffix in (False, True):
        bare = str.removesuffix if is_suffix else str.removeprefix
        for affix in _beginnings(ids, is_suffix):
            n = sum((one + affix if is_suffix else affix + one) in known for one in tried)
            if n > best:
                best, changes = n, (_affixed(affix, is_suffix, False),)
        for affix in _beginnings(wanted, is_suffix):
            n = sum((rest := bare(one, affix)) != one and rest in known for one in tried)
            if n > best:
                best, changes = n, (_affixed(affix, is_suffix, True),)
    return _join(ids, wanted, changes, ())


def _beginnings(ids: pd.Series, is_suffix: bool) -> list[str]:
    """Return what four of five ids begin (or end) with, and its beginnings (or ends)."""
    texts = sorted(one[::-1] for one in ids) if is_suffix else sorted(ids)
    if not texts:
        return []
    last = len(texts) - 1
    first, other = texts[last // 10], texts[last - last // 10]
    length = next((n for n in range(len(first)) if first[: n + 1] != other[: n + 1]), len(first))
    # An affix ends where letters do: what is left of `docs/x.md` is never its last letter.
    ends = [
        n for n in range(1, length + 1) if not (first[n - 1 : n + 1].isalpha() and n < len(first))
    ]
    parts = [first[:n] for n in ends]
    return [one[::-1] for one in parts] if is_suffix else parts


def _affixed(affix: str, is_suffix: bool, is_added: bool) -> Change:
    which = "suffix" if is_suffix else "prefix"
    words = f"{'with' if is_added else 'without'} the {which} {affix!r}"
    if not is_added:
        bare = f"remove{which}"
        code = f"{{}}.str.{bare}({affix!r})"
        return Change(words, code, lambda ids: getattr(ids.str, bare)(affix))
    code = f"{{}} + {affix!r}" if is_suffix else f"{affix!r} + {{}}"
    return Change(words, code, lambda ids: ids + affix if is_suffix else affix + ids)

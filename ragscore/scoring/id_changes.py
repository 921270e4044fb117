"""Readings of ids by which hits and targets join: case, URLs, paths, chunk suffixes, affixes.

In: ids of both sides. Out: the ids as named readings give them; what joins most of them, in words
and in pandas. Only ids are read, never hits.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations, product
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.typing import Flags

Apply = Callable[[pd.Series], pd.Series]
Read = Callable[[Iterable[str]], pd.Series]

# Readings and affixes are tried with so many of the expected ids: enough to tell the right one.
TRIED = 500
# A reading may be left out if at least this share of the ids still joins without it.
ENOUGH = 0.9
# Ids that differ by chance don't count as joined: at least this share of one side has to.
LEAST_SHARE = 0.05
# An affix is one if so many of the ids of a side have it.
SHARED = 0.8


class Reading(NamedTuple):
    """A way to read the ids of both sides: in words, as a function, and as methods of a column."""

    words: str
    read: Apply
    code: str = ""


class Join(NamedTuple):
    """A reading that makes ids of hits equal expected ones.

    Attributes
    ----------
    reading
        Its `code` is empty where ids join as they are.
    n_joined
        The number of distinct expected ids that equal one of the hits' then.
    pairs
        Up to three of them as they are now: the expected id, and the hit's.
    """

    reading: Reading
    n_joined: int
    pairs: list[tuple[str, str]]


def _substitution(words: str, pattern: str, by: str = "") -> Reading:
    code = f'.str.replace(r"{pattern}", r"{by}", regex=True)'
    return Reading(words, lambda ids: ids.str.replace(pattern, by, regex=True), code)


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


def _matches(ids: pd.Series, pattern: str) -> Flags:
    return ids.str.contains(pattern, regex=True).fillna(False).to_numpy(dtype=bool)


_URL = r"(?i)^(?:https?://|www\.|[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?/)"
_AS_URLS = (
    r'.str.replace(r"(?i)^(https?://)?(www\.)?([^/?#]*?)(:80|:443)?(?=[/?#]|$)",'
    r' lambda one: one[3].lower(), regex=True).str.replace(r"/+($|[?#])", r"\1", regex=True)'
    r'.map(unquote, na_action="ignore")'
)
_CHUNK = r"(::|[_:@/-])(chunk|passage|section|segment|page|part|[cps])?[_:-]?\d+$"
# Readings of ids by name, in the order they are made.
READINGS = {
    "strip": Reading(
        "without surrounding white space", lambda ids: ids.str.strip(), ".str.strip()"
    ),
    "url": Reading(
        "as URLs (scheme, host case, www., slash, percent encoding)", _as_urls, _AS_URLS
    ),
    "lower": Reading("in lower case", lambda ids: ids.str.lower(), ".str.lower()"),
    "fragment": _substitution("without the fragment", r"#.*$"),
    "query": _substitution("without the query string", r"\?[^#]*"),
    "chunk": _substitution("without the chunk suffix", rf"(?i)(#.*|{_CHUNK})$"),
    "subchunk": _substitution("without a chunk suffix after a number", rf"(?i)(\d){_CHUNK}", r"\1"),
    "path": _substitution("by the last part of their path", r"^.*[/\\:](.)", r"\1"),
    "extension": _substitution("without file extension", r"\.[A-Za-z][A-Za-z0-9]{0,4}$"),
    "zeros": _substitution("without zero padding", r"(^|\D)0+(\d)", r"\1\2"),
}
# These leave out a part that may tell two documents apart. An id that has the part is held to be
# the same as one that lacks it, never as one that has another.
PARTS = ("fragment", "query", "chunk", "subchunk")
CUTTING = (*PARTS, "path", "extension")


# Where no id has any of these, the reading changes none; looking is cheaper than reading.
_MARKS = {
    "url": "/%wW", "fragment": "#", "query": "?", "chunk": "#:_@/-", "subchunk": ":_@/-",
    "path": "/\\:", "extension": ".", "zeros": "0",
}  # fmt: skip


def read_as(ids: pd.Series, names: Iterable[str]) -> pd.Series:
    """Return ids as these readings give them; `ids` itself where none changes any."""
    of, characters = None, ""
    for name in names:
        if of is not ids:
            of, characters = ids, "".join(ids.tolist())
        if _may_change(name, characters):
            ids = READINGS[name].read(ids)
    return ids


def _may_change(name: str, characters: str) -> bool:
    if name == "strip":
        return characters.split(maxsplit=1) != [characters]
    if name == "lower":
        return not characters.isascii() or characters.lower() != characters
    return any(one in characters for one in _MARKS[name])


def near_keys(ids: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return what ids have in common if any readings would join them.

    The second is without the chunk suffix too, which is cut from one side alone.
    """
    names = list(READINGS)
    at = names.index("chunk")
    rest = names[at + 2 :]
    whole = read_as(ids, names[:at])
    return read_as(whole, rest), read_as(whole, ["chunk", *rest])


def reading_that_joins(
    expected: pd.Series, hits: pd.Series, is_paired: bool
) -> tuple[Reading, Flags]:
    """Return the least reading that joins most of these expected ids, and flags of these.

    Parameters
    ----------
    is_paired
        Each expected id is compared with the hit's of its row, else with those of all hits.
    """
    join = _are_equal if is_paired else is_among
    names = _names(expected, hits) if is_paired else _names(*_near(expected, hits), False)
    words = " and ".join(READINGS[name].words for name in names)
    best = Reading(
        words, partial(read_as, names=names), "".join(READINGS[one].code for one in names)
    )
    sides = _read_once(expected), _read_once(hits)
    found = _joined(*sides, names) if is_paired else join(*map(best.read, (expected, hits)))
    if "path" not in names and found.sum() >= ENOUGH * min(len(expected), len(hits)):
        return best, found
    # An affix cuts less than the directories of a path.
    least = ENOUGH * found.sum() if "path" in names else found.sum() + 1
    for affix in _affixes(expected, hits):
        own, their = affix.read(expected), affix.read(hits)
        is_shared = max((own != expected).mean(), (their != hits).mean()) >= SHARED
        more = join(own, their)
        if is_shared and more.sum() >= max(least, 1):
            best, found, least = affix, more, more.sum() + 1
    return best, found


def _are_equal(one: pd.Series, other: pd.Series) -> Flags:
    return (one == other).to_numpy(dtype=bool)


def _are_equal_paths(one: pd.Series, other: pd.Series) -> Flags:
    """Flag pairs of which one is the end of the other's path, or equal."""
    pairs = [sorted(pair, key=len) for pair in zip(one.tolist(), other.tolist(), strict=True)]
    return np.array(
        [long == end or long.endswith(tuple(sep + end for sep in "/\\:")) for end, long in pairs],
        dtype=bool,
    )


def _near(expected: pd.Series, hits: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return some expected ids, and the hits', that any readings may join."""
    expected = expected.iloc[:: max(1, len(expected) // TRIED)]
    own, their = near_keys(expected), near_keys(hits)
    is_near = [
        is_among(one[0], pd.concat(other)) | is_among(one[1], other[0])
        for one, other in ((own, their), (their, own))
    ]
    return expected[is_near[0]], hits[is_near[1]]


def _names(expected: pd.Series, hits: pd.Series, is_paired: bool = True) -> tuple[str, ...]:
    """Return the fewest readings that join most of these ids."""
    kept = tuple(name for name in READINGS if name not in CUTTING)
    names, n = kept, 0
    sides = _read_once(expected), _read_once(hits)
    for n_parts in range(4):
        for parts in combinations(CUTTING, n_parts):
            more = _joined(*sides, (*kept, *parts), is_paired).sum()
            if ENOUGH * more > n:
                names, n = (*kept, *parts), more
        if n >= ENOUGH * len(expected):
            break
    for name in kept[::-1]:
        fewer = tuple(one for one in names if one != name)
        less = _joined(*sides, fewer, is_paired).sum()
        if less >= ENOUGH * n:
            names, n = fewer, less
    return tuple(name for name in READINGS if name in names)


def _read_once(ids: pd.Series) -> Read:
    """Return what reads ids by any readings, and keeps each result for those that begin alike."""
    known: dict[tuple[str, ...], pd.Series] = {(): ids}

    def read(names: Iterable[str]) -> pd.Series:
        names = tuple(names)
        if names not in known:
            known[names] = read_as(read(names[:-1]), names[-1:])
        return known[names]

    return read


def _joined(expected: Read, hits: Read, names: Iterable[str], is_paired: bool = True) -> Flags:
    """Flag expected ids that these readings join; of pairs, `CUTTING` ones from one side."""
    names = [name for name in READINGS if name in names]
    join = same = _are_equal if is_paired else is_among
    read = names
    if is_paired and "path" in names:
        same, read = _are_equal_paths, [name for name in names if name != "path"]
    bare = [name for name in read if name not in (CUTTING if is_paired else PARTS)]
    own, their = expected(read), hits(read)
    own_bare, their_bare = expected(bare), hits(bare)
    found = same(own, their_bare) | same(own_bare, their) | same(own_bare, their_bare)
    return found & join(expected(names), hits(names))


def _affixes(expected: pd.Series, hits: pd.Series) -> list[Reading]:
    """Return prefixes and suffixes that ids of one side have and equal the other's without.

    Where all ids of a side have as many parts, what the other's have beyond them is a suffix too.
    """
    found: Counter[tuple[str, str]] = Counter()
    tried = expected.iloc[:: max(1, len(expected) // TRIED)].tolist()
    for which, turn in (("prefix", -1), ("suffix", 1)):
        texts = sorted(one[::turn] for one in hits.tolist())
        known = set(texts)
        for text in (one[::turn] for one in tried):
            pairs = [(text, text[:n]) for n in range(1, len(text)) if text[:n] in known]
            at = bisect_right(texts, text)
            pairs += [(one, text) for one in texts[at : at + 1] if one.startswith(text)]
            for whole, part in pairs:
                # An affix ends where letters do: what is left of `docs/x.md` isn't its last letter.
                if not whole[len(part) - 1 : len(part) + 1].isalpha():
                    found[which, whole[len(part) :][::turn]] += 1
    cuts = [_without(*one) for one, _ in found.most_common(3)]
    for mark, side in product("_-", (expected, hits)):
        n = side.str.count(mark)
        if len(n) and n.min() == n.max() > 0:
            cuts.append(_first_parts(mark, int(n.max()) + 1))
    return cuts


def _without(which: str, affix: str) -> Reading:
    return Reading(
        f"without the {which} {affix!r}",
        lambda ids: getattr(ids.str, f"remove{which}")(affix),
        f".str.remove{which}({affix!r})",
    )


def _first_parts(mark: str, n: int) -> Reading:
    return Reading(
        f"by their first {n} parts at {mark!r}",
        lambda ids: ids.str.split(mark).str[:n].str.join(mark).astype("str"),
        f".str.split({mark!r}).str[:{n}].str.join({mark!r})",
    )


def find_join(hits: pd.Index, expected: pd.Index) -> Join | None:
    """Return the reading that joins most of the expected ids; None if nothing joins.

    Parameters
    ----------
    hits, expected
        The distinct ids of each side, as texts. Where they join as they are, nothing is read.
    """
    ids, wanted = (pd.Series(side[side != ""].astype("str")) for side in (hits, expected))
    reading, is_joined = reading_that_joins(wanted, ids, is_paired=False)
    n_joined = int(is_joined.sum())
    if n_joined < max(1, LEAST_SHARE * min(len(ids), len(wanted))):
        return None
    is_new = is_joined & ~is_among(wanted, ids)
    first, read = wanted[is_new if is_new.any() else is_joined].head(3), reading.read(ids)
    keys = reading.read(first)
    pairs = [(one, str(ids[read == key].iloc[0])) for one, key in zip(first, keys, strict=True)]
    return Join(reading, n_joined, pairs)

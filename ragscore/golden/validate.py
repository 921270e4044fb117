"""Table of everything that is wrong with a golden set.

In: a golden file or a `Golden`. Out: one row per problem, from loading (duplicate ids, wrong types
and grades, paraphrases that expect different documents) or from `RULES`. A rule asks for some item
of a kind, or for none, of the queries that its condition selects; `_items` finds the items.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pandas as pd

from ragscore.frames.data import Golden, check_type
from ragscore.frames.errors import plural, unsaid
from ragscore.frames.kinds import UNKNOWN_TARGET
from ragscore.io.golden_read import (
    ID_FIELDS,
    KNOWN_FIELDS,
    SUPPORT_FIELDS,
    file_rows,
)
from ragscore.io.load import given_or_named, golden_files, load_golden
from ragscore.io.source import Problems, Row, as_id, suggest_field

FIELD_OF_LEVEL = {level: field for level, (field, _) in ID_FIELDS.items()} | {
    "anchor": "gold_supports", "predicate": "expected_metadata",
}  # fmt: skip
MIN_SHARE_OF_PATTERN = 0.9  # of the ids; if fewer are alike, the set has no pattern
COLUMNS = ["severity", "rule", "query_id", "file", "line", "field", "found", "allowed"]
ITEM = ["query_id", "kind", "found", "field", "allowed"]
_RECENCY = {"category": ["recency", "conflict", "recency/conflict"]}
_RECENCY_RULES = "one of cite_newer, acknowledge_both, cite_both"


class Rule(NamedTuple):
    """Rule of a good golden set.

    `needs` is a kind of items ("group": some must be there; "no group": none may be), of queries
    that have one of the values in each column that `applies` names. A `pattern` narrows the items.
    """

    name: str
    field: str
    allowed: str
    applies: dict[str, list[Any]]
    needs: str
    pattern: str = ""
    severity: str = "error"


RULES = (
    Rule("queries have text", "query", "the text of the query", {}, "no blank"),
    Rule("ids follow the set's pattern", "id", "an id like the others", {}, "no odd id",
    severity="warning"),
    Rule("answerable needs supports", "gold_supports", "at least one support",
    {"answerable": [True], "supports_only": [True]}, "target"),
    Rule("unanswerable expects nothing", "answerable",
    "no expected ids or supports: the query should be refused", {"answerable": [False]},
    "no target"),
    Rule("unanswerable has no key facts", "expected_key_facts",
    "an empty list: the query should be refused", {"answerable": [False]}, "no key_fact"),
    Rule("something is expected", "answerable",
    "a target, a check, a reference answer, or answerable", {"answerable": [pd.NA]}, "expectation"),
    Rule("factual has no groups", "required_support_groups", "null for this category",
    {"category": ["factual"]}, "no group"),
    Rule("factual has no recency rule", "recency_conflict_rule", "null for this category",
    {"category": ["factual"]}, "no recency_rule"),
    Rule("multi_hop has groups", "required_support_groups", "at least one group",
    {"category": ["multi_hop"]}, "group"),
    Rule("multi_hop has two supports", "gold_supports", "at least 2 targets",
    {"category": ["multi_hop"]}, "no single"),
    Rule("groups name supports", "required_support_groups",
    "indices or ids of the query's own targets", {}, "no unknown member"),
    Rule("recency has a rule", "recency_conflict_rule", _RECENCY_RULES, _RECENCY, "recency_rule"),
    Rule("recency rules are known", "recency_conflict_rule", _RECENCY_RULES, {},
    "no recency_rule", "^(?!(?:cite_newer|acknowledge_both|cite_both)$)"),
    Rule("recency has two supports", "gold_supports", "at least 2 targets", _RECENCY, "no single"),
    Rule("general is unanswerable", "answerable", "false for this category",
    {"category": ["general"]}, "no answerable"),
    Rule("general has no supports", "gold_supports", "none for this category",
    {"category": ["general"]}, "no target"),
    Rule("general has no key facts", "expected_key_facts", "none for this category",
    {"category": ["general"]}, "no key_fact"),
    Rule("paths have forward slashes", "gold_supports", "a path with /", {}, "no path", r"\\"),
    Rule("folders have forward slashes", "folders", "a folder with /", {}, "no folder", r"\\"),
    Rule("headings are joined by ' > '", "gold_supports", "parts joined by ' > '", {},
    "no heading", r"[^\s\-=>]>[^=>]|[^\-=>]>[^\s=>]|\s\s>|>\s\s"),
    Rule("some target is relevant", "answerable", "a target of grade 1 or more",
    {"answerable": [True]}, "no best grade", "^0$"),
    Rule("must_contain is not forbidden", "must_contain",
    "texts that an answer can hold without a forbidden one", {}, "no forbidden text"),
    Rule("expected source keys are not forbidden", "expected_source_keys",
    "keys that hold no forbidden text", {}, "no forbidden key"),
    Rule("nothing expected where empty is", "expected_empty", "no target beside it",
    {"expects_empty": [True]}, "no target"),
    Rule("targets are in the folders", "gold_supports",
    "a path under a folder that the query lists", {}, "no path outside"),
    Rule("tags name the query's vaults", "tags", "a vault that the query lists", {},
    "no foreign vault"),
    Rule("fields are known", "id", "a field of the golden file", {}, "no misspelt field",
    severity="warning"),
    Rule("ids are in the catalogue", "id", "ids of the catalogue", {}, "no uncatalogued id"),
)  # fmt: skip


def validate(
    golden: Any = None,
    *,
    catalogue: pd.DataFrame | None = None,
    format: str | None = None,
    columns: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Return everything that is wrong with a golden set.

    Parameters
    ----------
    golden
        A golden set in memory (which has no lines), or whatever `load_golden` takes: a file, a
        pattern or a list of files, a frame, records, a dict. By default the file that the
        environment names.
    catalogue
        A frame with `chunk_id` and / or `doc_id`, such as `results.chunks`: expected ids must be in
        it.
    format, columns
        As for `load_golden`.

    Returns
    -------
    One row per problem: `severity` (error; warning: it may be meant so), `rule` ("loading", or the
    name of a check), `query_id` (NA: not about one query), `file`, `line` (of YAML and JSON lines),
    `field`, `found`, `allowed`; in the order of the file. Without problems the table is empty.

    Raises
    ------
    DataError
        The file can't be read at all.
    """
    golden, files = given_or_named(golden), list[Path]()
    if not isinstance(golden, Golden):
        named = golden_files(golden) or [golden]
        files = [Path(one) for one in named if isinstance(one, (str, Path))]
        with unsaid():  # the table reports what loading warns of
            golden = load_golden(golden, format, columns, strict=False)
    places: dict[tuple[str | None, str], tuple[str, int]] = {}
    query_at: dict[tuple[str, int], str | None] = {}
    for file in map(str, files):
        for row, query_id in _rows(golden, Path(file)):
            for name, line in {"": row.line, **row.lines}.items():
                places.setdefault((query_id, name), (file, line))
                query_at[file, line] = query_id
    loading = golden._problems.assign(rule="loading")
    loading["query_id"] = [
        query_at.get(place) for place in zip(loading["file"], loading["line"], strict=True)
    ]
    found, keys = _violations(golden, catalogue), ["query_id", "field"]
    # what a file states wrongly is lacking too, and loading has said so
    refused = pd.MultiIndex.from_frame(loading[keys])
    found = found[
        ~(found["found"].eq("none") & pd.MultiIndex.from_frame(found[keys]).isin(refused))
    ]
    alone = str(files[0]) if len(files) == 1 else None
    at: list[tuple[Any, Any]] = [
        places.get((query_id, name), places.get((query_id, ""), (alone, None)))
        for query_id, name in zip(found["query_id"], found["field"], strict=True)
    ]
    found = found.assign(file=[file for file, _ in at], line=[line for _, line in at])
    table = pd.concat(
        [part.reindex(columns=COLUMNS).astype("object") for part in (loading, found)],
        ignore_index=True,
    )
    dtypes = {name: "Int64" if name == "line" else "str" for name in COLUMNS}
    table = table.assign(severity=table["severity"].fillna("error")).astype(dtypes)
    positions = golden.queries.set_index("query_id")["position"]
    order = table.assign(
        number=table["file"].map({str(file): n for n, file in enumerate(files)}).fillna(0),
        position=table["query_id"].map(positions).fillna(-1),
    ).sort_values(["number", "line", "position"], kind="stable", ignore_index=True)
    return order[COLUMNS]


def _rows(golden: Golden, path: Path) -> Iterator[tuple[Row, str | None]]:
    """Yield the rows of a YAML or JSON lines file with their query ids; of others none."""
    is_read = path.name.removesuffix(".gz").endswith((".yaml", ".yml", ".jsonl"))
    column = golden._mapping.set_index("role")["column"].get("query_id", "id")
    for row in file_rows(path, Problems(path, strict=False)) if path.is_file() and is_read else ():
        ids = [as_id(row.values.get(name)) for name in (column, "id", "query_id", "_id", "qid")]
        yield row, next((one for one in ids if one is not None), None)


def _violations(golden: Golden, catalogue: pd.DataFrame | None) -> pd.DataFrame:
    """Return one row per violation of a rule."""
    items, empty = _items(golden, catalogue), golden.checks["kind"].eq("expected_empty")
    queries = golden.queries.reindex(columns=["query_id", "answerable", "category"]).assign(
        supports_only={*golden.targets["level"]} == {"anchor"},
        expects_empty=golden.queries["query_id"].isin(golden.checks.loc[empty, "query_id"]),
    )
    parts, of_kind = [pd.DataFrame(columns=COLUMNS)], dict(iter(items.groupby("kind")))
    for rule in RULES:
        kind, asked = rule.needs.removeprefix("no "), queries
        own = of_kind.get(kind, items[:0])
        if rule.pattern:
            own = own[own["found"].str.contains(rule.pattern)]
        for column, values in rule.applies.items():
            asked = asked[asked[column].isin(values)]
        if kind == rule.needs:
            lacking = asked[~asked["query_id"].isin(own["query_id"])]
            own = lacking[["query_id"]].assign(found="none").reindex(columns=ITEM).astype("object")
        elif len(own):
            own = own[own["query_id"].isin(asked["query_id"])]
        if len(own):
            stated = {name: own[name].fillna(getattr(rule, name)) for name in ("field", "allowed")}
            parts.append(own.assign(rule=rule.name, severity=rule.severity, **stated))
    return pd.concat(parts, ignore_index=True)


def _items(golden: Golden, catalogue: pd.DataFrame | None) -> pd.DataFrame:
    """Return what the rules are about: one row per item, its query, `kind`, and text `found`."""
    queries, targets, tags = golden.queries, golden.targets, golden.tags
    fields = targets["level"].map(FIELD_OF_LEVEL)
    found = [
        golden.checks.rename(columns={"text": "found"}),
        tags.rename(columns={"value": "found"}),
        targets.assign(kind="target", found=targets["target_id"], field=fields).drop_duplicates(
            ["query_id", "level", "target_id"]  # a support is there once for each snippet
        ),
        *(_expectations(golden)),
        _texts_and_ids(queries),
        _forbidden(golden),
        _outside(golden),
        _misspelt(golden),
    ]
    for column in ("path", "heading"):
        if column in targets:
            rows = targets.drop_duplicates(["query_id", column]).dropna(subset=column)
            found.append(rows.assign(kind=column, found=rows[column]))
    if catalogue is not None:
        check_type(catalogue, pd.DataFrame, "catalogue")
        for level in ("doc", "chunk"):
            column = f"{level}_id"
            if column in catalogue and column in targets:
                known = catalogue[column].dropna().astype("str")
                rows = targets[targets["level"].eq(level) & ~targets[column].isin(known)]
                found.append(rows.assign(kind="uncatalogued id", found=rows[column], field=fields))
    parts = [part.reindex(columns=ITEM) for part in found if len(part)]
    return pd.concat([pd.DataFrame(columns=ITEM), *parts], ignore_index=True).astype("object")


def _expectations(golden: Golden) -> Iterator[pd.DataFrame]:
    """Yield the items that each query expects."""
    queries, targets, groups = golden.queries, golden.targets, golden.support_groups
    names = queries[["query_id"]]
    if "reference_answer" in queries:
        yield names[queries["reference_answer"].notna()].assign(kind="expectation")
    for frame in (targets, golden.checks):
        yield frame[["query_id"]].assign(kind="expectation")
    yield names[queries["answerable"].eq(True).fillna(False)].assign(
        kind="answerable", found="true"
    )
    n = targets.groupby(["query_id", "level"])["target_id"].nunique().groupby("query_id").max()
    n = names["query_id"].map(n).fillna(0).astype("int64")
    yield names[n < 2].assign(kind="single", found=n.astype("str"))
    best = targets.groupby("query_id")["grade"].max().astype("str")
    yield best.rename("found").reset_index().assign(kind="best grade")
    n_groups = groups.groupby("query_id")["group"].nunique().astype("str") + " groups"
    yield n_groups.rename("found").reset_index().assign(kind="group")
    unknown = groups[groups["target_id"].str.startswith(UNKNOWN_TARGET)]
    name = unknown["target_id"].str.removeprefix(UNKNOWN_TARGET)
    yield unknown.assign(kind="unknown member", found=name)


def _texts_and_ids(queries: pd.DataFrame) -> pd.DataFrame:
    """Return queries without text, and those whose ids break the set's pattern.

    Readers put the id in the place of a text that a file doesn't have; ids made of texts hold
    spaces. Ids have a pattern if nearly all have the same letters and digits, with leading zeros.
    """
    ids, texts = queries["query_id"], queries["query"]
    is_blank, is_id = texts.str.fullmatch(r"[\s\u200b\u2060\ufeff]*"), texts == ids
    if is_id.mean() > 0.5 or ids.str.contains(r"\s").any():
        is_id &= False
    rows = [(one, "blank", "no text") for one in ids[is_blank]]
    rows += [(one, "blank", "no text but the id") for one in ids[is_id & ~is_blank]]
    shape = ids.str.replace(r"[^\W\d_]+", "a", regex=True).str.replace(r"\d", "0", regex=True)
    usual = shape.eq(shape.mode().get(0, ""))
    is_numbered = ids[usual].str.contains(r"^[^\W\d_]+[\W_]?0\d+$").any()
    if usual.mean() >= MIN_SHARE_OF_PATTERN and is_numbered:
        like = f"(others are like {ids[usual].iloc[0]})"
        rows += [(one, "odd id", f"{one} {like}") for one in ids[~usual]]
    return pd.DataFrame(rows, columns=["query_id", "kind", "found"])


def _forbidden(golden: Golden) -> pd.DataFrame:
    """Return texts and keys that a query expects and that hold what it forbids."""
    rows, checks = [], golden.checks
    keys = golden.targets.reindex(columns=["query_id", "source_key"]).dropna()
    keys = keys.set_axis(["query_id", "text"], axis=1)
    for kind, wanted, forbidden, fold in (
        ("forbidden text", checks[checks["kind"].eq("must_contain")], "forbidden", str),
        ("forbidden key", keys, "forbidden_source_key", str.lower),
    ):
        own = checks[checks["kind"].eq(forbidden)]
        pairs = wanted[["query_id", "text"]].merge(own[["query_id", "text"]], on="query_id")
        for query_id, text, part in pairs.itertuples(index=False):
            if fold(part) in fold(text):
                rows.append((query_id, kind, f"{text!r} holds {part!r}"))
    return pd.DataFrame(rows, columns=["query_id", "kind", "found"])


def _outside(golden: Golden) -> pd.DataFrame:
    """Return supports outside their query's folders, and tags that name another query's vault.

    Paths and folders may begin with the vault.
    """
    by_kind = golden.tags.groupby(["query_id", "kind"])["value"].agg(list)
    listed: dict[Any, list[str]] = dict(by_kind.items())
    all_vaults = {*golden.tags.loc[golden.tags["kind"].eq("vault"), "value"]}
    rows = []
    supports = golden.targets.reindex(columns=["query_id", "path"])
    is_support = golden.targets["level"].eq("anchor")
    for query_id, path in supports[is_support].dropna().drop_duplicates().itertuples(index=False):
        vaults = listed.get((query_id, "vault"), [])
        folders = [_place(one, vaults) for one in listed.get((query_id, "folder"), [])]
        if folders and not any(_place(path, vaults).is_relative_to(one) for one in folders):
            rows.append((query_id, "path outside", path))
    for (query_id, kind), values in listed.items():
        vaults = listed.get((query_id, "vault"), []) if kind == "tag" else []
        strange = [one for one in values if one in all_vaults and one not in vaults]
        rows += [(query_id, "foreign vault", one) for one in strange if vaults]
    return pd.DataFrame(rows, columns=["query_id", "kind", "found"])


def _place(text: str, vaults: list[str]) -> PurePosixPath:
    """Return a path or folder within its vault."""
    path = PurePosixPath(text.replace("\\", "/").strip("/"))
    return PurePosixPath(*path.parts[1:]) if {*path.parts[:1]} & {*vaults} else path


def _misspelt(golden: Golden) -> pd.DataFrame:
    """Return fields of the user's own whose names resemble a field of ours, with a first query."""
    rows = []
    for frame, field, known in (
        (golden.queries, "", KNOWN_FIELDS),
        (golden.targets, "gold_supports", SUPPORT_FIELDS),
    ):
        for name in [str(one)[2:] for one in frame if str(one).startswith("x_")]:
            ids = frame.loc[frame[f"x_{name}"].notna(), "query_id"].unique()
            if len(ids) and (meant := suggest_field(name, known)):
                text = f"unknown field {name!r}, in {plural(len(ids), 'query')}"
                rows.append(
                    (ids[0], "misspelt field", text, field or name, f"did you mean {meant!r}?")
                )
    return pd.DataFrame(rows, columns=ITEM)

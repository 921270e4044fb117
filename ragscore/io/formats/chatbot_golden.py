"""A chatbot's golden cases, `eval_set.jsonl` <-> `Golden`.

The cases have fields of our own golden file, some under other names. Anchors (`gold_supports`) are
their only targets.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import warn
from ragscore.io.files import write_lines
from ragscore.io.formats.fields import golden_rows
from ragscore.io.golden_read import SUPPORT_EXTRAS, TAG_FIELDS, golden_of
from ragscore.io.source import Problems, Row, json_rows
from ragscore.io.values import by_query, extra_fields, row_dicts

LISTS = ("expected_key_facts", "gold_supports", "required_support_groups", *TAG_FIELDS)
ROW_FIELDS = frozenset(
    ("id", "query", "answerable", "recency_conflict_rule", "category", "difficulty", *LISTS)
)
"""Fields that our own golden file has under the same name; only `question` is `query` there."""
OTHER_NAMES = {"path": "rel_path", "heading": "heading_path"}
RULES = ("cite_newer", "acknowledge_both", "cite_both")
PARTS = ("targets", "support_groups", "checks", "tags")


def read_chatbot_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one file of cases.

    Ids must be unique. A case without `answerable` is answerable.
    """
    problems, rows = Problems(path, strict), list[Row]()
    for row in json_rows(path, problems):
        values = dict(row.values)
        if "question" in values:
            values["query"] = values.pop("question")
        rule = values.get("recency_conflict_rule")
        if rule not in (None, *RULES):
            allowed = f"one of {', '.join(RULES)}, or null"
            problems.reject(rule, row.line, "recency_conflict_rule", allowed)
            values["recency_conflict_rule"] = None
        if values.get("answerable") is None:
            values["answerable"] = True
        rows.append(Row(values, row.line, row.lines))
    golden = golden_of(golden_rows(rows, ROW_FIELDS), problems, absent_docs, catalogue)
    problems.typos.warn()
    return golden


def write_chatbot_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as a chatbot's `eval_set.jsonl`.

    A set that was loaded from such a file is written with the same objects again, unknown fields
    included. Each case has every field that the format requires: null or an empty list where the
    set has nothing. Only targets with a path (anchors) have a place there.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A support group names a target that is no anchor.
    """
    parts = {name: by_query(getattr(golden, name)) for name in PARTS}
    cases = []
    for query in row_dicts(golden.queries):
        of_query = {name: rows.get(query["query_id"], []) for name, rows in parts.items()}
        cases.append(_case(query, of_query | {"conditions": []}))
    written = write_lines(path, cases)
    if n := int((golden.targets["level"] != "anchor").sum()):
        warn(f"{path} has no place for targets: {n:,}")
    return written


def _case(query: dict[str, Any], parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    from ragscore.io.golden_write import row_of  # yaml is not needed to read

    own = extra_fields({name: one for name, one in query.items() if name != SUPPORT_EXTRAS})
    plain = {n: one for n, one in query.items() if n == SUPPORT_EXTRAS or not n.startswith("x_")}
    said = row_of(plain, parts)
    for number, group in enumerate(groups := said.get("required_support_groups", [])):
        if other := [member for member in group if not isinstance(member, int)]:
            raise DataError(
                f"{other[0]!r} in group {number} of query {query['query_id']!r} is no anchor",
                field="support_groups.target_id",
                allowed="anchors (targets with a path): groups are positions in gold_supports",
            )
    supports = [
        {OTHER_NAMES.get(name, name): value for name, value in one.items()}
        for one in said.get("gold_supports", [])
    ]
    return {
        "id": query["query_id"],
        "question": query["query"],
        "answerable": query.get("answerable"),
        "expected_key_facts": said.get("expected_key_facts", []),
        "gold_supports": supports,
        "required_support_groups": groups or None,
        "recency_conflict_rule": said.get("recency_conflict_rule"),
        **{name: said.get(name, []) for name in TAG_FIELDS},
        **{name: said.get(name) for name in ("category", "difficulty")},
        **own,
    }

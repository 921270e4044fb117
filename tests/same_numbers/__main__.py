"""Compare the library's answers with those recorded, or record them: see the package."""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from tests.same_numbers.questions import ARITHMETIC, KEYS, OBJECTS, answers

HERE = Path(__file__).parent
RECORDED, MEANT = HERE / "answers.parquet", HERE / "meant.csv"
PAGE = HERE / "changed.md"  # what was meant, once recorded
LINE = ["object", "metric", "field"]  # what a line of meant.csv names, with a count and a size
# Fields that are estimated, not scored or counted: rounding may move them, which is listed.
ESTIMATED = set(
    "delta delta_pct delta_rest p50_delta low high p50_low p50_high band_low band_high p q mde "
    "std".split()
)
ROUNDING = 1e-9
SHOWN = 40


def differences(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return a row per value that isn't the same to the bit, with `size`: how far it moved.

    The size is infinite where a value is gone, new, or no longer of its kind, or is another text.
    """
    both = before.merge(after, on=KEYS, how="outer", indicator=True, suffixes=("", "_now"))
    is_one_sided = both["_merge"] != "both"
    number, now = both["number"], both["number_now"]
    same_number = (number == now) | (number.isna() & now.isna())
    same_text = (both["text"] == both["text_now"]).fillna(False) | (
        both["text"].isna() & both["text_now"].isna()
    )
    differs = is_one_sided | ~same_number | ~same_text
    size = (number - now).abs().where(same_text & ~is_one_sided, np.inf).fillna(np.inf)
    found = both.assign(size=size, change=both["_merge"].map(
        {"both": "differs", "left_only": "gone", "right_only": "new"}).astype("str"))  # fmt: skip
    return found.loc[differs].drop(columns="_merge").reset_index(drop=True)


def by_line(found: pd.DataFrame) -> pd.DataFrame:
    """Return differences by object, metric and field: how many, and the largest size.

    A processor with other instructions rounds logarithms and products otherwise. There the table
    holds to `ROUNDING` and not to the bit, and a line says so.
    """
    lines = found.groupby(LINE, as_index=False).agg(count=("size", "size"), size=("size", "max"))
    name = lines["field"].str.split(".").str[-1]  # of a path in a JSON document, its last part
    may_move = name.isin(ESTIMATED) | bool((lines["object"] == ARITHMETIC).any())
    return lines.assign(is_rounding=may_move & (lines["size"] <= ROUNDING))


def not_meant(lines: pd.DataFrame, meant: pd.DataFrame) -> list[str]:
    """Return what differs and isn't meant, and what is meant and doesn't differ, a line each."""
    keyed = lines.merge(meant, on=LINE, how="outer", suffixes=("", "_meant"), indicator=True)
    said = []
    for one in keyed.to_dict("records"):
        name = ", ".join(str(one[key]) for key in LINE if one[key])
        found = f"{name}: {one['count']:.0f} values, by {one['size']:.3g}"
        if one["_merge"] == "right_only":
            said.append(f"{name}: meant to differ, and doesn't")
        elif one["_merge"] == "left_only":
            if not one["is_rounding"] and one["object"] != ARITHMETIC:
                said.append(f"{found}: not meant")
        elif one["count"] != one["count_meant"] or one["size"] > one["size_meant"] * (1 + 1e-6):
            said.append(f"{found}: meant are {one['count_meant']}, by {one['size_meant']:.3g}")
    return said


def read_meant() -> pd.DataFrame:
    meant = pd.read_csv(MEANT, dtype=dict.fromkeys([*LINE, "why"], "str"), keep_default_na=False)
    return meant.astype({"count": "int64", "size": "float64"})


def few(names: pd.Series) -> str:
    """Return names as they are listed on the page: many metrics are counted."""
    found = names.drop_duplicates().tolist()
    return ", ".join(found) if len(found) <= 12 else f"{len(found)} metrics"


def record(found: pd.DataFrame) -> None:
    """Write the answers, and move the lines of what was meant to their page."""
    meant = read_meant().groupby(["object", "why"], as_index=False, sort=False)
    rows = [
        "| {object} | {metric} | {field} | {count} | {size:.3g} | {why} |".format(**one)
        for one in meant.agg({"metric": few, "field": few, "count": "sum", "size": "max"}).to_dict(
            "records"
        )
    ]
    text, end = PAGE.read_text(encoding="utf-8"), "<!-- /recorded:changes -->"
    PAGE.write_text(text.replace(end, "\n".join([*rows, end])), encoding="utf-8")
    MEANT.write_text(",".join([*LINE, "count", "size", "why"]) + "\n", encoding="utf-8")
    found.to_parquet(RECORDED, compression="zstd", index=False)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.same_numbers", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["compare", "record"], default="compare")
    parser.add_argument("--object", choices=list(OBJECTS), default="", help="ask it alone")
    parser.add_argument("--values", action="store_true", help="list the values that differ")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = answers(given.object)
    if given.what == "record":
        if given.object:
            parser.error("all objects are recorded together")
        record(found)
        print(f"{len(found):,} values of {found['object'].nunique()} objects recorded")
        return 0
    recorded, meant = pd.read_parquet(RECORDED), read_meant()
    if given.object:
        recorded = recorded[recorded["object"].isin(found["object"])]
        meant = meant[meant["object"].isin(found["object"])]
    differing = differences(recorded, found)
    lines = by_line(differing)
    if (lines["object"] == ARITHMETIC).any():
        print(f"this processor rounds otherwise: numbers are compared to {ROUNDING:g}")
    said = not_meant(lines, meant)
    if given.values:
        print(differing.head(SHOWN).to_string())
    n_rounded = int(lines.loc[lines["is_rounding"], "count"].sum())
    print("\n".join(said[:SHOWN]) or "no number differs that isn't meant to")
    print(
        f"{len(recorded):,} values compared: {len(said)} lines are not as meant, "
        f"{len(meant)} are, {n_rounded} estimates moved by {ROUNDING:g} at most"
    )
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())

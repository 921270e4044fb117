"""What a run asks and says: the caller's settings, and of each golden query what it carries.

Settings that the system can't be told are refused.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ragscore.collecting.systems import CARRIED, SETTINGS, Request, System
from ragscore.frames.data import DataError, Golden
from ragscore.io.source import shown
from ragscore.io.values import present, unflatten

_TAGS = {"vault": "vaults", "folder": "folders"}
OWN_NAMES = frozenset(("query", "query_id", *SETTINGS, *CARRIED))


@dataclass(frozen=True)
class Settings:
    """What is sent with every query; None isn't sent."""

    mode: str | None = None
    k: int | None = None
    temperature: float | None = None
    seed: int | None = None
    with_answer: bool | None = None
    own: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.k is not None and (
            not isinstance(self.k, int) or isinstance(self.k, bool) or self.k < 1
        ):
            raise DataError(f"found {shown(self.k)}", field="k", allowed="a whole number from 1")
        if clash := sorted(OWN_NAMES & set(self.own)):
            raise DataError(
                f"found {', '.join(clash)}",
                field="settings",
                allowed="other names: these have parameters of their own, or come with the query",
            )
        try:
            json.dumps(self.own, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"{error}", field="settings", allowed="what JSON can hold") from error

    @property
    def sent(self) -> dict[str, Any]:
        """Names and values as they are sent, and as the snapshot keeps them."""
        return {
            name: value for name in SETTINGS if (value := getattr(self, name)) is not None
        } | self.own


def requests_of(golden: Golden, settings: Settings, left_out: Iterable[str] = ()) -> list[Request]:
    """One request per golden query, in file order.

    Its text and id, the settings, and what it carries itself.
    """
    tags = _lists(golden.tags.loc[golden.tags["kind"].isin(list(_TAGS))])
    product = (
        golden.checks.loc[golden.checks["kind"] == "product"]
        .set_index("query_id")["text"]
        .to_dict()
    )
    requests = []
    for query in present(golden.queries.sort_values("position", kind="stable")):
        query_id = str(query["query_id"])
        own = unflatten(
            {
                name: value
                for name, value in query.items()
                if name.split(".")[0] in ("x_filters", "x_tool")
            }
        )
        filters = _filters(own.get("filters"))
        carried = {
            "filters": filters,
            **tags.get(query_id, {}),
            "product": product.get(query_id),
            "tool": own.get("tool"),
        }
        carried = {
            name: carried[name] for name in CARRIED if carried.get(name) and name not in left_out
        }
        requests.append({"query": query["query"], "query_id": query_id, **settings.sent, **carried})
    return requests


def _lists(tags: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for query_id, kind, value in tags[["query_id", "kind", "value"]].itertuples(index=False):
        found.setdefault(query_id, {}).setdefault(_TAGS[kind], []).append(value)
    return found


def _filters(written: Any) -> Any:
    """Filters as the golden file has them, the product apart: it is a field of its own."""
    values = (
        json.loads(written)
        if isinstance(written, str) and written.startswith(("{", "["))
        else written
    )
    return (
        {name: value for name, value in values.items() if name != "product"}
        if isinstance(values, dict)
        else values
    )


def chosen(
    requests: list[Request], limit: int | None, sample: int | None, seed: int
) -> list[Request]:
    """The first `limit` requests, or `sample` of them drawn with the seed, in file order."""
    for name, number in (("limit", limit), ("sample", sample)):
        if number is not None and (not isinstance(number, int) or number < 1):
            raise DataError(f"found {shown(number)}", field=name, allowed="a whole number from 1")
    if limit is not None and sample is not None:
        raise DataError("both were given", field="limit, sample", allowed="one of them")
    if sample is None or sample >= len(requests):
        return requests[:limit]
    drawn = np.random.default_rng(seed).choice(len(requests), sample, replace=False)
    return [requests[place] for place in sorted(drawn)]


def check_told(
    system: System, settings: Settings, requests: list[Request], left_out: Iterable[str]
) -> None:
    """Refuse what the system can't be told and what it lacks, so that nothing is recorded that was not sent.

    Raises
    ------
    DataError
        A setting, or a field that some golden query carries, which the system has no place for; one
        that it needs and that isn't set.
    """
    if unknown := sorted(set(left_out) - set(CARRIED)):
        raise DataError(
            f"found {', '.join(unknown)}",
            field="leave_out",
            allowed=f"some of {', '.join(CARRIED)}",
        )
    if not requests:
        raise DataError("no query to ask", field="golden", allowed="at least one")
    if lacking := sorted(system.needs - set(settings.sent) - set(CARRIED) - {"query_id"}):
        raise DataError(
            f"{system.name} needs {', '.join(lacking)}",
            field="system",
            allowed="a value for it: a parameter of collect, or in settings=",
        )
    if system.takes is None:
        return
    places = ", ".join(sorted(system.takes)) or "the query only"
    if untold := [name for name in settings.sent if name not in system.takes]:
        raise DataError(
            f"{system.name} can't be told {', '.join(untold)}",
            field="settings",
            allowed=f"it takes {places}",
        )
    carried = [
        name
        for name in CARRIED
        if name not in system.takes and any(name in request for request in requests)
    ]
    if carried:
        n = sum(carried[0] in request for request in requests)
        found = f"{n} queries carry {carried[0]}, which {system.name} can't be told"
        raise DataError(
            found, field="golden", allowed=f"it takes {places}; leave_out={carried!r} asks without"
        )

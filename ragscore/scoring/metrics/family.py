"""A family of metrics: those that one file declares, with what they have in common."""

from collections.abc import Callable
from typing import Any

from ragscore.scoring.metrics.declaration import Metric
from ragscore.scoring.metrics.lists import ListFormula
from ragscore.scoring.metrics.needs import needs_of


class Family(list[Metric]):
    """The metrics of one file; calling it declares one, as a decorator of its formula."""

    def __init__(self, family: str, **common: Any) -> None:
        self.common = {"family": family, **common}

    def __call__(self, name: str, formula: str, **fields: Any) -> Callable[[Any], Any]:
        """Declare a metric of this family; `fields` go before what all of it have in common.

        With `reads`, columns of hits, its formula gets `HitLists` as one of a user's own does.
        """

        def declared(compute: Any) -> Any:
            given = {**self.common, "compute": compute, **fields}
            if reads := given.get("reads"):
                partly = needs_of(reads)
                given["compute"] = ListFormula(compute, "hits", name, reads)
                given |= {"partly": partly, "needs": (*given["needs"], *partly)}
            self.append(Metric(name, formula, **given))
            return compute

        return declared

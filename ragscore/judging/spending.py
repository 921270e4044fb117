"""What judging costs.

Tokens as the endpoint reports them, money from a table of prices, and a limit to it.

Unknown is NaN, never 0: a model without a price has no cost, and what is not known can't be kept
below a limit.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields

from ragscore.frames.data import DataError

Prices = Mapping[str, float | tuple[float, float] | list[float]]


class OutOfMoney(Exception):
    """The limit is reached; nothing more is asked."""


@dataclass
class Usage:
    """What something took; tokens and cost are NaN where a call didn't say."""

    n_calls: int = 0
    n_cached: int = 0
    n_retries: int = 0
    n_repairs: int = 0
    tokens: float = 0.0
    cost_usd: float = 0.0

    def add(self, other: "Usage") -> None:
        """Add what something else took."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


class Purse:
    """Money spent, together for all threads.

    Parameters
    ----------
    prices
        US dollars per million tokens by model: (prompt, completion), or one number for both, as for
        embeddings.
    max_cost
        No call starts once this much is spent; calls under way are finished.
    """

    def __init__(self, prices: Prices | None, max_cost: float | None, models: list[str]) -> None:
        self.prices = {model: _pair(model, price) for model, price in (prices or {}).items()}
        without = [model for model in models if model not in self.prices]
        if max_cost is not None and without:
            raise DataError(
                f"no price of {', '.join(without)}",
                field="max_cost",
                allowed="prices={model: (prompt, completion)}, in US dollars per million tokens",
            )
        self.max_cost, self.spent = max_cost, 0.0
        self._lock = threading.Lock()

    def cost(self, model: str, prompt_tokens: int | None, completion_tokens: int | None) -> float:
        """What so many tokens of a model cost; NaN where the price or the tokens aren't known."""
        if model not in self.prices or prompt_tokens is None or completion_tokens is None:
            return math.nan
        prompt, completion = self.prices[model]
        return (prompt * prompt_tokens + completion * completion_tokens) / 1e6

    def pay(self, cost: float) -> None:
        """Note that this was spent."""
        with self._lock:
            self.spent += cost

    def check(self) -> None:
        """Raise `OutOfMoney` where the limit is reached, or where a call didn't say what it took."""
        if self.max_cost is None:
            return
        if math.isnan(self.spent):
            raise OutOfMoney("the endpoint doesn't report its tokens, so max_cost can't be kept")
        if self.spent >= self.max_cost:
            raise OutOfMoney(f"max_cost {self.max_cost:g} is reached")


def _pair(model: str, price: float | tuple[float, float] | list[float]) -> tuple[float, float]:
    pair = (price, price) if isinstance(price, (int, float)) else tuple(price)
    if len(pair) != 2 or not all(isinstance(one, (int, float)) and one >= 0 for one in pair):
        raise DataError(
            f"found {price!r} for {model}",
            field="prices",
            allowed="(prompt, completion) in US dollars per million tokens, or one number for both",
        )
    return float(pair[0]), float(pair[1])

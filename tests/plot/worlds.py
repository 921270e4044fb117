"""Runs to draw, and every picture of them: one run to ten, with names of 2 to 40 letters."""

import random
import string
from functools import cached_property, lru_cache

import pandas as pd

import ragscore as rs
from ragscore.analysis.history import read_history
from ragscore.analysis.trend import trend_of

NAMES = {
    "short": lambda n: f"run_{n:08}",  # 12 letters
    # 40, and nothing is shared
    "apart": lambda n: "".join(random.Random(n).choices(string.ascii_lowercase, k=40)),
}


class World:
    """Runs with answers, citations, refusals, times and dates, better from one to the next."""

    def __init__(self, n_runs, names="short", n_queries=48):
        self.names = [NAMES[names](n) for n in range(n_runs)]
        self.n_queries = n_queries

    @cached_property
    def golden(self):
        expected = [
            {"answerable": False} if n % 6 == 5
            else {"expected_doc_ids": [f"d{n}"], "must_contain": ["yes"]}
            for n in range(self.n_queries)
        ]  # fmt: skip
        levels = ("easy", "medium", "hard")
        return rs.load_golden([
            {"id": f"q{n:02}", "query": "?", "category": f"category {n % 5}",
             "difficulty": levels[n % 3]} | one
            for n, one in enumerate(expected)
        ])  # fmt: skip

    @cached_property
    def results(self):
        draws = {name: random.Random(number) for number, name in enumerate(self.names)}
        return rs.load_results([
            {"run_id": name, **self._record(by, number, n)}
            for number, (name, by) in enumerate(draws.items()) for n in range(self.n_queries)
        ])  # fmt: skip

    def _record(self, by, number, n):
        chance = 0.45 + 0.04 * number - 0.1 * (n % 3)
        rank = 1 + int(by.random() * 6) if by.random() < chance else None
        top = (0.9 if rank == 1 else 0.6) + 0.2 * by.random()
        refuses = by.random() < (0.7 if n % 6 == 5 else 0.15)
        is_right = by.random() < 0.7 * chance
        return {
            "query_id": f"q{n:02}",
            "doc_id": [f"d{n}" if place == rank else f"x{place}" for place in range(1, 8)],
            "score": [top / place for place in range(1, 8)],
            "answer": "no idea" if refuses else "yes" if is_right else "perhaps",
            "refused": refuses, "latency_ms": 40 + 30 * number + int(40 * by.random()),
        }  # fmt: skip

    @cached_property
    def ev(self):
        return rs.evaluate(self.results, self.golden)

    @cached_property
    def cmp(self):
        return self.ev.compare(self.names[0], self.names[-1])

    def trend(self):
        """Return three runs a system, with other settings at the second, labels at the third."""
        hits = self.ev.scores.query("state == 'scored'").reset_index()
        rows = [
            hits.assign(
                run_id=hits["run_id"].astype("str") + f"-{date}", system=hits["run_id"],
                created_at=pd.Timestamp(f"2026-0{date}-10", tz="UTC"),
                config=f'{{"chunk_size": {400 if date > 1 else 200}}}',
                golden_hash="aaaaaaaa" if date < 3 else "bbbbbbbb",
            )
            for date in (1, 2, 3)
        ]  # fmt: skip
        days = hits["run_id"].cat.codes.to_numpy() * pd.Timedelta("1D")
        rows = [one.assign(created_at=one["created_at"] + days) for one in rows]
        return trend_of(read_history(pd.concat(rows), "hit@5"))

    @cached_property
    def talks(self):
        """Return the runs, whose queries are turns of conversations with two searches each."""
        queries = [f"{talk}_{turn}" for talk in range(8) for turn in range(1, 4)]
        rows = [{"id": name, "query": name, "expected_doc_ids": ["d"]} for name in queries]
        golden = rs.load_golden(rows)
        named = golden.queries["query_id"].str.extract(r"(\d+)_(\d+)")
        golden.queries[["conversation", "turn"]] = named
        runs = {
            name: {
                q: [["x"], ["d" if random.Random(f"{q} {n}").random() < 0.6 else "y"]]
                for q in queries
            }
            for n, name in enumerate(self.names)
        }
        return rs.evaluate(runs, golden)


@lru_cache(None)
def world(n_runs, names="short", n_queries=48):
    """Return the runs to draw; made once, whatever is drawn of them."""
    return World(n_runs, names, n_queries)


PICTURES = {
    "summary": lambda w, **to: w.ev.plot(**to),
    "leaderboard": lambda w, **to: w.ev.leaderboard(["hit@5", "mrr@10"]).plot(**to),
    "slices": lambda w, **to: w.ev.plot.slices("mrr@10", "category", **to),
    "heatmap": lambda w, **to: w.ev.plot.heatmap("mrr@10", "category", **to),
    "heatmap of many": lambda w, **to: w.ev.plot.heatmap("hit@5", ["category", "difficulty"], **to),
    "metric_at_k": lambda w, **to: w.ev.plot.metric_at_k("hit", **to),
    "tradeoff": lambda w, **to: w.ev.plot.tradeoff("mrr@10", **to),
    "refusals": lambda w, **to: w.ev.plot.refusals(**to),
    "risk_coverage": lambda w, **to: w.ev.plot.risk_coverage(**to),
    "trend": lambda w, **to: w.trend().plot(**to),
    "calls": lambda w, **to: rs.extras.calls(w.talks).plot(**to),
    "turns": lambda w, **to: rs.extras.conversations(w.talks, "hit@1").plot(**to),
    "forest": lambda w, **to: w.cmp.plot(**to),
    "slice_deltas": lambda w, **to: w.cmp.slices("category", ["mrr@10"]).plot(**to),
    "ranks": lambda w, **to: w.cmp.plot.ranks(**to),
    "outcomes": lambda w, **to: w.cmp.plot.outcomes(**to),
    "scatter": lambda w, **to: w.cmp.plot.scatter("mrr@10", **to),
    "failures": lambda w, **to: w.ev.failures().plot(w.names[0], w.names[-1], **to),
}
OF_TWO_RUNS = {"forest", "slice_deltas", "ranks", "outcomes", "scatter", "failures"}

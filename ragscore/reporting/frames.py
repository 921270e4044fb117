"""`ReportFrames`: the frames that the sections of a page are written from."""

from dataclasses import dataclass, field

import pandas as pd

from ragscore.analysis.comparison.gate import Gate
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.leaderboard import Leaderboard
from ragscore.scoring.metrics import TABLE, MetricTable


@dataclass(frozen=True)
class ReportFrames:
    """The frames of a report; `Report` documents each of them."""

    title: str
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    config: pd.DataFrame = field(default_factory=pd.DataFrame)
    summary: pd.DataFrame = field(default_factory=pd.DataFrame)
    reported: pd.DataFrame = field(default_factory=pd.DataFrame)
    slices: pd.DataFrame = field(default_factory=pd.DataFrame)
    leaderboard: Leaderboard | None = None
    gates: tuple[Gate, ...] = ()
    trends: pd.DataFrame = field(default_factory=pd.DataFrame)
    decisions: pd.DataFrame = field(default_factory=pd.DataFrame)
    quality: pd.DataFrame = field(default_factory=pd.DataFrame)
    faults: pd.DataFrame = field(default_factory=pd.DataFrame)
    transitions: pd.DataFrame = field(default_factory=pd.DataFrame)
    curve: pd.DataFrame = field(default_factory=pd.DataFrame)
    read_first: pd.DataFrame = field(default_factory=pd.DataFrame)
    primary: tuple[str, ...] = ()
    declared: MetricTable = TABLE
    explorer: str = ""
    comparisons: tuple[Comparison, ...] = ()
    order: tuple[str, ...] = ()
    left_out: pd.DataFrame = field(default_factory=pd.DataFrame)

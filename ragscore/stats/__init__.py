"""Statistics on arrays: intervals, tests, corrections, power, agreement, words.

Matrices have one row per query and one column per metric (or run), NaN where there is no value.
All tests are about means, since means are reported: a rank or sign test may announce an improvement
where no mean moved. scipy is imported on use.
"""

from ragscore.stats.agreement import (
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    rank_correlation,
    weighted_kappa,
)
from ragscore.stats.bootstrap import bootstrap_mean
from ragscore.stats.intervals import mean_interval, wilson_interval
from ragscore.stats.multiple import benjamini_hochberg, holm
from ragscore.stats.paired import (
    mcnemar_p,
    minimum_detectable,
    paired_interval,
    queries_needed,
    sign_flip_p,
    tango_interval,
)
from ragscore.stats.ppi import ppi_difference, ppi_mean
from ragscore.stats.quantiles import quantile_interval

__all__ = [
    "benjamini_hochberg", "bootstrap_mean", "cohen_kappa", "gwet_ac1", "holm",
    "krippendorff_alpha", "mcnemar_p", "mean_interval", "minimum_detectable",
    "paired_interval", "ppi_difference", "ppi_mean", "quantile_interval", "queries_needed",
    "rank_correlation", "sign_flip_p", "tango_interval", "weighted_kappa", "wilson_interval",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__

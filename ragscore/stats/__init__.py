"""Statistics on arrays: intervals, tests, corrections, power, agreement, verdicts.

Matrices have one row per query and one column per metric (or run), NaN where there is no value.
All tests are about means, since means are reported: a rank or sign test may announce an improvement
where no mean moved. Only numpy and scipy are needed, and scipy is imported on use.
"""

from ragscore.stats.agreement import (
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    rank_correlation,
    weighted_kappa,
)
from ragscore.stats.bootstrap import bootstrap_mean
from ragscore.stats.differences import (
    interval_of_differences,
    median_interval,
    quantile_difference_interval,
)
from ragscore.stats.intervals import mean_interval, wilson_interval
from ragscore.stats.moments import NORMAL_FROM, moments, skewness
from ragscore.stats.multiple import (
    ALPHA,
    Together,
    benjamini_hochberg,
    holm,
    joint_test,
    max_t_p,
    tied_sets,
)
from ragscore.stats.paired import (
    count_moves,
    mcnemar_p,
    paired_p,
    sign_flip_p,
    tango_interval,
    two_sample_test,
)
from ragscore.stats.power import (
    flip_rate,
    is_heavy_tailed,
    mde_of_differences,
    minimum_detectable,
    minimum_detectable_rate,
    queries_needed,
    queries_needed_rate,
    rate_power,
)
from ragscore.stats.ppi import ppi_difference, ppi_mean
from ragscore.stats.quantiles import quantile_interval
from ragscore.stats.verdicts import (
    DIRECTIONS,
    MIXED,
    NO_WORSE,
    SAME,
    UNSURE,
    WORDS,
    Verdict,
    joint_verdict,
    median_verdict,
    overall_word,
    verdict,
)

__all__ = [
    "ALPHA", "DIRECTIONS", "MIXED", "NORMAL_FROM", "NO_WORSE", "SAME", "UNSURE", "WORDS",
    "Together", "Verdict", "benjamini_hochberg", "bootstrap_mean", "cohen_kappa", "count_moves",
    "flip_rate", "gwet_ac1", "holm", "interval_of_differences", "is_heavy_tailed", "joint_test",
    "joint_verdict", "krippendorff_alpha", "max_t_p", "mcnemar_p", "mde_of_differences",
    "mean_interval", "median_interval", "median_verdict", "minimum_detectable",
    "minimum_detectable_rate", "moments", "overall_word", "paired_p", "ppi_difference", "ppi_mean",
    "quantile_difference_interval", "quantile_interval", "queries_needed", "queries_needed_rate",
    "rank_correlation", "rate_power", "sign_flip_p", "skewness", "tango_interval", "tied_sets",
    "two_sample_test", "verdict", "weighted_kappa", "wilson_interval",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__

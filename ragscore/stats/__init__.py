"""Statistics on arrays: intervals, tests, corrections, power, agreement, verdicts.

Matrices have one row per query and one column per metric (or run), NaN where there is no value.
All tests are about means, since means are reported: a rank or sign test may announce an improvement
where no mean moved. Only numpy and scipy are needed, and scipy is imported on use.
"""

from ragscore.stats.agreement import (
    Agreement,
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    rank_correlation,
    weighted_kappa,
)
from ragscore.stats.bootstrap import bootstrap_mean, bootstrap_t_interval
from ragscore.stats.intervals import (
    interval_of_means,
    mean_interval,
    t_interval,
    t_quantile,
    wilson_interval,
)
from ragscore.stats.moments import (
    NORMAL_FROM,
    average_repeats,
    design_effect,
    inflation,
    moments,
    skewness,
    standard_error,
)
from ragscore.stats.multiple import ALPHA, benjamini_hochberg, holm, level_of_each
from ragscore.stats.paired import (
    alike_units,
    count_moves,
    is_heavy_tailed,
    mcnemar_p,
    paired_error,
    paired_interval,
    paired_p,
    sign_flip_p,
    tango_interval,
    welch,
)
from ragscore.stats.power import flip_rate, minimum_detectable, queries_needed
from ragscore.stats.ppi import LEAST_LABELS, Corrected, ppi_difference, ppi_mean
from ragscore.stats.quantiles import (
    least_n,
    median_interval,
    quantile_difference_interval,
    quantile_interval,
)
from ragscore.stats.similarity import cosine, cosine_matrix
from ragscore.stats.verdicts import MIXED, UNSURE, WORDS, joint_word, overall_word, words

__all__ = [
    "ALPHA", "Agreement", "Corrected", "LEAST_LABELS", "MIXED", "NORMAL_FROM", "UNSURE", "WORDS",
    "alike_units", "average_repeats", "benjamini_hochberg", "bootstrap_mean",
    "bootstrap_t_interval",
    "cohen_kappa", "cosine", "cosine_matrix", "count_moves", "design_effect", "flip_rate",
    "gwet_ac1", "holm", "inflation", "interval_of_means", "is_heavy_tailed", "joint_word",
    "krippendorff_alpha", "least_n", "level_of_each", "mcnemar_p", "mean_interval",
    "median_interval", "minimum_detectable", "moments", "overall_word", "paired_error",
    "paired_interval", "paired_p", "ppi_difference", "ppi_mean", "quantile_difference_interval",
    "quantile_interval", "queries_needed", "rank_correlation", "sign_flip_p", "skewness",
    "standard_error", "t_interval", "t_quantile", "tango_interval", "weighted_kappa", "welch",
    "wilson_interval", "words",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__

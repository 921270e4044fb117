"""Statistics on arrays: intervals, paired tests, corrections of many tests. numpy and scipy only; scipy is imported where it is used.

Matrices have one row per query and one column per metric (or run), NaN where there is no value. Tests are about means, because means are what is
reported: rank and sign tests answer another question and announce improvements where no mean moved.
"""

from ragscore.stats.bootstrap import bootstrap_mean, bootstrap_t_interval
from ragscore.stats.intervals import interval_of_differences, interval_of_means, mean_interval, paired_interval, t_interval, wilson_interval
from ragscore.stats.moments import average_repeats, design_effect, moments, skewness, standard_error
from ragscore.stats.multiple import benjamini_hochberg, holm, max_t_p, tied_sets, tied_with_best
from ragscore.stats.paired import count_moves, mcnemar_p, paired_p, sign_flip_p, tango_interval
from ragscore.stats.quantiles import least_n, median_interval, quantile_difference_interval, quantile_interval

__all__ = [
    "average_repeats", "benjamini_hochberg", "bootstrap_mean", "bootstrap_t_interval", "count_moves", "design_effect", "holm",
    "interval_of_differences", "interval_of_means", "least_n", "max_t_p", "mcnemar_p", "mean_interval",
    "median_interval", "moments", "paired_interval", "paired_p",
    "quantile_difference_interval", "quantile_interval", "sign_flip_p", "skewness", "standard_error", "t_interval", "tango_interval",
    "tied_sets", "tied_with_best", "wilson_interval",
]  # fmt: skip

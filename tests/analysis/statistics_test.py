import math

import numpy as np
import pytest

from analysis import statistics


# Two-sided 95 % points of Student's t as printed in statistical tables.
@pytest.mark.parametrize(
    "degrees, expected",
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (19, 2.0930), (30, 2.0423), (120, 1.9799)],
)
def test_quantiles_of_student_are_those_of_the_tables(degrees, expected):
    assert statistics.student_t_quantile(0.975, degrees) == pytest.approx(expected, abs=5e-5)
    assert statistics.student_t_quantile(0.025, degrees) == pytest.approx(-expected, abs=5e-5)


def test_one_degree_of_freedom_is_the_cauchy_distribution():
    for p in (0.6, 0.9, 0.99, 0.999):
        assert statistics.student_t_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-9)


def test_many_degrees_of_freedom_approach_the_normal_distribution():
    assert statistics.student_t_quantile(0.975, 1e7) == pytest.approx(1.959964, abs=1e-5)


def test_the_incomplete_beta_function_has_its_closed_forms():
    for x in (0.01, 0.3, 0.5, 0.9):
        assert statistics.incomplete_beta(1, 1, x) == pytest.approx(x, rel=1e-12)
        assert statistics.incomplete_beta(3, 1, x) == pytest.approx(x**3, rel=1e-12)
        assert statistics.incomplete_beta(0.5, 0.5, x) == pytest.approx(
            2 / math.pi * math.asin(math.sqrt(x)), rel=1e-10
        )


def test_an_interval_needs_two_values():
    assert (
        statistics.mean_ci95([]) is None
        and statistics.mean_ci95([3.0]) is None
        and statistics.median_ci95([3.0]) is None
    )


def test_the_interval_of_a_known_sample():
    # mean 3, s = sqrt(2.5), n = 5: half width t(0.975, 4) * s / sqrt(5)
    low, high = statistics.mean_ci95([1, 2, 3, 4, 5])
    assert (low, high) == (pytest.approx(3 - 1.96324, abs=1e-4), pytest.approx(3 + 1.96324, abs=1e-4))


def test_the_interval_covers_the_mean_in_95_of_100_samples():
    random = np.random.Generator(np.random.PCG64(7))
    trials = 4000
    inside = sum(
        i.low <= 10.0 <= i.high for i in (statistics.mean_ci95(random.normal(10, 3, 6)) for _ in range(trials))
    )
    # Three standard errors of a binomial share: 3 * sqrt(0.95 * 0.05 / 4000) = 0.0103.
    assert inside / trials == pytest.approx(0.95, abs=0.0104)


def test_the_bootstrap_interval_holds_the_median_and_is_the_same_every_time():
    data = np.random.Generator(np.random.PCG64(3)).exponential(1.0, 200)
    low, high = statistics.median_ci95(data)
    assert low < np.median(data) < high and high - low < 0.5
    assert statistics.median_ci95(data) == (low, high)


def test_wilsons_interval_is_not_empty_at_the_ends():
    # n = 10, no success: the upper end is z^2 / (n + z^2).
    low, high = statistics.proportion_ci95(0, 10)
    assert low == 0 and high == pytest.approx(0.27754, abs=1e-5)
    assert statistics.proportion_ci95(10, 10).high == pytest.approx(1)
    assert statistics.proportion_ci95(0, 0) is None


def test_jains_index():
    assert statistics.jain_index([5, 5, 5]) == pytest.approx(1)
    assert statistics.jain_index([1, 0, 0, 0]) == pytest.approx(0.25)
    for ratio, expected in ((1.5, 0.962), (2, 0.9), (3, 0.8), (10, 0.599)):  # (1 + r)^2 / (2 (1 + r^2))
        assert statistics.jain_index([1, ratio]) == pytest.approx(expected, abs=5e-4)
    with pytest.raises(ValueError):
        statistics.jain_index([0, 0])


def test_the_share_reaches_one_at_the_greatest_value():
    x, share = statistics.cdf([3, 1, 2])
    assert list(x) == [1, 2, 3] and share == pytest.approx([1 / 3, 2 / 3, 1])

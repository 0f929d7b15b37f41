"""The statistics that reports rest on. NumPy only: SciPy is not among what Peerbed installs.

References: Student (1908) for the interval of a mean; Press et al., Numerical Recipes, 6.4 for the incomplete beta
function by Lentz's continued fraction; Efron (1979) for the bootstrap; Jain, Chiu and Hawe (1984), DEC-TR-301, for
the fairness index.
"""

import math
from typing import NamedTuple, Sequence

import numpy as np


class Interval(NamedTuple):
    low: float
    high: float


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"the incomplete beta function did not converge for a={a}, b={b}, x={x}")


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b), the regularised incomplete beta function."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The fraction converges quickly on one side of the mean only; the symmetry gives the other.
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b


def student_t_cdf(t: float, degrees: float) -> float:
    tail = 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))
    return 1.0 - tail if t >= 0 else tail


def student_t_quantile(probability: float, degrees: float) -> float:
    """The t below which a Student variable lies with `probability`; by bisection, as few are asked."""
    if not 0.0 < probability < 1.0 or degrees < 1:
        raise ValueError("a quantile needs a probability inside (0, 1) and at least one degree of freedom")
    if probability < 0.5:
        return -student_t_quantile(1.0 - probability, degrees)
    low, high = 0.0, 2.0
    while student_t_cdf(high, degrees) < probability:
        low, high = high, high * 2.0
    while high - low > 1e-12 * max(1.0, high):
        middle = 0.5 * (low + high)
        if student_t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def mean_ci95(values: Sequence[float]) -> Interval | None:
    """The 95 % interval of the mean by Student's t; None with fewer than two values, as nothing is known then."""
    data = np.asarray(values, dtype=float)
    if data.size < 2:
        return None
    half = student_t_quantile(0.975, data.size - 1) * float(data.std(ddof=1)) / math.sqrt(data.size)
    mean = float(data.mean())
    return Interval(mean - half, mean + half)


def median_ci95(values: Sequence[float], resamples: int = 4000) -> Interval | None:
    """The 95 % percentile bootstrap interval of the median. The generator's seed is fixed: equal data, equal report."""
    data = np.asarray(values, dtype=float)
    if data.size < 2:
        return None
    draws = np.random.Generator(np.random.PCG64(1)).integers(0, data.size, size=(resamples, data.size))
    low, high = np.percentile(np.median(data[draws], axis=1), [2.5, 97.5])
    return Interval(float(low), float(high))


def proportion_ci95(successes: int, trials: int) -> Interval | None:
    """Wilson's score interval (1927): unlike the normal one it is not empty at 0 or 1 and never leaves [0, 1]."""
    if trials == 0:
        return None
    z = 1.959963984540054
    p = successes / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def jain_index(shares: Sequence[float]) -> float:
    """(sum x)^2 / (n sum x^2): 1 for equal shares, 1/n when one has all."""
    data = np.asarray(shares, dtype=float)
    if data.size == 0 or not np.any(data):
        raise ValueError("fairness needs at least one share above zero")
    return float(data.sum() ** 2 / (data.size * np.square(data).sum()))


def cdf(values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted values, and the share of values that are at most each."""
    data = np.sort(np.asarray(values, dtype=float))
    return data, np.arange(1, data.size + 1) / max(1, data.size)

"""Two runs or campaigns side by side: each metric's means, their difference, and whether it can be chance."""

import math

import numpy as np

from analysis.load import Campaign, Run, finite
from analysis.statistics import Interval, student_t_quantile
from analysis.units import readable


def samples(loaded: Run | Campaign) -> dict[str, tuple[str, list]]:
    """{metric: (unit, one value per run)}."""
    runs = loaded.runs if isinstance(loaded, Campaign) else [loaded]
    found: dict[str, tuple[str, list]] = {}
    for run in runs:
        for name, entry in run.metrics.items():
            found.setdefault(name, (entry["unit"], []))[1].append(run.value(name))
    return found


def difference_ci95(first: list[float], second: list[float]) -> Interval | None:
    """Of the difference of two means whose spreads may differ (Welch 1947); None with one value on a side."""
    if len(first) < 2 or len(second) < 2:
        return None
    difference = float(np.mean(second) - np.mean(first))
    a, b = float(np.var(first, ddof=1)) / len(first), float(np.var(second, ddof=1)) / len(second)
    if a + b == 0:
        return Interval(difference, difference)
    degrees = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    half = student_t_quantile(0.975, max(1.0, degrees)) * math.sqrt(a + b)
    return Interval(difference - half, difference + half)


def judge(first: list[float], second: list[float]) -> str:
    interval = difference_ci95(first, second)
    if interval is None:
        return "not enough runs"
    if interval.low <= 0 <= interval.high:
        return "equal" if interval.low == interval.high else "no difference seen"
    return "differs"


def table(first: Run | Campaign, second: Run | Campaign) -> str:
    left, right = samples(first), samples(second)
    rows = [("metric", "A", "B", "B - A", "verdict")]
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            rows.append(
                (name, *("present" if name in side else "absent" for side in (left, right)), "", "only on one side")
            )
            continue
        unit = left[name][0]
        a, b = finite(left[name][1]), finite(right[name][1])
        if not a or not b:
            words = [", ".join(sorted({readable(v) for v in side[name][1]})) for side in (left, right)]
            rows.append((name, *words, "", "equal" if words[0] == words[1] else "differs"))
            continue
        mean_a, mean_b = float(np.mean(a)), float(np.mean(b))
        relative = f" ({100 * (mean_b - mean_a) / abs(mean_a):+.1f} %)" if mean_a else ""
        verdict = "equal" if a == b else judge(a, b)
        rows.append(
            (name, readable(mean_a, unit), readable(mean_b, unit), readable(mean_b - mean_a, unit) + relative, verdict)
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

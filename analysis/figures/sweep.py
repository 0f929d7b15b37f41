"""Each swept number against what it moved: for campaigns that no other figure knows."""

from typing import Iterator

import numpy as np

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run, finite
from analysis.statistics import mean_ci95
from analysis.units import quantity, scale_for

MOST_FIGURES = 6


def _axis(values: list[float]) -> str:
    positive = [v for v in values if v > 0]
    return "log" if len(positive) == len(values) and max(positive) / min(positive) > 30 else "linear"


def _label(key: str, settings: list[str]) -> str:
    units = {str(s).lstrip("+-.0123456789eE ").strip() for s in settings}
    unit = next(iter(units)) if len(units) == 1 else ""
    return f"{key}, {unit}" if unit else key


def draw(campaign: Campaign, key: str, metric: str):
    others = [k for k in campaign.swept if k != key]
    lines: dict[str, dict[float, list[float]]] = {}
    texts: dict[float, str] = {}
    unit = ""
    for point in campaign.points:
        x = quantity(point.settings[key])
        name = ", ".join(f"{k.split('.')[-1]} {point.settings.get(k)}" for k in others)
        values = finite(run.value(metric) for run in point.runs)
        if values:
            texts[x] = str(point.settings[key])
            unit = next(run.metrics[metric]["unit"] for run in point.runs if metric in run.metrics)
            lines.setdefault(name, {}).setdefault(x, []).extend(values)
    largest = max(abs(v) for points in lines.values() for values in points.values() for v in values)
    divisor, unit_name = scale_for(largest, unit)
    with style.applied():
        figure, axes = style.new_figure(6.4, 4.0)
        for index, (name, points) in enumerate(sorted(lines.items())):
            x = sorted(points)
            means = np.array([np.mean(points[v]) for v in x]) / divisor
            intervals = [mean_ci95(points[v]) for v in x]
            half = [(i.high - i.low) / 2 / divisor if i else 0.0 for i in intervals]
            axes.errorbar(
                x,
                means,
                yerr=half,
                label=name or None,
                color=style.colour_of(index),
                marker=style.marker_of(index),
                markersize=5,
                capsize=3,
                elinewidth=1,
            )
        axes.set_xscale(_axis(sorted(texts)))
        if len(texts) <= 12:
            axes.set_xticks(sorted(texts), [texts[v] for v in sorted(texts)])
            axes.minorticks_off()
        axes.set_ylim(
            bottom=0 if all(v >= 0 for points in lines.values() for vs in points.values() for v in vs) else None
        )
        axes.set_xlabel(key)
        axes.set_ylabel(f"{metric}, {unit_name}" if unit_name else metric)
        axes.set_title(f"{metric} against {key.split('.')[-1]}")
        if len(lines) > 1:
            axes.legend()
    return figure


def _moved(campaign: Campaign) -> list[str]:
    """Numeric metrics that differ between points, those of the expectations first."""
    frame = campaign.frame
    if frame.empty:
        return []
    wanted = " ".join(e["expr"] for run in campaign.runs for e in run.expectations)
    names = []
    for name, rows in frame.groupby("metric", sort=True):
        values = rows.assign(value=[v if isinstance(v, (int, float)) else np.nan for v in rows["value"]]).dropna(
            subset=["value"]
        )
        if len(values) == len(rows) and values.groupby("point")["value"].mean().nunique() > 1:
            names.append(name)
    return sorted(names, key=lambda name: (name not in wanted, name))


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Campaign):
        return
    numeric = [
        k
        for k in loaded.swept
        if k in loaded.points[0].settings
        and all(quantity(p.settings.get(k)) is not None for p in loaded.points)
        and len({p.settings[k] for p in loaded.points}) > 1
    ]
    if len(numeric) != 1 or numeric[0].split(".")[-1] == "loss":
        return
    expected = " ".join(e["expr"] for run in loaded.runs for e in run.expectations)
    metrics = [m for m in _moved(loaded) if m in expected][:MOST_FIGURES] or _moved(loaded)[:2]
    for metric in metrics:
        repeats = max(len(p.runs) for p in loaded.points)
        caption = f"{metric} for each value of {numeric[0]}" + (
            f"; means of {repeats} runs, 95 % intervals." if repeats > 1 else "."
        )
        yield Drawing(f"sweep_{metric.replace('.', '_')}", caption, draw(loaded, numeric[0], metric))

"""Rate of a flow against random loss, one line per congestion controller, beside the models of Mathis and Padhye."""

import re
from typing import Iterator

import numpy as np

from analysis import formulas, style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run, finite
from analysis.statistics import mean_ci95
from analysis.units import quantity


def _key(campaign: Campaign, word: str) -> str | None:
    return next((k for k in campaign.swept if k.split(".")[-1] == word), None)


def _goodput_metric(campaign: Campaign) -> str | None:
    names = sorted(
        {
            name
            for run in campaign.runs
            for name in run.metrics
            if name.startswith("flow.") and name.endswith(".goodput")
        }
    )
    return names[0] if names else None


def _round_trip(campaign: Campaign) -> float | None:
    """The base round trip that the models are drawn for: the least that any run's flow saw."""
    seen = [
        run.metrics[name].get("min", run.metrics[name].get("value"))
        for run in campaign.runs
        for name in run.metrics
        if name.startswith("flow.") and name.endswith(("min_rtt", ".rtt"))
    ]
    return min(finite(seen), default=None)


def _segment(campaign: Campaign) -> float:
    """The segment that the scenario's own expectation puts into the models, so that figure and verdict agree."""
    for run in campaign.runs:
        for expectation in run.expectations:
            match = re.search(r"\bmss\s*=\s*([0-9.]+)\s*B\b", expectation["expr"])
            if match:
                return float(match.group(1))
    return formulas.SEGMENT_BYTES


def collect(campaign: Campaign) -> dict[str, list[tuple[float, list[float]]]]:
    """{controller: [(loss, rates of the runs in bit/s)]}, sorted by loss; without controllers there is one line."""
    loss_key, metric = _key(campaign, "loss"), _goodput_metric(campaign)
    controller_key = _key(campaign, "congestion")
    lines: dict[str, dict[float, list[float]]] = {}
    if loss_key is None or metric is None:
        return {}
    for point in campaign.points:
        loss = quantity(point.settings.get(loss_key))
        if loss is None:
            continue
        name = str(point.settings.get(controller_key, "measured")) if controller_key else "measured"
        rates = finite(run.value(metric) for run in point.runs)
        if rates:
            lines.setdefault(name, {}).setdefault(loss, []).extend(rates)
    return {name: sorted(points.items()) for name, points in lines.items()}


def draw(lines: dict[str, list[tuple[float, list[float]]]], round_trip: float | None, segment: float, title: str):
    losses = sorted({loss for points in lines.values() for loss, _ in points if loss > 0})
    has_lossless = any(loss == 0 for points in lines.values() for loss, _ in points)
    # A logarithmic axis has no zero: the lossless point stands apart, to the left of the least loss.
    zero_at = losses[0] / 4
    with style.applied():
        figure, axes = style.new_figure(7.2, 4.6)
        for index, (name, points) in enumerate(sorted(lines.items())):
            x = [loss if loss > 0 else zero_at for loss, _ in points]
            y = np.array([np.mean(rates) for _, rates in points]) / 1e6
            intervals = [mean_ci95(rates) for _, rates in points]
            low = [max(0.0, m - i.low / 1e6) if i else 0.0 for m, i in zip(y, intervals)]
            high = [max(0.0, i.high / 1e6 - m) if i else 0.0 for m, i in zip(y, intervals)]
            # The lower end of an interval may lie below zero, which a logarithmic axis cannot show.
            low = [min(e, 0.95 * m) for e, m in zip(low, y)]
            axes.errorbar(
                x,
                y,
                yerr=[low, high],
                label=name,
                color=style.colour_of(index),
                marker=style.marker_of(index),
                markersize=5,
                capsize=3,
                elinewidth=1,
            )
            if max(len(rates) for _, rates in points) > 1:  # each run by itself, as few runs make wide intervals
                dots = [(at, rate / 1e6) for at, (_, rates) in zip(x, points) for rate in rates]
                axes.plot(
                    *zip(*dots), linestyle="none", marker=".", markersize=4, alpha=0.45, color=style.colour_of(index)
                )
        measured = [np.mean(rates) / 1e6 for points in lines.values() for _, rates in points if np.mean(rates) > 0]
        if round_trip:
            grid = np.geomspace(losses[0], losses[-1], 100)
            axes.plot(
                grid,
                formulas.mathis(grid, round_trip, segment) / 1e6,
                color=style.GREY,
                linestyle="--",
                linewidth=1.2,
                label="Mathis 1997, b = 1",
            )
            axes.plot(
                grid,
                formulas.pftk(grid, round_trip, segment) / 1e6,
                color=style.GREY,
                linestyle=":",
                linewidth=1.6,
                label="Padhye 1998, b = 1, T0 = 1 s",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(min(measured) / 2, max(measured) * 2)
        ticks = ([zero_at] if has_lossless else []) + losses
        axes.set_xticks(ticks, ["0" if t == zero_at and has_lossless else f"{100 * t:g} %" for t in ticks])
        axes.minorticks_off()
        bottom, top = axes.get_ylim()
        rates = [m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5) if bottom <= m * 10.0**e <= top]
        if len(rates) > 8:
            rates = [r for r in rates if f"{r:e}".startswith("1.")]
        axes.set_yticks(rates, [f"{r:g}" for r in rates])
        axes.set_xlabel("loss per packet")
        axes.set_ylabel("goodput, Mbit/s")
        axes.set_title(title)
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda i: labels[i] not in lines)  # what was measured stands first
        axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="lower left")
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Campaign):
        return
    lines = collect(loaded)
    if not lines or len({loss for points in lines.values() for loss, _ in points if loss > 0}) < 2:
        return
    repeats = max(len(rates) for points in lines.values() for _, rates in points)
    round_trip, segment = _round_trip(loaded), _segment(loaded)
    caption = "Mean goodput" + (f" of {repeats} runs with 95 % intervals (Student's t)" if repeats > 1 else "") + "."
    if round_trip:
        caption += f" The models are drawn for the least round trip seen, {1e3 * round_trip:.4g} ms,"
        caption += f" and {segment:g} B segments."
    yield Drawing("goodput_vs_loss", caption, draw(lines, round_trip, segment, "Goodput against loss"))

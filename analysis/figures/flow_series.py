"""A flow over time: its rate, window and data in flight, round trip, and losses, on one time axis."""

import re
from typing import Iterator

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run
from analysis.units import scale_for

_NAME = re.compile(r"flow\.(?P<flow>.+)\.(?P<what>[^.]+)")
# Panel, unit of its values, and the series that may stand in it with their legends. Counters are drawn as differences.
_PANELS = [
    ("rate", "bit/s", {"goodput": "goodput", "rate": "rate", "throughput": "throughput", "pacing_rate": "pacing rate"}),
    ("window", "B", {"cwnd": "congestion window", "in_flight": "in flight", "ssthresh": "slow start threshold"}),
    (
        "round trip",
        "s",
        {
            "rtt": "round trip",
            "smoothed_rtt": "smoothed round trip",
            "srtt": "smoothed round trip",
            "latest_rtt": "latest sample",
            "min_rtt": "least round trip",
        },
    ),
    ("lost packets", "", {"lost": "lost", "losses": "lost", "lost_packets": "lost", "retransmitted": "retransmitted"}),
]
_COUNTERS = {"lost", "losses", "lost_packets", "retransmitted"}
MOST_FLOWS = 4
_NEVER_SET = 1e15  # what stands for "no threshold yet"


def flows_of(run: Run) -> dict[str, list[str]]:
    """{flow: what is known of it}."""
    flows: dict[str, list[str]] = {}
    known = {what for _, _, series in _PANELS for what in series}
    for name in run.series["name"].unique():
        match = _NAME.fullmatch(name)
        if match and match.group("what") in known:
            flows.setdefault(match.group("flow"), []).append(match.group("what"))
    return flows


def draw(run: Run, flow: str, whats: list[str]):
    panels = [(label, unit, {w: text for w, text in series.items() if w in whats}) for label, unit, series in _PANELS]
    panels = [panel for panel in panels if panel[2]]
    with style.applied():
        figure, grid = style.new_figure(7.6, 0.9 + 1.75 * len(panels), rows=len(panels), sharex=True, squeeze=False)
        for axes, (label, unit, series) in zip(grid[:, 0], panels):
            data = {what: run.one_series(f"flow.{flow}.{what}") for what in series}
            values = np.concatenate([frame["value"].to_numpy(dtype=float) for frame in data.values()])
            values = values[(values > 0) & (values < _NEVER_SET)]
            largest, usual = (float(values.max()), float(np.median(values))) if len(values) else (0.0, 0.0)
            # The overshoot of a slow start would press all that follows to the ground.
            logarithmic = label == "window" and usual > 0 and largest / usual > 15
            divisor, unit_name = scale_for(usual if logarithmic else largest, unit)
            for index, (what, frame) in enumerate(data.items()):
                time, value = frame["time_s"].to_numpy(), frame["value"].to_numpy(dtype=float)
                if what in _COUNTERS:
                    axes.vlines(
                        time, 0, np.diff(value, prepend=0.0), color=style.VERMILION, linewidth=1.2, label=series[what]
                    )
                    continue
                shown = np.where(value < _NEVER_SET, value / divisor, np.nan)
                # The threshold lies on the window for most of a flow's life: below it, and thin.
                look = {"color": style.GREY, "linestyle": ":", "linewidth": 1.1, "zorder": 1.5}
                if what != "ssthresh":
                    look = {"color": style.colour_of(index), "linewidth": 1.3}
                axes.step(time, shown, where="post", label=series[what], **look)
            axes.set_ylabel(f"{label}\n{unit_name}" if unit_name else label)
            if logarithmic:
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,g}"))
            else:
                axes.set_ylim(bottom=0)
            if all(what in _COUNTERS for what in series):
                axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
            if len(series) > 1:
                axes.legend(
                    loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(series), borderaxespad=0.1, borderpad=0.1
                )
        grid[-1, 0].set_xlabel("time, s")
        grid[-1, 0].set_xlim(left=float(run.series["time_s"].min()))
        figure.align_ylabels(list(grid[:, 0]))
        grid[0, 0].set_title(f"Flow {flow} over time")
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Run):
        return
    for flow, whats in list(sorted(flows_of(loaded).items()))[:MOST_FLOWS]:
        if len(loaded.one_series(f"flow.{flow}.{whats[0]}")) < 2:
            continue
        yield Drawing(
            f"flow_{re.sub(r'[^A-Za-z0-9_-]', '_', flow)}",
            f"What the sender of flow {flow} saw.",
            draw(loaded, flow, whats),
        )

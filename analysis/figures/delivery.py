"""A flood through a swarm: the share of nodes that it had reached by a time, and over how many hops it came to them."""

from collections import Counter
from typing import Iterator

import numpy as np
from matplotlib.ticker import MaxNLocator

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run
from analysis.statistics import cdf
from analysis.units import scale_for

STARTED, DELIVERED = "flood.started", "flood.delivered"
FEWEST_NODES = 5


def deliveries(run: Run) -> tuple[np.ndarray, list[int]]:
    """(seconds since the flood began, hops) of each first delivery; empty where the events were not kept."""
    began, times, hops = None, [], []
    for event in run.events():
        if event.get("event") == STARTED and "t" in event and began is None:
            began = event["t"]
        elif event.get("event") == DELIVERED and "t" in event and began is not None:
            times.append((event["t"] - began) * 1e-9)
            hops.append(int(event.get("hops", 0)))
    return np.array(times), hops


def _nodes(run: Run) -> int | None:
    counts = [entry["value"] for name, entry in run.metrics.items() if name.endswith(".nodes") and "value" in entry]
    return int(counts[0]) if len(counts) == 1 else None


def draw_share(times: np.ndarray, receivers: int, title: str):
    divisor, unit = scale_for(float(times.max()), "s")
    with style.applied():
        figure, axes = style.new_figure(6.8, 4.0)
        x, share = cdf(times / divisor)
        share = share * len(x) / receivers
        axes.step(np.concatenate([[0.0], x]), np.concatenate([[0.0], share]), where="post", color=style.BLUE)
        for level in (0.5, 0.9, 0.99):
            if share[-1] >= level:
                at = x[np.searchsorted(share, level)]
                axes.plot([at, at], [0, level], color=style.GREY, linewidth=0.8, linestyle=":")
                axes.annotate(
                    f"{100 * level:g} %: {at:.4g} {unit}",
                    (at, level),
                    xytext=(6, -12),
                    textcoords="offset points",
                    fontsize=8.5,
                    color="#333333",
                )
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.03)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.set_xlabel(f"time since the start, {unit}")
        axes.set_ylabel("share of nodes reached")
        axes.set_title(title)
    return figure


def draw_hops(hops: list[int], title: str):
    counts = Counter(hops)
    with style.applied():
        figure, axes = style.new_figure(6.8, 3.2)
        axes.bar(list(counts), list(counts.values()), width=0.75, color=style.BLUE)
        axes.set_xticks(range(min(counts), max(counts) + 1))
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="x", visible=False)
        axes.set_xlabel("hops from the origin")
        axes.set_ylabel("nodes")
        axes.set_title(title)
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Run):
        return
    times, hops = deliveries(loaded)
    if len(times) < FEWEST_NODES:
        return
    receivers = max((_nodes(loaded) or 0) - 1, len(times))
    yield Drawing(
        "delivery",
        f"{len(times)} of {receivers} nodes received it; each counts when its first copy arrived.",
        draw_share(times, receivers, "How the message spread"),
    )
    yield Drawing("hops", "Hops that the first copy took to each node.", draw_hops(hops, "Over how many hops"))

"""The share that was reached by a time: messages delivered, peers joined, pieces complete. One curve per name."""

from typing import Iterator

import numpy as np

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run
from analysis.statistics import cdf
from analysis.units import scale_for

# Series whose points are the samples themselves: `value` is how long it took.
_SAMPLES = (".latency", ".delivery", ".delivery_time", ".join_time")
FEWEST_SAMPLES = 5


def samples_of(run: Run) -> dict[str, np.ndarray]:
    found = {}
    for name, rows in run.series.groupby("name", sort=True):
        if name.endswith(_SAMPLES) and len(rows) >= FEWEST_SAMPLES:
            found[name] = rows["value"].to_numpy(dtype=float)
    return found


def draw(samples: dict[str, np.ndarray], title: str):
    largest = max(float(np.max(values)) for values in samples.values())
    smallest = min(float(np.min(values)) for values in samples.values())
    divisor, unit = scale_for(largest, "s")
    with style.applied():
        figure, axes = style.new_figure(6.8, 4.0)
        for index, (name, values) in enumerate(sorted(samples.items())):
            x, share = cdf(values / divisor)
            axes.step(np.concatenate([x[:1], x]), np.concatenate([[0.0], share]), where="post", color=style.colour_of(index),
                      label=f"{name}  (n = {len(x)})")
        if smallest > 0 and largest / smallest > 30:
            axes.set_xscale("log")
        else:
            axes.set_xlim(left=0)
        axes.set_ylim(0, 1.02)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 0.9, 1.0], ["0 %", "25 %", "50 %", "75 %", "90 %", "100 %"])
        axes.set_xlabel(f"time, {unit}")
        axes.set_ylabel("share at most")
        axes.set_title(title)
        axes.legend(loc="lower right")
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Run):
        return
    samples = samples_of(loaded)
    if samples:
        yield Drawing("delivery", "Share of the samples that took at most the time below; n is their number.",
                      draw(samples, "Delivered within"))

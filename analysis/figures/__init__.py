"""One module per figure. Each has `drawings(loaded)`, which yields what it can draw of a run or campaign, or nothing.

A new figure is a module here and its name in MODULES.
"""

import importlib
from typing import Iterator

from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run

MODULES = ["punch_matrix", "goodput_vs_loss", "sweep", "flow_series", "latency", "delivery"]


def all_drawings(loaded: Run | Campaign, only: list[str] | None = None) -> Iterator[Drawing]:
    """The caller closes each figure when it is saved; they are large."""
    for name in MODULES:
        if only is None or name in only:
            yield from importlib.import_module(f"analysis.figures.{name}").drawings(loaded)

"""A figure with the name of its file and the sentence that stands below it."""

from typing import NamedTuple

from matplotlib.figure import Figure


class Drawing(NamedTuple):
    name: str
    caption: str
    figure: Figure

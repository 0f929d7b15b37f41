"""One look for all figures: colours of Okabe and Ito (2008), which readers of every colour vision tell apart."""

from contextlib import contextmanager

import matplotlib

matplotlib.use("Agg")  # no display is needed or looked for

import matplotlib.pyplot as pyplot  # noqa: E402  (the backend is chosen first)

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
CYCLE = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY]
MARKERS = ["o", "s", "^", "D", "v", "P"]
GREY = "#6b6b6b"

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": matplotlib.cycler(color=CYCLE),
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "figure.facecolor": "white",
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.12,
    # Equal data give equal files.
    "svg.hashsalt": "peerbed",
    "svg.fonttype": "path",
}


@contextmanager
def applied():
    with matplotlib.rc_context(_SETTINGS):
        yield


def colour_of(index: int) -> str:
    return CYCLE[index % len(CYCLE)]


def marker_of(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def new_figure(width: float, height: float, rows: int = 1, **options):
    return pyplot.subplots(rows, 1, figsize=(width, height), layout="constrained", **options)


def close(figure) -> None:
    pyplot.close(figure)


def legend_under_title(axes, handles) -> None:
    """In a row between title and plot, where it covers nothing."""
    axes.set_title(axes.get_title(loc="left"), pad=26)
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=len(handles),
        borderaxespad=0.3,
        handletextpad=0.5,
        columnspacing=1.4,
        borderpad=0.0,
    )

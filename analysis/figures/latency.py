"""How long things took: every distribution of times of a run, from its least to its greatest value, on one axis."""

from typing import Iterator

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run
from analysis.units import readable

FEWEST_SAMPLES = 5
MOST_ROWS = 24


def rows_of(run: Run) -> list[tuple[str, dict]]:
    rows = [
        (name, entry)
        for name, entry in sorted(run.metrics.items())
        if entry["unit"] == "s" and entry.get("count", 0) >= FEWEST_SAMPLES and entry["max"] > 0
    ]
    # The largest samples say most when there are too many rows.
    chosen = sorted(rows, key=lambda row: (-row[1]["count"], row[0]))[:MOST_ROWS]
    return [row for row in rows if row in chosen]


def draw(rows: list[tuple[str, dict]], title: str):
    positive = [entry[key] for _, entry in rows for key in ("min", "p50", "max") if entry[key] > 0]
    least = min(positive)
    logarithmic = max(positive) / least > 20
    with style.applied():
        figure, axes = style.new_figure(7.4, 1.5 + 0.42 * len(rows))
        for y, (name, entry) in enumerate(reversed(rows)):
            at = {
                key: max(entry[key], least) if logarithmic else entry[key]
                for key in ("min", "p50", "p90", "p99", "max")
            }
            axes.plot([at["min"], at["max"]], [y, y], color="#9a9a9a", linewidth=1.2, solid_capstyle="butt")
            axes.plot([at["p50"], at["p90"]], [y, y], color=style.BLUE, linewidth=6, alpha=0.35, solid_capstyle="butt")
            for key, marker, colour in (
                ("p50", "o", style.BLUE),
                ("p90", "s", style.GREEN),
                ("p99", "D", style.VERMILION),
            ):
                axes.plot(at[key], y, marker=marker, color=colour, markersize=6, linestyle="none")
        axes.set_yticks(range(len(rows)), [f"{name}  (n = {entry['count']})" for name, entry in reversed(rows)])
        axes.set_ylim(-0.7, len(rows) - 0.3)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        if logarithmic:
            axes.set_xscale("log")
            decades = max(positive) / least
            axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0,) if decades > 300 else (1.0, 2.0, 5.0)))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value, "s")))
        axes.set_title(title)
        handles = [
            Line2D([], [], marker=m, color=c, linestyle="none", markersize=6, label=text)
            for text, m, c in (("median", "o", style.BLUE), ("90 %", "s", style.GREEN), ("99 %", "D", style.VERMILION))
        ]
        handles.append(Line2D([], [], color="#9a9a9a", linewidth=1.2, label="least to greatest"))
        style.legend_under_title(axes, handles)
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Run):
        return
    rows = rows_of(loaded)
    if rows:
        yield Drawing(
            "latency", "Distributions of times, with the number of samples of each.", draw(rows, "How long it took")
        )

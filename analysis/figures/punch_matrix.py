"""Which pairs of NATs connect directly, and which fall back to the relay: a cell for each pair of RFC 4787 classes."""

import re
from typing import Iterator

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Patch, Rectangle

from analysis import style
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Run

_MAPPING = {"eim": 0, "adm": 1, "apdm": 2}
_FILTERING = {"eif": 0, "adf": 1, "apdf": 2}
_CLASS = re.compile(r"(eim|adm|apdm)/(eif|adf|apdf)", re.IGNORECASE)
_RELAYED, _DIRECT = style.ORANGE, style.BLUE
OUTCOME = "punch.outcome"


def _order(name: str) -> tuple:
    match = _CLASS.fullmatch(name)
    if not match:
        return (9, 9, name)
    return (_MAPPING[match.group(1).lower()], _FILTERING[match.group(2).lower()], name)


def _axes_of(campaign: Campaign) -> tuple[str, str] | None:
    """The two swept keys that name NATs."""
    keys = [
        k
        for k in campaign.swept
        if re.search(r"(^|[._])nat($|[._])", k)
        or all(_CLASS.fullmatch(str(p.settings.get(k, ""))) for p in campaign.points)
    ]
    return (keys[0], keys[1]) if len(keys) == 2 else None


def _axis_label(key: str) -> str:
    match = re.fullmatch(r"(?:nodes\.)?(\w+)\.nat", key)
    return f"NAT of {match.group(1)}" if match else key


def _outcomes(campaign: Campaign, keys: tuple[str, str]) -> dict[tuple[str, str], list[str]]:
    cells: dict[tuple[str, str], list[str]] = {}
    for point in campaign.points:
        cell = cells.setdefault((str(point.settings[keys[0]]), str(point.settings[keys[1]])), [])
        cell += [str(run.value(OUTCOME)) for run in point.runs if run.value(OUTCOME) is not None]
    return cells


def draw(cells: dict[tuple[str, str], list[str]], title: str, labels: tuple[str, str]):
    """`cells` maps (row class, column class) to the outcomes of the runs of that pair."""
    rows = sorted({a for a, _ in cells}, key=_order)
    columns = sorted({b for _, b in cells}, key=_order)
    share = np.full((len(rows), len(columns)), np.nan)
    text = [["" for _ in columns] for _ in rows]
    for (a, b), outcomes in cells.items():
        if not outcomes:
            continue
        i, j = rows.index(a), columns.index(b)
        direct = sum(o == "direct" for o in outcomes)
        relayed = sum(o == "relayed" for o in outcomes)
        share[i, j] = direct / len(outcomes)
        if direct == len(outcomes):
            text[i][j] = "direct"
        elif relayed == len(outcomes):
            text[i][j] = "relay"
        elif direct + relayed == 0:
            text[i][j] = outcomes[0]
            share[i, j] = np.nan
        else:
            text[i][j] = f"{direct}/{len(outcomes)}"
    with style.applied():
        figure, axes = style.new_figure(1.9 + 0.72 * len(columns), 1.7 + 0.5 * len(rows))
        colours = LinearSegmentedColormap.from_list("relay-direct", [_RELAYED, "#e9e4d8", _DIRECT])
        colours.set_bad("#d0d0d0")
        axes.imshow(np.ma.masked_invalid(share), cmap=colours, vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(
            range(len(columns)), [c.upper() for c in columns], rotation=40, ha="right", rotation_mode="anchor"
        )
        axes.set_yticks(range(len(rows)), [r.upper() for r in rows])
        axes.tick_params(length=0)
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        for i in range(len(rows)):
            for j in range(len(columns)):
                axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="white", linewidth=1.5))
                light = np.isnan(share[i, j]) or share[i, j] < 0.75
                axes.text(
                    j, i, text[i][j], ha="center", va="center", fontsize=8.5, color="#1a1a1a" if light else "white"
                )
        # A thicker line where the mapping class changes, so that the three by three blocks are seen.
        for names, horizontal in ((rows, True), (columns, False)):
            for k in range(1, len(names)):
                if _order(names[k])[0] != _order(names[k - 1])[0]:
                    (axes.axhline if horizontal else axes.axvline)(k - 0.5, color="#333333", linewidth=1.4)
        axes.set_ylabel(labels[0])
        axes.set_xlabel(labels[1])
        axes.set_title(title)
        used = {word for row in text for word in row}
        handles = [Patch(color=_DIRECT, label="direct"), Patch(color=_RELAYED, label="relay")]
        if any(word not in ("direct", "relay", "") and "/" not in word for word in used):
            handles.append(Patch(color="#d0d0d0", label="no connection"))
        style.legend_under_title(axes, handles)
    return figure


def drawings(loaded: Run | Campaign) -> Iterator[Drawing]:
    if not isinstance(loaded, Campaign):
        return
    keys = _axes_of(loaded)
    if keys is None:
        return
    cells = _outcomes(loaded, keys)
    if not any(cells.values()):
        return
    outcomes = [o for cell in cells.values() for o in cell]
    direct = sum(o == "direct" for o in outcomes)
    yield Drawing(
        "punch_matrix",
        f"{direct} of {len(outcomes)} runs ended with a direct connection."
        " Mapping (EIM, ADM, APDM) and filtering (EIF, ADF, APDF)"
        " in the words of RFC 4787: endpoint independent, address dependent, address and port dependent.",
        draw(cells, "Who connects to whom through which NATs", (_axis_label(keys[0]), _axis_label(keys[1]))),
    )

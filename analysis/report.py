"""A run's or campaign's folder as one page that needs nothing else: report.html, and its figures as files in plots/."""

import base64
import io
import re
import shlex
from pathlib import Path

import jinja2

from analysis import style
from analysis.figures import all_drawings
from analysis.figures.drawing import Drawing
from analysis.load import Campaign, Point, Run, finite
from analysis.statistics import mean_ci95
from analysis.units import plain, readable

_TEMPLATES = Path(__file__).parent / "templates"
MOST_COLUMNS = 6
# What a reader of a table of points looks for first.
_TELLING = (".goodput", ".outcome", ".latency", ".time", ".rate")
# A drawing of many thousand segments is larger as SVG than as pixels.
_LARGEST_SVG = 300_000

_ENGINE_ROWS = [
    ("nodes", "nodes", ""),
    ("events", "events", ""),
    ("packets", "packets", ""),
    ("sim_s", "time in the network", "s"),
    ("wall_s", "time on the wall", "s"),
    ("cpu_s", "processor time", "s"),
    ("peak_rss_bytes", "memory at its peak", "B"),
    ("bytes_per_node", "memory per node", "B"),
    ("events_per_cpu_s", "events per processor second", ""),
    ("packets_per_cpu_s", "packets per processor second", ""),
    ("version", "version", ""),
    ("compiler", "compiler", ""),
]


def save(drawing: Drawing, folder: Path) -> dict:
    """Writes NAME.png and NAME.svg; returns what the page needs to show it."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    with style.applied():
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            drawing.figure.savefig(buffer, format=kind, metadata=metadata)
            images[kind] = buffer.getvalue()
            (folder / f"{drawing.name}.{kind}").write_bytes(images[kind])
        style.close(drawing.figure)
    kind, mime = ("svg", "image/svg+xml") if len(images["svg"]) < _LARGEST_SVG else ("png", "image/png")
    return {
        "name": drawing.name,
        "caption": drawing.caption,
        "data": f"data:{mime};base64,{base64.b64encode(images[kind]).decode('ascii')}",
    }


def _metric_rows(run: Run) -> list[dict]:
    rows = []
    for name, entry in sorted(run.metrics.items()):
        unit = entry["unit"]
        if ".drops." in name and entry.get("value") == 0:
            continue  # a reason for which nothing was dropped
        if "value" in entry:
            rows.append({"name": name, "value": readable(entry["value"], unit), "spread": ""})
        else:
            rows.append(
                {
                    "name": name,
                    "value": readable(entry["p50"], unit),
                    "spread": f"n {entry['count']}, mean {readable(entry['mean'], unit)},"
                    f" {readable(entry['min'], unit)} to"
                    f" {readable(entry['max'], unit)}, p90 {readable(entry['p90'], unit)},"
                    f" p99 {readable(entry['p99'], unit)}",
                }
            )
    return rows


def _engine_rows(engine: dict) -> list[tuple[str, str]]:
    rows = [
        (label, readable(engine[key], unit)) for key, label, unit in _ENGINE_ROWS if engine.get(key) not in (None, "")
    ]
    if engine.get("wall_s") and engine.get("sim_s"):
        rows.append(("network seconds per wall second", readable(engine["sim_s"] / engine["wall_s"])))
    known = {key for key, _, _ in _ENGINE_ROWS}
    rows += [
        (key.replace("_", " "), readable(value))
        for key, value in sorted(engine.items())
        if key not in known and isinstance(value, (int, float, str))
    ]
    return rows


def _unit_of(expression: str, metrics: dict[str, dict]) -> str:
    """Of the measured side: the unit of the longest metric name that the expression holds."""
    words = set(re.findall(r"[A-Za-z_][\w.-]*", expression))
    words |= {word.rsplit(".", 1)[0] for word in words}
    named = sorted((name for name in metrics if name in words), key=lambda name: (-len(name), name))
    return metrics[named[0]]["unit"] if named else ""


def _expectation_rows(run: Run) -> list[dict]:
    rows = []
    for entry in run.expectations:
        unit = _unit_of(entry["expr"], run.metrics)
        value, bound = entry.get("value"), entry.get("bound")
        if re.search(r"[!=]=\s*(?:true|false)\s*$", entry["expr"]):
            value, bound = ({0: "false", 1: "true"}.get(side, side) for side in (value, bound))
        rows.append(
            {
                "expr": entry["expr"],
                "value": readable(value, unit),
                "bound": readable(bound, unit),
                "note": entry.get("reason") or entry.get("from") or "",
                "ok": entry["ok"],
            }
        )
    return rows


def _cell(point: Point, metric: str) -> tuple[str, str]:
    """(mean, interval) of a number over the runs of a point; of a text the words, and how often each."""
    runs = [run for run in point.runs if metric in run.metrics]
    if not runs:
        return "–", ""
    unit = runs[0].metrics[metric]["unit"]
    values = [run.value(metric) for run in runs]
    numbers = finite(values)
    if len(numbers) < len(values):
        words = sorted({readable(v) for v in values})
        if len(words) == 1:
            return words[0], ""
        return ", ".join(f"{w} {sum(readable(v) == w for v in values)}/{len(values)}" for w in words), ""
    if unit == "" and len(set(numbers)) == 2 and set(numbers) == {0.0, 1.0}:
        return f"{sum(numbers):g} of {len(numbers)}", ""
    mean, interval = sum(numbers) / len(numbers), mean_ci95(numbers)
    if interval is None or interval.low == interval.high:
        return readable(mean, unit), ""
    return readable(mean, unit), f"{plain(interval.low, mean, unit)} … {plain(interval.high, mean, unit)}"


def _columns_of(campaign: Campaign) -> list[str]:
    """The metrics worth a column: those that expectations name, then those that differ between the points."""
    names = sorted({name for run in campaign.runs for name in run.metrics})
    words = {
        word for run in campaign.runs for e in run.expectations for word in re.findall(r"[A-Za-z_][\w.-]*", e["expr"])
    }
    words |= {word.rsplit(".", 1)[0] for word in words}
    expected = {name for name in names if name in words}
    varying = [n for n in names if n not in expected and len({str(run.value(n)) for run in campaign.runs}) > 1]
    varying.sort(key=lambda name: (not name.endswith(_TELLING), name))
    chosen = sorted(expected) + varying[: max(0, min(MOST_COLUMNS, 3) - len(expected))]
    return chosen[:MOST_COLUMNS]


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _run_page(run: Run, figures: list[dict]) -> str:
    results = run.results
    return (
        _environment()
        .get_template("run.html")
        .render(
            title=run.title,
            verdict=run.verdict,
            figures=figures,
            expectations=_expectation_rows(run),
            metrics=_metric_rows(run),
            engine=_engine_rows(run.engine),
            inputs=run.inputs,
            replay=f"./peerbed replay {shlex.quote(str(run.folder))}",
            facts=[
                ("scenario", run.scenario),
                ("backend", results["backend"]),
                ("seed", str(results["seed"])),
                *((key, str(value)) for key, value in results.get("set", {}).items()),
                ("digest", str(results.get("digest", "–"))),
            ],
            reason=results.get("invalid_reason", ""),
            not_emulated=results.get("not_emulated", []),
        )
    )


def _failures_of(point: Point) -> list[dict]:
    where = ", ".join(f"{k} = {v}" for k, v in point.settings.items())
    rows = [
        {
            "where": where,
            "seed": run.results["seed"],
            "broken": [e for e in _expectation_rows(run) if not e["ok"]],
            "reason": run.results.get("invalid_reason", ""),
            "replay": f"./peerbed replay {shlex.quote(str(run.folder))}",
        }
        for run in point.runs
        if run.verdict != "pass"
    ]
    if not rows:  # runs that ended without a result have no folder, only a sentence
        rows = [{"where": where, "seed": "", "broken": [], "reason": said, "replay": ""} for said in point.failed]
    return rows


def _campaign_page(campaign: Campaign, figures: list[dict]) -> str:
    columns = _columns_of(campaign)
    rows = [
        {
            "settings": [str(point.settings.get(key, "–")) for key in campaign.swept],
            "verdict": point.verdict,
            "runs": len(point.runs),
            "cells": [_cell(point, metric) for metric in columns],
        }
        for point in campaign.points
    ]
    failures = [failure for point in campaign.points for failure in _failures_of(point)]
    runs = campaign.runs
    totals: dict = {}
    for run in runs:
        for key in ("events", "packets", "sim_s", "wall_s", "cpu_s"):
            if isinstance(run.engine.get(key), (int, float)):
                totals[key] = totals.get(key, 0) + run.engine[key]
    totals.update({k: runs[0].engine[k] for k in ("version", "compiler") if runs and runs[0].engine.get(k)})
    if peaks := finite(run.engine.get("peak_rss_bytes") for run in runs):
        totals["peak_rss_bytes"] = max(peaks)
    return (
        _environment()
        .get_template("campaign.html")
        .render(
            title=campaign.title,
            verdict=campaign.verdict,
            figures=figures,
            swept=campaign.swept,
            columns=columns,
            rows=rows,
            failures=failures,
            engine=_engine_rows(totals),
            inputs=(campaign.folder / "inputs.yaml").read_text(encoding="utf-8")
            if (campaign.folder / "inputs.yaml").is_file()
            else (runs[0].inputs if runs else ""),
            facts=[
                ("scenario", campaign.scenario),
                ("backend", runs[0].results["backend"] if runs else "–"),
                ("points", str(len(campaign.points))),
                ("runs", str(len(runs))),
            ],
        )
    )


def plot(loaded: Run | Campaign, folder: Path, only: list[str] | None = None) -> list[dict]:
    return [save(drawing, folder) for drawing in all_drawings(loaded, only)]


def write(loaded: Run | Campaign) -> Path:
    figures = plot(loaded, loaded.folder / "plots")
    page = _run_page(loaded, figures) if isinstance(loaded, Run) else _campaign_page(loaded, figures)
    path = loaded.folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path

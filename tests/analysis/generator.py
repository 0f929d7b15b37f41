"""Folders of the shape that the program writes, made up for tests of the analysis. Nothing in them was measured."""

import json
from pathlib import Path

import numpy as np


def distribution(unit: str, samples) -> dict:
    data = np.sort(np.asarray(samples, dtype=float))
    p50, p90, p99 = np.percentile(data, [50, 90, 99])
    return {
        "unit": unit,
        "count": int(data.size),
        "mean": float(data.mean()),
        "min": float(data[0]),
        "p50": float(p50),
        "p90": float(p90),
        "p99": float(p99),
        "max": float(data[-1]),
    }


def results(metrics: dict, **changes) -> dict:
    return {
        "schema": "peerbed.results/1",
        "scenario": "made-up",
        "backend": "sim",
        "seed": 1,
        "verdict": "pass",
        "digest": "00112233445566778899aabbccddeeff",
        "expectations": [],
        "metrics": metrics,
        "engine": {
            "events": 1000,
            "packets": 400,
            "sim_s": 60.0,
            "wall_s": 0.5,
            "cpu_s": 0.5,
            "peak_rss_bytes": 9_000_000,
            "version": "0.1.0",
            "compiler": "g++ 12",
        },
        **changes,
    }


def write_run(
    folder: Path, content: dict, series: list[tuple[float, str, float]] | None = None, inputs: str = "title: made up\n"
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "inputs.yaml").write_text(inputs, encoding="utf-8")
    if series is not None:
        rows = ["time_s,name,value", *(f"{t},{name},{value}" for t, name, value in series)]
        (folder / "series.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def write_campaign(folder: Path, points: list[tuple[dict, list[dict]]]) -> Path:
    """`points`: swept settings and the results of the runs at them."""
    entries, worst = [], "pass"
    for index, (settings, runs) in enumerate(points):
        names = []
        for content in runs:
            name = f"points/{index}/{content['seed']}"
            write_run(folder / name, content)
            names.append(name)
        verdict = "pass" if all(content["verdict"] == "pass" for content in runs) else "fail"
        worst = verdict if verdict != "pass" else worst
        entries.append({"set": settings, "runs": names, "verdict": verdict, "metrics": {}})
    (folder / "results.json").write_text(
        json.dumps({"schema": "peerbed.campaign/1", "verdict": worst, "points": entries}), encoding="utf-8"
    )
    return folder


def sawtooth(flow: str, seconds: float = 20.0, step: float = 0.05) -> list[tuple[float, str, float]]:
    """An additive-increase flow that halves at a full queue."""
    rows, window, lost = [], 20_000.0, 0
    for t in np.arange(0.0, seconds, step):
        if window > 180_000.0:
            window, lost = window / 2, lost + 1
        window += 1200.0
        queue = max(0.0, window - 120_000.0)
        rows += [
            (float(t), f"flow.{flow}.cwnd", window),
            (float(t), f"flow.{flow}.in_flight", min(window, 118_000.0 + queue)),
            (float(t), f"flow.{flow}.smoothed_rtt", 0.1 + queue / 1.2e6),
            (float(t), f"flow.{flow}.lost", lost),
        ]
    return rows

"""Run and campaign folders as objects and pandas frames. What is wrong with a folder is said in one sentence."""

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Iterator

import pandas

RUN_SCHEMA = "peerbed.results/1"
CAMPAIGN_SCHEMA = "peerbed.campaign/1"
VERDICTS = ("pass", "fail", "invalid")
SUMMARY_KEYS = ("count", "mean", "min", "p50", "p90", "p99", "max")


class InputError(Exception):
    """The folder is not what it should be; the message is one sentence for the operator."""


def _require(condition: bool, where: Path, sentence: str) -> None:
    if not condition:
        raise InputError(f"{where}: {sentence}")


def _number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Run:
    folder: Path
    results: dict

    @property
    def title(self) -> str:
        return self.results.get("title") or self.results["scenario"]

    @property
    def scenario(self) -> str:
        return self.results["scenario"]

    @property
    def verdict(self) -> str:
        return self.results["verdict"]

    @property
    def expectations(self) -> list[dict]:
        return self.results["expectations"]

    @property
    def metrics(self) -> dict[str, dict]:
        return self.results["metrics"]

    @property
    def engine(self) -> dict:
        return self.results.get("engine", {})

    def value(self, metric: str):
        """A plain metric's value, a distribution's median, or None."""
        entry = self.metrics.get(metric)
        return None if entry is None else entry.get("value", entry.get("p50"))

    @cached_property
    def inputs(self) -> str:
        path = self.folder / "inputs.yaml"
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    @cached_property
    def series(self) -> pandas.DataFrame:
        """Long form: time_s, name, value. Empty where the run wrote none."""
        path = self.folder / "series.csv"
        columns = ["time_s", "name", "value"]
        if not path.is_file():
            return pandas.DataFrame({"time_s": [], "name": [], "value": []})
        try:
            frame = pandas.read_csv(path, dtype={"name": str})
        except (ValueError, pandas.errors.ParserError) as error:
            raise InputError(f"{path}: this is not a table: {error}") from error
        _require(
            list(frame.columns) == columns,
            path,
            f"the columns are {','.join(frame.columns)} and should be {','.join(columns)}",
        )
        for column in ("time_s", "value"):
            _require(
                frame.empty or pandas.api.types.is_numeric_dtype(frame[column]),
                path,
                f"the column {column} holds something that is no number",
            )
        return frame

    def one_series(self, name: str) -> pandas.DataFrame:
        frame = self.series
        return frame[frame["name"] == name].sort_values("time_s", kind="stable")

    def events(self) -> Iterator[dict]:
        path = self.folder / "events.jsonl"
        if not path.is_file():
            return
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    raise InputError(f"{path}: line {number} is not JSON: {error.msg}") from error


@dataclass(frozen=True)
class Point:
    """One combination of swept values with its repeated runs."""

    settings: dict
    verdict: str
    metrics: dict[str, dict]
    runs: list[Run] = field(repr=False)
    failed: list[str] = field(default_factory=list)  # sentences of the program


@dataclass(frozen=True)
class Campaign:
    folder: Path
    results: dict
    points: list[Point]

    @property
    def title(self) -> str:
        named = self.results.get("title") or self.results.get("scenario")
        return named or (self.points[0].runs[0].title if self.points and self.points[0].runs else self.folder.name)

    @property
    def scenario(self) -> str:
        return self.results.get("scenario") or (self.runs[0].scenario if self.runs else self.folder.name)

    @property
    def verdict(self) -> str:
        return self.results["verdict"]

    @property
    def runs(self) -> list[Run]:
        return [run for point in self.points for run in point.runs]

    @cached_property
    def swept(self) -> list[str]:
        """The keys that differ from point to point, in the order of the file."""
        keys = list(dict.fromkeys(key for point in self.points for key in point.settings))
        return [k for k in keys if len({str(p.settings.get(k)) for p in self.points}) > 1] or keys

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per run and metric: the swept settings, seed, verdict, unit and value (a distribution's median)."""
        rows = []
        for index, point in enumerate(self.points):
            for run in point.runs:
                for name, entry in run.metrics.items():
                    rows.append(
                        {
                            **point.settings,
                            "point": index,
                            "seed": run.results["seed"],
                            "verdict": run.verdict,
                            "metric": name,
                            "unit": entry["unit"],
                            "value": entry.get("value", entry.get("p50")),
                        }
                    )
        return pandas.DataFrame(rows)


def _read_json(path: Path) -> dict:
    if not path.parent.is_dir():
        raise InputError(f"{path.parent}: there is no such folder")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent}: there is no results.json, so this is no run folder") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: this is not JSON: {error}") from error
    _require(isinstance(value, dict), path, "the file does not hold an object")
    return value


def _check_common(path: Path, results: dict, *keys_and_types) -> None:
    for key, types in keys_and_types:
        _require(key in results, path, f"the key '{key}' is missing")
        _require(isinstance(results[key], types), path, f"the value of '{key}' has the wrong type")
    _require(
        results["verdict"] in VERDICTS, path, f"the verdict '{results['verdict']}' is none of {', '.join(VERDICTS)}"
    )


def _check_metrics(path: Path, metrics: dict) -> None:
    for name, entry in metrics.items():
        _require(
            isinstance(entry, dict) and isinstance(entry.get("unit"), str), path, f"the metric '{name}' has no unit"
        )
        if "value" in entry:
            _require(
                _number(entry["value"]) or isinstance(entry["value"], (str, bool)) or entry["value"] is None,
                path,
                f"the value of metric '{name}' is neither a number nor a text",
            )
        else:
            missing = [key for key in SUMMARY_KEYS if not _number(entry.get(key))]
            _require(
                not missing,
                path,
                f"the metric '{name}' has neither a value nor all of a distribution: {', '.join(missing)} missing",
            )


def _run_from(folder: Path, results: dict) -> Run:
    path = folder / "results.json"
    _check_common(
        path,
        results,
        ("scenario", str),
        ("backend", str),
        ("seed", int),
        ("verdict", str),
        ("expectations", list),
        ("metrics", dict),
    )
    for entry in results["expectations"]:
        _require(
            isinstance(entry, dict) and isinstance(entry.get("expr"), str) and isinstance(entry.get("ok"), bool),
            path,
            "an expectation lacks its 'expr' or 'ok'",
        )
    _check_metrics(path, results["metrics"])
    return Run(folder, results)


def _run_folder(campaign: Path, name: str) -> Path:
    """Runs are named relative to the campaign's folder, so that it can be moved."""
    path = Path(name)
    return path if path.is_absolute() else campaign / path


def _campaign_from(folder: Path, results: dict) -> Campaign:
    path = folder / "results.json"
    _check_common(path, results, ("verdict", str), ("points", list))
    points = []
    for number, entry in enumerate(results["points"]):
        _require(isinstance(entry, dict), path, f"point {number} is no object")
        for key, types in (("set", dict), ("runs", list), ("verdict", str), ("metrics", dict)):
            _require(isinstance(entry.get(key), types), path, f"point {number} lacks '{key}' or it has the wrong type")
        runs = [load_run(_run_folder(folder, name)) for name in entry["runs"]]
        points.append(Point(entry["set"], entry["verdict"], entry["metrics"], runs, entry.get("failed", [])))
    _require(bool(points), path, "the campaign has no points")
    return Campaign(folder, results, points)


def load(folder: str | Path) -> Run | Campaign:
    folder = Path(folder)
    results = _read_json(folder / "results.json")
    schema = results.get("schema")
    if schema == RUN_SCHEMA:
        return _run_from(folder, results)
    if schema == CAMPAIGN_SCHEMA:
        return _campaign_from(folder, results)
    raise InputError(
        f"{folder / 'results.json'}: the schema is {schema!r} and should be '{RUN_SCHEMA}' or '{CAMPAIGN_SCHEMA}'"
    )


def load_run(folder: str | Path) -> Run:
    loaded = load(folder)
    if not isinstance(loaded, Run):
        raise InputError(f"{folder}: this is a campaign's folder where a run's is needed")
    return loaded


def finite(values) -> list[float]:
    """The numbers among `values`, in order."""
    return [float(v) for v in values if _number(v) and math.isfinite(v)]

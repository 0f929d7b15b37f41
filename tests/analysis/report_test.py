import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis import compare, report
from analysis.load import load
from tests.analysis.generator import distribution, results, sawtooth, write_campaign, write_run

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    VOID = {"meta", "img", "br", "link"}

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.references, self.words = [], [], [], []
        self.feed(text)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        self.references += [value for key, value in attributes if key in ("src", "href", "srcset", "data", "action")]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)


@pytest.fixture
def run_folder(tmp_path):
    metrics = {
        "connect.time": distribution("s", [0.1 + 0.01 * i for i in range(20)]),
        "flow.bulk.goodput": {"unit": "bit/s", "value": 9.3e6},
        "punch.outcome": {"unit": "", "value": "<relayed>"},
    }
    expectations = [
        {"expr": "connect.time.p99 < 3 s", "value": 0.29, "bound": 3.0, "ok": True},
        {"expr": "flow.bulk.goodput > 10 Mbit/s", "value": 9.3e6, "bound": 1e7, "ok": False},
        {
            "expr": "punch.rtt < 1 s",
            "value": None,
            "bound": None,
            "reason": "there is no metric 'punch.rtt'",
            "ok": False,
        },
    ]
    return write_run(tmp_path / "run", results(metrics, expectations=expectations, verdict="fail"), sawtooth("bulk", 5))


def test_the_report_of_a_run_says_what_was_expected_and_measured(run_folder):
    path = report.write(load(run_folder))
    page = Page(path.read_text(encoding="utf-8"))
    assert path == run_folder / "report.html" and not page.wrong and not page.open
    for words in (
        "made-up",
        "fail",
        "connect.time.p99 < 3 s 290 ms 3 s holds",
        "flow.bulk.goodput > 10 Mbit/s 9.3 Mbit/s 10 Mbit/s broken",
        "there is no metric 'punch.rtt'",
        "<relayed>",
        "./peerbed replay",
        "g++ 12",
        "1,000",
    ):
        assert words in page.text, words


def test_the_report_loads_nothing(run_folder):
    text = report.write(load(run_folder)).read_text(encoding="utf-8")
    page = Page(text)
    assert page.references and all(r.startswith("data:image/") for r in page.references)
    assert not re.search(r"https?://|@import|url\(|<script", text)


def test_the_figures_are_files_too(run_folder):
    report.write(load(run_folder))
    files = sorted(p.name for p in (run_folder / "plots").iterdir())
    assert files == ["flow_bulk.png", "flow_bulk.svg", "latency.png", "latency.svg"]
    assert (run_folder / "plots/latency.png").read_bytes().startswith(b"\x89PNG")


def test_equal_folders_give_equal_reports(run_folder):
    path = report.write(load(run_folder))
    first = path.read_bytes()
    assert report.write(load(run_folder)).read_bytes() == first


@pytest.fixture
def campaign_folder(tmp_path):
    def one(loss, seed):
        good = loss != "5 %"
        return results(
            {
                "flow.bulk.goodput": {"unit": "bit/s", "value": 1e6 * seed},
                "punch.outcome": {"unit": "", "value": "direct"},
            },
            seed=seed,
            verdict="pass" if good else "fail",
            expectations=[{"expr": "flow.bulk.goodput > 0.5 Mbit/s", "value": 1e6 * seed, "ok": good}],
        )

    return write_campaign(
        tmp_path / "c", [({"links.wan.loss": loss}, [one(loss, s) for s in (1, 2, 3)]) for loss in ("1 %", "5 %")]
    )


def test_the_report_of_a_campaign_has_a_row_per_point_with_intervals(campaign_folder):
    page = Page(report.write(load(campaign_folder)).read_text(encoding="utf-8"))
    assert not page.wrong and not page.open
    # Mean 2, s = 1, n = 3: 2 +- t(0.975, 2) / sqrt(3) = 2 +- 2.484.
    assert "1 % 2 Mbit/s -0.4841 … 4.484" in page.text
    assert (
        "What broke" in page.text
        and "links.wan.loss = 5 % 1 flow.bulk.goodput" in page.text
        and page.text.count("./peerbed replay") == 3
    )


def test_comparing_says_whether_it_can_be_chance(tmp_path):
    def campaign(name, values):
        return load(
            write_campaign(
                tmp_path / name,
                [
                    (
                        {},
                        [
                            results({"m": {"unit": "s", "value": v}, "n": {"unit": "", "value": 1.0}}, seed=i)
                            for i, v in enumerate(values)
                        ],
                    )
                ],
            )
        )

    quick, slow, alike = (
        campaign("a", [1.0, 1.1, 0.9]),
        campaign("b", [2.0, 2.1, 1.9]),
        campaign("c", [1.05, 0.95, 1.1]),
    )
    assert re.search(r"^m .*\(\+100.0 %\) +differs$", compare.table(quick, slow), re.MULTILINE)
    assert re.search(r"^m .*no difference seen$", compare.table(quick, alike), re.MULTILINE)
    assert re.search(r"^n .*equal$", compare.table(quick, slow), re.MULTILINE)
    one = campaign("d", [1.0])
    assert re.search(r"^m .*not enough runs$", compare.table(one, slow), re.MULTILINE)


def call(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "analysis", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_the_command_line_prints_where_the_report_is(run_folder):
    done = call("report", run_folder)
    assert done.returncode == 0 and done.stdout == f"{run_folder / 'report.html'}\n" and done.stderr == ""


def test_the_command_line_answers_errors_with_one_sentence_and_2(run_folder, tmp_path):
    for arguments in (
        ["report", tmp_path / "nowhere"],
        ["report"],
        ["draw"],
        ["plot", run_folder, "--figure", "pie"],
        ["plot", run_folder, "--figure", "punch_matrix"],
    ):
        done = call(*arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("peerbed") and done.stderr.count("\n") == 1, done.stderr


def test_one_figure_can_be_written_elsewhere(run_folder, tmp_path):
    done = call("plot", run_folder, "--figure", "latency", "--out", tmp_path / "out")
    assert done.returncode == 0 and sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "latency.png",
        "latency.svg",
    ]

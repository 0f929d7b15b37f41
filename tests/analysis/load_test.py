import json

import pytest

from analysis.load import Campaign, InputError, Run, load
from tests.analysis.generator import distribution, results, sawtooth, write_campaign, write_run


def changed(folder, **changes):
    path = folder / "results.json"
    content = json.loads(path.read_text())
    content.update(changes)
    path.write_text(json.dumps({k: v for k, v in content.items() if v is not None}))


@pytest.fixture
def run_folder(tmp_path):
    metrics = {"connect.time": distribution("s", [0.1, 0.2, 0.4]), "punch.outcome": {"unit": "", "value": "relayed"}}
    return write_run(tmp_path / "run", results(metrics), sawtooth("bulk", 2))


def test_a_run_is_read(run_folder):
    run = load(run_folder)
    assert isinstance(run, Run) and run.verdict == "pass" and "title" in run.inputs
    assert (
        run.value("connect.time") == pytest.approx(0.2)
        and run.value("punch.outcome") == "relayed"
        and run.value("x") is None
    )
    window = run.one_series("flow.bulk.cwnd")
    assert len(window) == 40 and window["time_s"].is_monotonic_increasing


def test_a_run_without_series_has_none(tmp_path):
    run = load(write_run(tmp_path / "run", results({})))
    assert run.series.empty and list(run.events()) == []


def test_a_campaign_is_read_as_one_frame(tmp_path):
    points = [
        (
            {"links.wan.loss": loss},
            [results({"flow.a.goodput": {"unit": "bit/s", "value": rate * seed}}, seed=seed) for seed in (1, 2)],
        )
        for loss, rate in (("0 %", 10.0), ("1 %", 5.0))
    ]
    campaign = load(write_campaign(tmp_path / "campaign", points))
    assert isinstance(campaign, Campaign) and campaign.swept == ["links.wan.loss"] and len(campaign.runs) == 4
    frame = campaign.frame
    assert sorted(frame["value"]) == [5.0, 10.0, 10.0, 20.0]
    assert frame[frame["links.wan.loss"] == "1 %"]["value"].mean() == 7.5


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"schema": "peerbed.results/9"}, "the schema is 'peerbed.results/9'"),
        ({"schema": None}, "the schema is None"),
        ({"verdict": "maybe"}, "the verdict 'maybe' is none of pass, fail, invalid"),
        ({"seed": "one"}, "the value of 'seed' has the wrong type"),
        ({"metrics": None}, "the key 'metrics' is missing"),
        ({"metrics": {"a": {"value": 1}}}, "the metric 'a' has no unit"),
        ({"metrics": {"a": {"unit": "s", "count": 3, "mean": 1}}}, "min, p50, p90, p99, max missing"),
        ({"metrics": {"a": {"unit": "s", "value": [1]}}}, "neither a number nor a text"),
        ({"expectations": [{"expr": "a < 1"}]}, "an expectation lacks its 'expr' or 'ok'"),
    ],
)
def test_what_is_wrong_with_a_results_file_is_said_in_a_sentence(run_folder, changes, sentence):
    changed(run_folder, **changes)
    with pytest.raises(InputError) as error:
        load(run_folder)
    assert sentence in str(error.value) and "results.json" in str(error.value) and "\n" not in str(error.value)


def test_a_folder_that_is_no_run_is_named(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there is no results.json"):
        load(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(InputError, match="this is not JSON"):
        load(tmp_path)


def test_a_series_file_of_a_header_alone_is_empty(run_folder):
    (run_folder / "series.csv").write_text("time_s,name,value\n")
    assert load(run_folder).series.empty


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("time_s,node,value\n1,a,2\n", "the columns are time_s,node,value and should be time_s,name,value"),
        ("time_s,name,value\n1,a,much\n", "the column value holds something that is no number"),
        ("", "this is not a table"),
    ],
)
def test_a_bad_series_file_is_said_in_a_sentence(run_folder, text, sentence):
    (run_folder / "series.csv").write_text(text)
    with pytest.raises(InputError, match=sentence):
        load(run_folder).series


def test_a_bad_line_of_the_event_log_is_numbered(run_folder):
    (run_folder / "events.jsonl").write_text('{"a": 1}\n{oops\n')
    with pytest.raises(InputError, match="line 2 is not JSON"):
        list(load(run_folder).events())


def test_a_campaign_whose_run_is_gone_says_which(tmp_path):
    folder = write_campaign(tmp_path / "c", [({"a": "1"}, [results({}, seed=1)])])
    (folder / "points/0/1/results.json").unlink()
    with pytest.raises(InputError, match="points/0/1: there is no results.json"):
        load(folder)

"""Figures are looked at by people; tests hold what they say: which data they take, in which cell or curve it lands."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from analysis import style
from analysis.figures import MODULES, all_drawings, delivery, flow_series, goodput_vs_loss, latency, punch_matrix
from analysis.formulas import pftk
from analysis.load import load
from tests.analysis.generator import distribution, results, sawtooth, write_campaign, write_run

EXPECTED = Path(__file__).parents[1] / "data" / "expected" / "nat_udp_punch_matrix.csv"


def names(loaded):
    found = []
    for drawing in all_drawings(loaded):
        found.append(drawing.name)
        style.close(drawing.figure)
    return found


def outcome(word, seed=1):
    return results({"punch.outcome": {"unit": "", "value": word}}, seed=seed)


@pytest.fixture
def nat_campaign(tmp_path):
    points = []
    for row in csv.DictReader(EXPECTED.open()):
        a, b = (f"{row['mapping_' + side]}/{row['filter_' + side]}".lower() for side in "ab")
        points.append(
            ({"nodes.alice.nat": a, "nodes.bob.nat": b}, [outcome("direct" if row["direct_ok"] == "1" else "relayed")])
        )
    return load(write_campaign(tmp_path / "nats", points))


def test_the_punch_matrix_has_a_cell_for_each_pair_in_the_order_of_rfc_4787(nat_campaign):
    (drawing,) = punch_matrix.drawings(nat_campaign)
    axes = drawing.figure.axes[0]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == [f"{m}/{f}" for m in ("EIM", "ADM", "APDM") for f in ("EIF", "ADF", "APDF")]
    assert rows == [label.get_text() for label in axes.get_xticklabels()]
    cells = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in axes.texts}
    assert len(cells) == 81
    # Two address-and-port-dependent NATs relay, two port-restricted ones (EIM/APDF) connect.
    assert cells[rows.index("APDM/APDF"), rows.index("APDM/APDF")] == "relay"
    assert cells[rows.index("EIM/APDF"), rows.index("EIM/APDF")] == "direct"
    assert cells[rows.index("EIM/APDF"), rows.index("APDM/EIF")] == "relay"
    direct = sum(row["direct_ok"] == "1" for row in csv.DictReader(EXPECTED.open()))
    assert sum(t == "direct" for t in cells.values()) == direct and f"{direct} of 81" in drawing.caption
    style.close(drawing.figure)


def test_a_pair_with_both_outcomes_shows_how_often_it_was_direct(tmp_path):
    points = [
        ({"a.nat": "eim/eif", "b.nat": nat}, [outcome(w, s) for s, w in enumerate(words, 1)])
        for nat, words in (("eim/eif", ["direct", "relayed", "direct"]), ("apdm/apdf", ["failed"] * 3))
    ]
    points += [({"a.nat": "adm/eif", "b.nat": nat}, [outcome("direct")]) for nat in ("eim/eif", "apdm/apdf")]
    (drawing,) = punch_matrix.drawings(load(write_campaign(tmp_path / "c", points)))
    assert sorted(t.get_text() for t in drawing.figure.axes[0].texts) == ["2/3", "direct", "direct", "failed"]
    style.close(drawing.figure)


@pytest.fixture
def loss_campaign(tmp_path):
    random = np.random.Generator(np.random.PCG64(5))
    points = []
    for controller, factor in (("newreno", 1.0), ("cubic", 1.3)):
        for loss in ("0 %", "0.01 %", "0.1 %", "1 %"):
            rate = 90e6 if loss == "0 %" else float(factor * pftk(float(loss[:-2]) / 100, 0.05))
            runs = [
                results(
                    {
                        "flow.bulk.goodput": {"unit": "bit/s", "value": rate * random.uniform(0.9, 1.1)},
                        "flow.bulk.rtt": distribution("s", [0.05, 0.06]),
                    },
                    seed=s,
                )
                for s in range(1, 6)
            ]
            points.append(({"links.wan.loss": loss, "nodes.alice.congestion": controller}, runs))
    return load(write_campaign(tmp_path / "loss", points))


def test_goodput_against_loss_has_a_line_per_controller_and_the_models(loss_campaign):
    lines = goodput_vs_loss.collect(loss_campaign)
    assert set(lines) == {"cubic", "newreno"}
    assert [loss for loss, _ in lines["cubic"]] == pytest.approx([0, 1e-4, 1e-3, 1e-2])
    assert all(len(rates) == 5 for _, rates in lines["cubic"])
    (drawing,) = goodput_vs_loss.drawings(loss_campaign)
    axes = drawing.figure.axes[0]
    legend = [t.get_text() for t in axes.get_legend().get_texts()]
    assert (
        {"cubic", "newreno"} <= set(legend)
        and any("Mathis" in t for t in legend)
        and any("Padhye" in t for t in legend)
    )
    assert axes.get_xscale() == "log" and axes.get_yscale() == "log"
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    assert ticks == ["0", "0.01 %", "0.1 %", "1 %"]
    assert "50 ms" in drawing.caption and "5 runs" in drawing.caption
    style.close(drawing.figure)


def test_a_flow_is_drawn_over_time_with_a_panel_for_each_quantity(tmp_path):
    run = load(write_run(tmp_path / "run", results({}), sawtooth("bulk")))
    assert flow_series.flows_of(run) == {"bulk": ["cwnd", "in_flight", "smoothed_rtt", "lost"]}
    (drawing,) = flow_series.drawings(run)
    labels = [axes.get_ylabel() for axes in drawing.figure.axes]
    assert labels == ["window\nKiB", "round trip\nms", "lost packets"]
    window = drawing.figure.axes[0].lines[0].get_ydata()
    assert max(window) == pytest.approx(run.one_series("flow.bulk.cwnd")["value"].max() / 1024)
    style.close(drawing.figure)


def test_times_are_drawn_from_the_least_to_the_greatest(tmp_path):
    metrics = {
        "connect.time": distribution("s", np.linspace(0.05, 2.0, 100)),
        "ping.rtt": distribution("s", [0.05] * 9 + [0.06]),
        "rare.time": distribution("s", [1.0]),
        "flow.a.goodput": {"unit": "bit/s", "value": 1e6},
    }
    run = load(write_run(tmp_path / "run", results(metrics)))
    assert [name for name, _ in latency.rows_of(run)] == ["connect.time", "ping.rtt"]
    (drawing,) = latency.drawings(run)
    assert any(
        "connect.time" in t.get_text() and "100" in t.get_text() for t in drawing.figure.axes[0].get_yticklabels()
    )
    style.close(drawing.figure)


def test_a_flood_reaches_nodes_over_time_and_hops(tmp_path):
    folder = write_run(tmp_path / "run", results({"flood.nodes": {"unit": "", "value": 12.0}}))
    events = [{"t": 5 * 10**9, "node": "n0", "event": "flood.started", "bytes": 100}]
    events += [
        {"t": 5 * 10**9 + i * 10**7, "node": f"n{i}", "event": "flood.delivered", "hops": 1 + i // 4, "from": "n0"}
        for i in range(1, 10)
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in events))
    share, hops = delivery.drawings(load(folder))
    curve = share.figure.axes[0].lines[0]
    assert curve.get_xdata()[-1] == pytest.approx(90) and "ms" in share.figure.axes[0].get_xlabel()
    # Nine of the eleven nodes besides the origin: the curve must not end at one.
    assert curve.get_ydata()[0] == 0 and curve.get_ydata()[-1] == pytest.approx(9 / 11) and "9 of 11" in share.caption
    assert [bar.get_height() for bar in hops.figure.axes[0].patches] == [3, 4, 2]
    for drawing in (share, hops):
        style.close(drawing.figure)


def test_events_that_were_only_counted_draw_no_flood(tmp_path):
    folder = write_run(tmp_path / "run", results({}))
    (folder / "events.jsonl").write_text('{"event":"flood.delivered","count":99,"first_t":1,"last_t":2}\n')
    assert names(load(folder)) == []


def test_a_sweep_of_one_number_draws_what_it_moved(tmp_path):
    points = [
        (
            {"links.wan.delay": f"{d} ms"},
            [
                results(
                    {"connect.time": distribution("s", [2e-3 * d, 2e-3 * d + 0.001 * s])},
                    seed=s,
                    expectations=[{"expr": "connect.time.p99 < 1 s", "value": 0.1, "ok": True}],
                )
                for s in (1, 2, 3)
            ],
        )
        for d in (10, 50, 200)
    ]
    assert names(load(write_campaign(tmp_path / "c", points))) == ["sweep_connect_time"]


def test_a_run_of_nothing_draws_nothing(tmp_path):
    assert names(load(write_run(tmp_path / "run", results({})))) == []


def test_every_module_of_a_figure_is_listed():
    folder = Path(punch_matrix.__file__).parent
    assert sorted(MODULES) == sorted(p.stem for p in folder.glob("*.py") if p.stem not in ("__init__", "drawing"))

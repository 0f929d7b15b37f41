from pathlib import Path

import pandas
import pytest

from analysis import formulas

TABLE = pandas.read_csv(Path(__file__).parents[1] / "data" / "expected" / "throughput_vs_loss_mbps.csv")
COLUMNS = {
    "mathis_b1": lambda p, rtt: formulas.mathis(p, rtt, acked=1),
    "mathis_b2": lambda p, rtt: formulas.mathis(p, rtt, acked=2),
    "tfrc_rfc5348": formulas.tfrc,
    "pftk_b1_rto1s": lambda p, rtt: formulas.pftk(p, rtt, acked=1, rto=1.0),
    "pftk_b2_rto1s": lambda p, rtt: formulas.pftk(p, rtt, acked=2, rto=1.0),
    "cubic_rfc9438": formulas.cubic,
}


@pytest.mark.parametrize("column", COLUMNS)
def test_the_models_give_the_table(column):
    for _, row in TABLE.iterrows():
        assert COLUMNS[column](row["p"], row["rtt_s"]) / 1e6 == pytest.approx(row[column], abs=1e-4)


def test_every_column_of_the_table_is_held():
    assert set(TABLE.columns) == {"rtt_s", "p", *COLUMNS} and len(TABLE) == 36


def test_timeouts_only_take_away():
    for p in (1e-5, 1e-3, 1e-1):
        assert formulas.pftk(p, 0.1) < formulas.mathis(p, 0.1)

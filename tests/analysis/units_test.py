import pytest

from analysis.units import plain, quantity, readable


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0.0123456, "s", "12.35 ms"),
        (2.5e-7, "s", "250 ns"),
        (0, "s", "0 s"),
        (75.0, "s", "75 s"),
        (12_345_678, "bit/s", "12.35 Mbit/s"),
        (1536, "B", "1.5 KiB"),
        (1_234_567, "", "1,234,567"),
        (0.25, "", "0.25"),
        ("relayed", "", "relayed"),
        (True, "", "yes"),
        (None, "s", "–"),
        (float("inf"), "s", "inf"),
        (999.96e6, "bit/s", "1,000 Mbit/s"),
        (-0.002, "s", "-2 ms"),
        (3, "1/s", "3/s"),
    ],
)
def test_numbers_read_well(value, unit, text):
    assert readable(value, unit) == text


@pytest.mark.parametrize(
    "text, value",
    [
        ("1 %", 0.01),
        ("0.1%", 0.001),
        ("10 ms", 0.01),
        ("5 Mbit/s", 5e6),
        ("1.5 KiB", 1536),
        ("3", 3),
        (7, 7),
        (0.5, 0.5),
        ("1e-3", 1e-3),
        ("cubic", None),
        ("eim/apdf", None),
        ("3 parsecs", None),
        (True, None),
        ("", None),
    ],
)
def test_swept_quantities_become_numbers(text, value):
    assert quantity(text) == (None if value is None else pytest.approx(value))


def test_a_bound_is_written_in_the_unit_of_its_mean():
    assert plain(-484_100, 2e6, "bit/s") == "-0.4841" and plain(0.0123, 2.0, "s") == "0.0123"

"""Numbers with units as people read them, and the quantities of scenario files as numbers."""

import math
import re

_PREFIXED = {
    "bit/s": (1000.0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]),
    "B": (1024.0, ["B", "KiB", "MiB", "GiB", "TiB"]),
    "B/s": (1000.0, ["B/s", "kB/s", "MB/s", "GB/s"]),
}
_SECONDS = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s")]


def _digits(value: float) -> str:
    """Four significant digits, without an exponent where the number is of ordinary size."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.3g}"
    decimals = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def scale_for(value: float, unit: str) -> tuple[float, str]:
    """(divisor, unit) in which `value` has one to three digits before the point."""
    magnitude = abs(value)
    if unit == "s":
        for divisor, name in reversed(_SECONDS):
            if magnitude >= divisor:
                return divisor, name
        return (1.0, "s") if magnitude == 0 else _SECONDS[0]
    if unit in _PREFIXED:
        base, names = _PREFIXED[unit]
        power = 0
        while power + 1 < len(names) and magnitude >= base ** (power + 1):
            power += 1
        return base**power, names[power]
    return 1.0, unit


def readable(value, unit: str = "") -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        return str(value)
    if unit == "1/s":
        return f"{_digits(value)}/s"
    divisor, name = scale_for(value, unit)
    return f"{_digits(value / divisor)} {name}".rstrip()


def plain(value: float, beside: float, unit: str) -> str:
    """The number alone, in the unit in which `beside` reads well."""
    return _digits(value / scale_for(beside, unit)[0])


_FACTORS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "%": 0.01,
    "": 1.0,
    "bit/s": 1.0,
    "kbit/s": 1e3,
    "Mbit/s": 1e6,
    "Gbit/s": 1e9,
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
}


def quantity(text) -> float | None:
    """'1 %' is 0.01 and '10 ms' 0.01: a swept value in base units, or None if it is no quantity."""
    if isinstance(text, bool):
        return None
    if isinstance(text, (int, float)):
        return float(text)
    match = re.fullmatch(r"\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z/%]*)\s*", str(text))
    if not match or match.group(2) not in _FACTORS:
        return None
    return float(match.group(1)) * _FACTORS[match.group(2)]

"""Equal inputs give equal digests and metrics whichever compiler built the program: every catalogue scenario, twice.

Asked for by `./peerbed test --compilers`, which builds both programs first.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = {"g++": ROOT / "build/release/peerbed", "clang": ROOT / "build/clang/peerbed"}
SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios/catalog").glob("*.yaml"))

pytestmark = pytest.mark.skipif(
    "PEERBED_BOTH_COMPILERS" not in os.environ, reason="only ./peerbed test --compilers builds the program twice"
)


def outcome(program: Path, scenario: str, folder: Path) -> dict[str, dict]:
    """{run folder: what must be equal}."""
    done = subprocess.run(
        [program, "run", scenario, "--out", folder, "--repeat", "1", "--events", "none", "--quiet", "--backend", "sim"],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PEERBED_ROOT": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for path in sorted(folder.rglob("results.json")):
        results = json.loads(path.read_text())
        if results["schema"] == "peerbed.results/1":
            found[str(path.parent.relative_to(folder))] = {
                key: results[key] for key in ("digest", "verdict", "metrics")
            } | {"events": results["engine"]["events"], "compiler": results["engine"]["compiler"].split()[0]}
    return found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_compilers_give_the_same_run(scenario, tmp_path):
    runs = {name: outcome(program, scenario, tmp_path / name) for name, program in PROGRAMS.items()}
    assert runs["g++"] and runs["g++"].keys() == runs["clang"].keys()
    for folder, left in runs["g++"].items():
        right = runs["clang"][folder]
        assert (left.pop("compiler"), right.pop("compiler")) == ("g++", "clang")
        assert left == right, f"run {folder} of {scenario}"


def test_there_are_scenarios_to_compare():
    assert len(SCENARIOS) >= 5

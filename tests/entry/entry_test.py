"""The entry script, with stand-ins for the tools that it drives: what it asks of them, what it makes of the answers."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CMAKE = """echo "cmake $*" >>"$CALLS"
[ -z "${CMAKE_FAILS:-}" ] || { echo "no such library"; exit 1; }
mkdir -p build/$2
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/$2/CMakeCache.txt
: >build/$2/build.ninja
"""
NINJA = """echo "ninja $*" >>"$CALLS"
[ -z "${NINJA_FAILS:-}" ] || { echo "[1/2] Building x.o"; echo "x.cpp:3: error: no"; exit 1; }
printf '#!/bin/sh\\nfor a; do echo "<$a>"; done\\necho "$PEERBED_ROOT"\\nexit 7\\n' >"$2/peerbed"
chmod +x "$2/peerbed"
"""
CTEST = """echo "ctest $*" >>"$CALLS"
while [ $# -gt 0 ]; do case $1 in --output-junit) file=$2 ;; esac; shift; done
[ -n "$CPP_TESTS" ] || { echo "No tests were found!!!"; exit 8; }
set -- $CPP_TESTS
printf '<?xml version="1.0"?>\\n<testsuite name="x"\\n\\ttests="%s"\\n\\tfailures="%s"' $1 $2 >"$file"
printf '\\n\\tdisabled="0"\\n\\tskipped="%s"\\n>\\n</testsuite>\\n' $3 >>"$file"
echo "1/3 Test #1: A.Good ........   Passed    0.01 sec"
echo "2/3 Test #2: A.Bad ........***Failed    0.01 sec"
echo "what the test printed"
[ $2 = 0 ] || exit 8
"""


class Checkout:
    def __init__(self, folder: Path):
        self.root = folder / "checkout with space"
        self.calls = folder / "calls"
        tools = folder / "tools"
        tools.mkdir()
        self.root.mkdir()
        shutil.copy(ROOT / "peerbed", self.root / "peerbed")
        (self.root / "CMakePresets.json").write_text("{}")
        (self.root / "tests").mkdir()
        for name, text in (("cmake", CMAKE), ("ninja", NINJA), ("ctest", CTEST)):
            (tools / name).write_text("#!/bin/sh\n" + text)
            (tools / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "CPP_TESTS": "3 0 0",
        }
        self.environment.pop("PEERBED_ROOT", None)

    def python_tests(self, text: str):
        (self.root / "tests" / "a_test.py").write_text(text)
        (self.root / "pytest.ini").write_text("[pytest]\npython_files = *_test.py\n")

    def call(self, *arguments, cwd=None, **environment):
        return subprocess.run(
            [self.root / "peerbed", *arguments],
            capture_output=True,
            text=True,
            cwd=cwd or self.root,
            env={**self.environment, **environment},
            timeout=120,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_it_builds_the_program_and_becomes_it(checkout, tmp_path):
    done = checkout.call("run", "a b", "--set", "x=*", cwd=tmp_path)
    assert done.stdout.splitlines() == ["<run>", "<a b>", "<--set>", "<x=*>", str(checkout.root)]
    assert done.returncode == 7 and done.stderr == ""
    assert checkout.called()[0] == "cmake --preset release" and checkout.called()[1].endswith(" peerbed")


def test_a_second_call_does_not_configure_again(checkout):
    checkout.call()
    checkout.call("--help")
    assert [line.split()[0] for line in checkout.called()] == ["cmake", "ninja", "ninja"]


def test_new_presets_are_configured(checkout):
    checkout.call()
    later = (checkout.root / "build/release/build.ninja").stat().st_mtime + 10
    os.utime(checkout.root / "CMakePresets.json", (later, later))
    checkout.call()
    assert [line.split()[0] for line in checkout.called()] == ["cmake", "ninja", "cmake", "ninja"]


def test_a_checkout_that_moved_is_built_anew(checkout):
    checkout.call()
    moved = checkout.root.with_name("moved")
    checkout.root.rename(moved)
    (moved / "build/release/stale").touch()
    checkout.root = moved
    assert checkout.call().stdout == f"{moved}\n" and not (moved / "build/release/stale").exists()


@pytest.mark.parametrize("tool, said", [("CMAKE_FAILS", "no such library"), ("NINJA_FAILS", "x.cpp:3: error: no")])
def test_a_failed_build_shows_its_errors_and_gives_2(checkout, tool, said):
    done = checkout.call("run", **{tool: "1"})
    assert done.returncode == 2 and done.stdout == "" and said in done.stderr and "Building" not in done.stderr


def test_the_tests_of_both_languages_are_one_sum(checkout):
    checkout.python_tests("def test_a(): pass\ndef test_b(): pass\n")
    done = checkout.call("test", CPP_TESTS="5 0 1")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[-1] == "6 passed, 0 failed" and "1 C++ tests skipped" in lines
    assert not any("A.Good" in line for line in lines)
    assert checkout.called()[1].endswith(" all")


@pytest.mark.parametrize(
    "cpp, python, last",
    [
        ("5 2 0", "def test_a(): pass\n", "4 passed, 2 failed"),
        ("5 0 0", "def test_a(): assert False\ndef test_b(): pass\n", "6 passed, 1 failed"),
        ("5 0 0", "import nothing_of_that_name\n", "5 passed, 1 failed"),
        ("", "def test_a(): pass\n", "1 passed, 1 failed"),  # ctest found no tests
        ("5 0 0", "", "5 passed, 1 failed"),  # pytest found none
    ],
)
def test_a_failure_anywhere_is_a_failure(checkout, cpp, python, last):
    checkout.python_tests(python)
    done = checkout.call("test", CPP_TESTS=cpp)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == last
    assert cpp != "5 2 0" or "what the test printed" in done.stdout


def test_other_builds_run_the_cpp_tests_only(checkout):
    done = checkout.call("test", "--asan")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "3 passed, 0 failed"
    assert checkout.called()[0] == "cmake --preset asan"


@pytest.mark.parametrize("arguments", [["--what"], ["--asan", "--tsan"], ["--fuzz", "soon"], ["--fuzz", "0"]])
def test_unknown_arguments_of_test_are_refused(checkout, arguments):
    done = checkout.call("test", *arguments)
    assert done.returncode == 2 and "usage: ./peerbed test" in done.stderr and not checkout.called()


def test_two_calls_at_once_do_not_disturb_each_other(checkout):
    calls = [
        subprocess.Popen(
            [checkout.root / "peerbed", str(i)], stdout=subprocess.PIPE, text=True, env=checkout.environment
        )
        for i in range(4)
    ]
    assert [c.communicate(timeout=120)[0].splitlines()[0] for c in calls] == [f"<{i}>" for i in range(4)]
    assert sum(line.startswith("cmake") for line in checkout.called()) == 1

"""The files of the checkout that count: those that git has or would take; without git, all but the build's."""

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NOT_OURS = {".git", "build", "runs", "__pycache__", ".pytest_cache", ".cache", "node_modules"}


def _walk() -> list[str]:
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in _NOT_OURS)
        found += [str((Path(folder) / f).relative_to(ROOT)) for f in files]
    return sorted(found)


@functools.cache
def files() -> tuple[str, ...]:
    command = [
        "git",
        "-c",
        f"safe.directory={ROOT}",
        "-C",
        str(ROOT),
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    except (OSError, subprocess.CalledProcessError):
        listed = []
    listed = [f for f in listed if f and (ROOT / f).is_file()]
    return tuple(sorted(listed)) if listed else tuple(_walk())


@functools.cache
def read(path: str) -> str | None:
    """The text of a file of the checkout; None if it is not there or is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None

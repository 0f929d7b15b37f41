"""Just enough reading of C++ for the style rules: comments and literals blanked, brackets matched, functions found."""

import re
from typing import Iterator, NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<separator>(?<=[0-9a-fA-F])'(?=[0-9a-fA-F]))
  | (?P<character>'(?:\\.|[^'\\\n])+')
    """,
    re.VERBOSE | re.DOTALL,
)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def code_only(text: str) -> str:
    """The text with comments and the insides of literals blanked; every character keeps its line and column.

    The paths of `#include "…"` are kept, as they are code for our purposes.
    """

    def replace(match: re.Match) -> str:
        if match.group("comment"):
            return _blank(match.group())
        if match.group("separator"):
            return "'"
        if match.group("string"):
            line_start = text.rfind("\n", 0, match.start()) + 1
            if re.match(r"\s*#\s*include\s*$", text[line_start : match.start()]):
                return match.group()
        literal = match.group()
        return literal[0] + _blank(literal[1:-1]) + literal[-1]

    return _TOKEN.sub(replace, text)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def balanced(text: str, start: int, opening: str, closing: str) -> int:
    """The position of the bracket that closes the one at `start`, or -1."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] == opening:
            depth += 1
        elif text[i] == closing:
            depth -= 1
            if depth == 0:
                return i
    return -1


class Function(NamedTuple):
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern|concept|requires)\b")
_CALLABLE = re.compile(r"([~\w:]+|operator\s*[^\s\w(]+)\s*\(")


def functions(code: str) -> Iterator[Function]:
    """Function bodies by their braces (`code` without comments). Lambdas and blocks inside a body belong to it."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: _blank(m.group()), code, flags=re.MULTILINE)
    head_start = 0
    stack = []  # for each open brace: (is a function, name, line of the head)
    for match in re.finditer(r"[{};]", code):
        i, c = match.start(), match.group()
        inside_function = any(entry[0] for entry in stack)
        if c == "{":
            head = code[head_start:i]
            callable_ = _CALLABLE.search(head)
            without_operators = re.sub(r"operator\s*[=!<>]+|[=!<>]=", "", head)
            is_function = (
                not inside_function
                and callable_ is not None
                and not (_SCOPE.search(head[: callable_.start()]) and not head.rstrip().endswith(")"))
                and "=" not in re.sub(r"\(.*\)", "", without_operators, flags=re.DOTALL)
            )
            first = line_of(code, head_start + len(head) - len(head.lstrip()))
            stack.append((is_function, callable_.group(1) if is_function else "", first))
        elif c == "}" and stack:
            is_function, name, first = stack.pop()
            if is_function:
                yield Function(name, first, line_of(code, i))
        head_start = i + 1

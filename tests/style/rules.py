"""The rules of this code base that a compiler does not hold. Each is a function of a file's path and text."""

import re
from pathlib import PurePosixPath
from typing import Callable, Iterator, NamedTuple

from tests.style.cpp_text import balanced, code_only, functions, line_of


class Violation(NamedTuple):
    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


Violations = Iterator[Violation]
ReadFile = Callable[[str], "str | None"]

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100


def is_cpp(path: str) -> bool:
    return path.endswith((".cpp", ".h"))


def in_folder(path: str, *folders: str) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


# ---- include directions --------------------------------------------------------------------------------------------

_BASE = ["core/base"]
_ENV = _BASE + ["core/env"]
_TRANSPORT = _ENV + ["core/crypto", "core/congestion", "core/transport"]
_WIRE = _TRANSPORT + ["core/wire"]
_NAT = _WIRE + ["core/nat"]
# Subsystems are written against three narrow interfaces that the node implements; this one header holds them.
_SUBSYSTEM = "core/node/subsystem.h"

# What the files of a folder may include. The longest folder that fits decides.
MAY_INCLUDE = {
    "core/base": _BASE,
    "core/env": _ENV,
    "core/crypto": _ENV + ["core/crypto"],
    "core/congestion": _ENV + ["core/congestion"],
    "core/transport": _TRANSPORT,
    "core/wire": _WIRE,
    "core/nat": _NAT,
    "core/dht": _WIRE + ["core/dht", _SUBSYSTEM],
    "core/pubsub": _WIRE + ["core/pubsub", _SUBSYSTEM],
    "core/discovery": _NAT + ["core/dht", "core/discovery", _SUBSYSTEM],
    "core/node": _NAT + ["core/dht", "core/pubsub", "core/discovery", "core/node"],
    "core/sockets": _ENV + ["core/sockets"],
    "topologies": _ENV + ["topologies"],
    "sim": ["core", "topologies", "sim"],
    "netem": ["core", "topologies", "sim", "netem"],
    "scenarios": ["core", "topologies", "sim", "netem", "scenarios"],
    "bench": ["core", "topologies", "sim", "netem", "bench"],
    "tests": ["core", "topologies", "sim", "netem", "scenarios", "bench", "tests"],
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def check_include_directions(path: str, text: str) -> Violations:
    if not is_cpp(path):
        return
    owner = max((f for f in MAY_INCLUDE if in_folder(path, f)), key=len, default=None)
    for match in _INCLUDE.finditer(code_only(text)):
        included, line = match.group(1), line_of(text, match.start())
        if "/" not in included:
            yield Violation(path, line, f'"{included}" is written without its folder; includes start at the root')
        elif owner is None:
            yield Violation(
                path, line, "this folder has no row in the table of include directions (tests/style/rules.py)"
            )
        elif not any(included == allowed or in_folder(included, allowed) for allowed in MAY_INCLUDE[owner]):
            yield Violation(
                path, line, f"{owner} must not see {str(PurePosixPath(included).parent)}: includes point one way"
            )


# ---- purity of the core --------------------------------------------------------------------------------------------

_CLOCK = "time is learnt by being handed it"
_THREAD = "a node lives on one thread and its environment owns that"
_SOCKET = "the world is reached through the Environment; system calls live in core/sockets"
_ENTROPY = "random numbers come from a RandomStream, key material from Environment::fill_secret"
_SETTING = "what a node does is decided by its configuration alone"
_OUTPUT = "the core reports through the EventLog and counters, and opens no files"

BANNED_HEADERS = [
    (
        r"thread|mutex|shared_mutex|condition_variable|future|semaphore|barrier|latch|stop_token|atomic|pthread\.h",
        _THREAD,
    ),
    (r"ctime|time\.h|sys/time\.h", _CLOCK),
    (r"random|sys/random\.h", _ENTROPY),
    (r"sys/.*|netinet/.*|net/.*|arpa/.*|linux/.*|unistd\.h|poll\.h|netdb\.h|ifaddrs\.h|fcntl\.h|boost/asio.*", _SOCKET),
    (r"iostream|fstream|filesystem|cstdio|stdio\.h|syslog\.h|fmt/(?:os|ostream|color)\.h", _OUTPUT),
]

BANNED_WORDS = [
    (
        r"\b(?:system_clock|steady_clock|high_resolution_clock|utc_clock|clock_gettime|gettimeofday|timespec_get)\b",
        _CLOCK,
    ),
    (r"(?:\bstd::|(?<![\w:.>])|(?<![\w)])::)time\s*\(\s*(?:nullptr|NULL|0|&)", _CLOCK),
    (r"\b__rdtsc\w*\b|\b__builtin_ia32_rdtsc\w*\b", _CLOCK),
    (
        r"\bstd::(?:jthread|thread|mutex|recursive_mutex|shared_mutex|condition_variable|async|promise|future)\b"
        r"|\bstd::atomic\w*",
        _THREAD,
    ),
    (r"\bthis_thread\b|\bpthread_\w+|\b(?:usleep|nanosleep|sleep_for|sleep_until)\b", _THREAD),
    (
        r"\brandom_device\b|\bgetrandom\b|\bgetentropy\b|\brandombytes_\w+|(?<![\w.>])s?rand\s*\(|\barc4random\w*",
        _ENTROPY,
    ),
    (r"\bcrypto_(?:\w+_)?(?:keygen|keypair)\b(?!_)", _ENTROPY),
    (r"\b(?:secure_)?getenv\b|\bsetenv\b|\bputenv\b|\benviron\b", _SETTING),
    (
        r"(?<![\w:.>])(?:::)?(?:socket|sendto|recvfrom|sendm?msg|recvm?msg|setsockopt|getaddrinfo|if_nametoindex)\s*\(",
        _SOCKET,
    ),
    (r"\bepoll_\w+|\bioctl\s*\(", _SOCKET),
    (
        r"\bstd::(?:cout|cerr|clog|printf|fprintf|puts|ofstream|ifstream|fopen)\b|(?<![\w:.>])f?printf\s*\("
        r"|\bfmt::print\w*",
        _OUTPUT,
    ),
]

ALLOWED = {
    # inet_pton and inet_ntop turn text into addresses and back, and touch no socket.
    "core/base/endpoint.cpp": {"arpa/inet.h"},
    # The last words of a program that found its own bug.
    "core/base/check.h": {"cstdio", "std::fprintf"},
    # The key file is read through its descriptor, so that the mode which was checked is that of what was read.
    "core/crypto/identity.cpp": {"fcntl.h", "sys/stat.h", "unistd.h"},
}

_SYSTEM_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", re.MULTILINE)


def check_core_is_pure(path: str, text: str) -> Violations:
    if not is_cpp(path) or not in_folder(path, "core") or in_folder(path, "core/env", "core/sockets"):
        return
    code = code_only(text)
    for match in _SYSTEM_INCLUDE.finditer(code):
        header = match.group(1)
        for pattern, reason in BANNED_HEADERS:
            if re.fullmatch(pattern, header) and header not in ALLOWED.get(path, ()):
                yield Violation(path, line_of(code, match.start()), f"<{header}> has no place in the core: {reason}")
    for pattern, reason in BANNED_WORDS:
        for match in re.finditer(pattern, code):
            word = match.group().strip(" (&")
            if word in ALLOWED.get(path, ()):
                continue
            yield Violation(path, line_of(code, match.start()), f"'{word}' has no place in the core: {reason}")


# ---- determinism ---------------------------------------------------------------------------------------------------

_STD_RANDOM = re.compile(
    r"\bstd::(?:\w+_distribution|default_random_engine|generate_canonical"
    r"|shuffle|sample|random_shuffle|ranges::shuffle|ranges::sample)\b"
)


def check_no_standard_distributions(path: str, text: str) -> Violations:
    if not is_cpp(path):
        return
    code = code_only(text)
    for match in _STD_RANDOM.finditer(code):
        yield Violation(
            path,
            line_of(code, match.start()),
            f"{match.group()} differs between standard libraries: use RandomStream (core/env/random_stream.h)",
        )


_HASH_CONTAINER = (
    r"(?:std::unordered_(?:multi)?(?:map|set)|(?:boost::)?(?:unordered|concurrent)_(?:flat|node)_(?:map|set)"
    r"|boost::unordered_(?:multi)?(?:map|set))"
)
_ORDER_REMARK = re.compile(r"//\s*order: does not matter because \S+")


def _has_order_remark(text: str, line: int) -> bool:
    """The remark stands on the line itself or in the two lines above it."""
    return any(_ORDER_REMARK.search(row) for row in text.split("\n")[max(0, line - 3) : line])


def _declared_as_hash_container(code: str, aliases: set[str]) -> tuple[set[str], set[str]]:
    """(variables and members, type aliases) of hash container type; aliases declared elsewhere are given."""
    names: set[str] = set()
    found = set(aliases)
    for match in re.finditer(r"\b" + _HASH_CONTAINER + r"\s*<", code):
        end = balanced(code, match.end() - 1, "<", ">")
        if end < 0:
            continue
        alias = re.search(r"\busing\s+(\w+)\s*=\s*$", code[: match.start()])
        if alias:
            found.add(alias.group(1))
        name = re.match(r"\s*[&*]*\s*(?:const\s+)?(\w+)\s*(?=[;={,)\[(])", code[end + 1 :])
        if name:
            names.add(name.group(1))
    for alias in found:
        for match in re.finditer(rf"\b{alias}\s*[&*]*\s+[&*]*(\w+)\s*[;={{,)]", code):
            names.add(match.group(1))
    return names, found


def _range_of(head: str) -> str | None:
    """What `for (…)` runs over, or None for a classic loop."""
    depth = 0
    for i, c in enumerate(head):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == ":" and depth == 0 and head[i - 1] != ":" and head[i + 1 : i + 2] != ":":
            before = head[:i]
            if before.count("?") == 0:
                return head[i + 1 :].strip()
    return None


def check_no_hash_order(path: str, text: str, read_file: ReadFile = lambda path: None) -> Violations:
    """Nothing may depend on the order of a hash container: it differs between libraries, sizes and histories."""
    if not is_cpp(path) or not in_folder(path, "core", "sim", "topologies", "scenarios", "netem"):
        return
    code = code_only(text)
    names: set[str] = set()
    aliases: set[str] = set()
    for included in [*(m.group(1) for m in _INCLUDE.finditer(code)), None]:
        source = code if included is None else code_only(read_file(included) or "")
        more, aliases = _declared_as_hash_container(source, aliases)
        # A name without the trailing underscore of a member means something in its own file only.
        names |= more if included is None else {n for n in more if n.endswith("_")}
    if not names:
        return
    reported: set[int] = set()

    def violation(position: int, name: str) -> Violations:
        line = line_of(code, position)
        if line not in reported and not _has_order_remark(text, line):
            reported.add(line)
            yield Violation(
                path,
                line,
                f"'{name}' is a hash container: its order must not be walked"
                " (if it is harmless, say `// order: does not matter because …`)",
            )

    for match in re.finditer(r"\bfor\s*\(", code):
        end = balanced(code, match.end() - 1, "(", ")")
        over = _range_of(code[match.end() : end]) if end > 0 else None
        last = re.search(r"(\w+)\s*$", over or "")
        if last and last.group(1) in names:
            yield from violation(match.start(), last.group(1))
    for match in re.finditer(
        r"\b(\w+)\s*(?:\.|->)\s*c?(?:begin|visit_all)\s*\(|\bstd::(?:ranges::)?c?begin\s*\(\s*(\w+)\s*\)", code
    ):
        name = match.group(1) or match.group(2)
        if name in names:
            yield from violation(match.start(), name)


_POINTER_KEY = re.compile(r"\bstd::(?:multi)?(?:map|set)\s*<\s*(?:const\s+)?[\w:]+(?:<[^<>]*>)?\s*(?:const\s*)?\*")


def check_no_pointer_order(path: str, text: str) -> Violations:
    if not is_cpp(path) or not in_folder(path, "core", "sim", "topologies", "scenarios", "netem"):
        return
    code = code_only(text)
    for match in _POINTER_KEY.finditer(code):
        line = line_of(code, match.start())
        if not _has_order_remark(text, line):
            yield Violation(
                path, line, "a container ordered by addresses is walked differently in every run: key it by an id"
            )


_DRAW = re.compile(
    r"\b\w*(?:random|rng)\w*(?:\(\))?\s*(?:\.|->)\s*(?:next|below|between|uniform|chance|exponential|normal)\s*\(",
    re.IGNORECASE,
)


def _at_top_level(statement: str) -> bool:
    return statement.count("(") == statement.count(")")


def check_draws_are_sequenced(path: str, text: str) -> Violations:
    """Arguments and most operands are evaluated in an order of the compiler's choice; g++ and clang differ."""
    if not is_cpp(path):
        return
    code = code_only(text)
    draws = list(_DRAW.finditer(code))
    for first, second in zip(draws, draws[1:]):
        between = code[first.end() : second.start()]
        start = max(code.rfind(c, 0, first.start()) for c in ";{}") + 1
        # `a = draw(), b = draw()`: a comma outside of all brackets is no argument list.
        if any(_at_top_level(code[start : first.end() + i]) for i, c in enumerate(between) if c == ","):
            continue
        condition = re.match(r"\s*(?:else\s+)?(?:if|while|switch)\s*(?:constexpr\s*)?\(", code[start:])
        if condition and first.start() < balanced(code, start + condition.end() - 1, "(", ")") < second.start():
            continue  # the condition comes before what it decides
        if not re.search(r"[;{}?]|&&|\|\||(?<!:):(?!:)", between):
            yield Violation(
                path,
                line_of(code, second.start()),
                "two draws in one expression: their order is the compiler's choice, so give each its own statement",
            )


# ---- shape ---------------------------------------------------------------------------------------------------------


def check_sizes(path: str, text: str) -> Violations:
    if not (is_cpp(path) or path.endswith(".py") or path == "peerbed"):
        return
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield Violation(path, MAX_FILE_LINES + 1, f"the file has {lines} lines, {MAX_FILE_LINES} are the most")
    if is_cpp(path):
        for function in functions(code_only(text)):
            if function.lines > MAX_FUNCTION_LINES:
                yield Violation(
                    path,
                    function.first_line,
                    f"{function.name} has {function.lines} lines, {MAX_FUNCTION_LINES} are the most",
                )


def check_header_guard(path: str, text: str) -> Violations:
    if path.endswith(".h") and "#pragma once" not in code_only(text):
        yield Violation(path, 1, "a header starts with #pragma once")


def check_no_tabs(path: str, text: str) -> Violations:
    if not (
        is_cpp(path)
        or path.endswith((".py", ".yaml", ".yml", ".md", ".cmake", ".txt", ".json", ".html", ".ini"))
        or path in ("peerbed", ".ci/run")
    ):
        return
    if in_folder(path, "tests/data", "topologies/data"):
        return  # carried over as they are
    for number, line in enumerate(text.split("\n"), 1):
        if "\t" in line:
            yield Violation(path, number, "a tab; indent with spaces")


# Spelled in two halves, so that this file does not break its own rule.
_MACHINE = re.compile(r"(?<![\w.])/(?:wo" r"rk|ro" r"ot|home/\w+|Users/\w+)/")
_REGISTRY = re.compile(
    r"\b(?:py"
    r"pi\.(?:org|python\.org)|files\.pythonhosted\.org|registry\.npm"
    r"js\.org|registry\.yarnpkg\.com|crates\.i"
    r"o"
    r"|proxy\.golang\.org|repo1?\.maven\.(?:org|apache\.org)|(?:deb|security)\.debian\.org|archive\.ubuntu\.com"
    r"|docker\.io|ghcr\.io|[\w.-]*(?:artifact"
    r"ory|nexus|pypi-?(?:mirror|proxy))[\w-]*\.[\w.-]+)\b"
)


def check_names_no_machine(path: str, text: str) -> Violations:
    for number, line in enumerate(text.split("\n"), 1):
        if _MACHINE.search(line):
            yield Violation(path, number, "a path of one machine")
        if _REGISTRY.search(line):
            yield Violation(
                path, number, "the name of a package registry: what is installed from where is the system's business"
            )


# A drawing has lines or arrows between names.
_FIGURE = re.compile(r"--|->|<-|==|─|│|┌|└|→|\.\.\.|\|")


def check_catalog_figure(path: str, text: str) -> Violations:
    """Who opens a catalogue file sees first what it describes."""
    if not re.fullmatch(r"(?:topologies|scenarios)/catalog/.*\.ya?ml", path):
        return
    head = []
    for line in text.split("\n"):
        if not line.startswith("#"):
            break
        head.append(line)
    if not head:
        yield Violation(path, 1, "a catalogue file starts with a comment that draws or describes it")
    elif path.startswith("topologies/") and not any(_FIGURE.search(line) for line in head):
        yield Violation(path, 1, "the comment at the head of a topology draws its figure")

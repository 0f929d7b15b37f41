"""The rules themselves: each finds a bad snippet, at its line, and leaves a good one alone."""

import pytest

from tests.style import rules
from tests.style.cpp_text import code_only, functions


def lines(violations):
    return [v.line for v in violations]


# ---- reading C++ ---------------------------------------------------------------------------------------------------


def test_comments_and_literals_are_blanked_in_place():
    text = 'int a; // getenv\nauto s = "steady_clock \\" //"; /* rand(\n */ int b = 1\'000; char c = \'"\'; call();'
    code = code_only(text)
    assert len(code) == len(text) and code.count("\n") == text.count("\n")
    assert not any(word in code for word in ("getenv", "steady_clock", "rand("))
    assert code.index("call") == text.index("call") and "1'000" in code


def test_raw_strings_are_blanked():
    assert "std::thread" not in code_only('auto s = R"x(std::thread " )" )x"; int after;')
    assert "after" in code_only('auto s = R"x(std::thread " )" )x"; int after;')


def test_functions_are_found_with_their_length():
    text = """namespace a {
struct Point {
  int x = 0;
  int sum() const { return x; }
  Point(int v) : x(v) {
    x += 1;
  }
};
std::vector<int> kTable = {make(1), make(2)};
enum class Kind : int { one, two };
Result<void> Point::move(
    int by) {
  for (int i = 0; i < by; ++i) { x += [&](int y) { return y; }(i); }
  if (by) {
  }
}
bool operator==(const Point& l, const Point& r) { return l.x == r.x; }
TEST(Point, Moves) {
}
}  // namespace a
"""
    found = [(f.name, f.first_line, f.lines) for f in functions(code_only(text))]
    assert found == [("sum", 4, 1), ("Point", 5, 3), ("Point::move", 11, 6), ("operator==", 17, 1), ("TEST", 18, 2)]


# ---- include directions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, included",
    [
        ("core/base/x.h", "core/env/environment.h"),
        ("core/env/x.h", "core/crypto/noise.h"),
        ("core/crypto/x.cpp", "core/congestion/controller.h"),
        ("core/congestion/x.cpp", "core/transport/link.h"),
        ("core/transport/x.cpp", "core/wire/channel.h"),
        ("core/wire/x.h", "core/nat/stun.h"),
        ("core/nat/x.cpp", "core/node/node.h"),
        ("core/node/x.cpp", "core/sockets/socket_environment.h"),
        ("core/sockets/x.cpp", "core/transport/link.h"),
        ("core/node/x.cpp", "sim/des/scheduler.h"),
        ("core/nat/x.cpp", "topologies/nat_behavior.h"),
        ("topologies/x.cpp", "sim/nat/nat_table.h"),
        ("sim/des/x.cpp", "scenarios/scenario.h"),
        ("bench/x.cpp", "scenarios/runner.h"),
        ("scenarios/x.cpp", "tests/worlds/world.h"),
    ],
)
def test_an_include_against_the_direction_is_found(path, included):
    text = f'#pragma once\n#include <vector>\n#include "{included}"\n'
    assert lines(rules.check_include_directions(path, text)) == [3]


@pytest.mark.parametrize(
    "path, included",
    [
        ("core/env/x.h", "core/base/units.h"),
        ("core/transport/x.cpp", "core/crypto/noise.h"),
        ("core/nat/x.cpp", "core/wire/channel.h"),
        ("core/node/x.cpp", "core/nat/stun.h"),
        ("core/dht/x.cpp", "core/node/subsystem.h"),
        ("sim/des/x.cpp", "topologies/model.h"),
        ("scenarios/x.cpp", "sim/des/backend.h"),
        ("tests/worlds/x.cpp", "scenarios/runner.h"),
    ],
)
def test_an_include_along_the_direction_is_left_alone(path, included):
    assert not lines(rules.check_include_directions(path, f'#include "{included}"\n'))


def test_an_include_without_folder_and_a_folder_without_row_are_found():
    assert lines(rules.check_include_directions("core/base/x.cpp", '#include "x.h"\n')) == [1]
    assert lines(rules.check_include_directions("newcomer/x.cpp", '#include "core/base/units.h"\n')) == [1]


def test_an_include_in_a_comment_does_not_count():
    assert not lines(rules.check_include_directions("core/base/x.h", '// #include "sim/des/scheduler.h"\n'))


# ---- purity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "#include <thread>",
        "#include <mutex>",
        "#include <random>",
        "#include <ctime>",
        "#include <sys/socket.h>",
        "#include <arpa/inet.h>",
        "#include <iostream>",
        "auto t = std::chrono::steady_clock::now();",
        "auto t = std::chrono::system_clock::now();",
        "const auto t = std::time(nullptr);",
        "const auto t = time(NULL);",
        "const auto t = ::time(0);",
        "clock_gettime(CLOCK_MONOTONIC, &ts);",
        "std::thread worker([] {});",
        "std::mutex lock;",
        "std::this_thread::sleep_for(1s);",
        "std::random_device entropy;",
        "randombytes_buf(key.data(), key.size());",
        "crypto_box_keypair(pk, sk);",
        "int r = rand();",
        'const char* v = getenv("HOME");',
        'const char* v = std::getenv("HOME");',
        "int fd = ::socket(AF_INET, SOCK_DGRAM, 0);",
        "int fd = socket(AF_INET, SOCK_DGRAM, 0);",
        "sendto(fd, data, size, 0, nullptr, 0);",
        "epoll_wait(fd, events, 10, -1);",
        "std::cout << 1;",
        'fmt::print("x");',
        'printf("x");',
    ],
)
def test_the_core_may_not(statement):
    text = f"// head\n{statement}\n"
    assert set(lines(rules.check_core_is_pure("core/transport/x.cpp", text))) == {2}
    assert not lines(rules.check_core_is_pure("core/sockets/x.cpp", text))
    assert not lines(rules.check_core_is_pure("core/env/x.cpp", text))
    assert not lines(rules.check_core_is_pure("sim/des/x.cpp", text))


@pytest.mark.parametrize(
    "statement",
    [
        "// the steady_clock, getenv and rand() are what this avoids",
        'const auto error = bad_input("no such socket (getenv)");',
        "const TimePoint t = stream.time(0);",
        "on_time(now);",
        "auto s = environment.open_datagram_socket(options);",
        "crypto_scalarmult_base(pk, sk);",
        "timer->arm(now + 10ms);",
        "const auto x = operand(1);",
        "std::bind(f);",
        "fill_random(out);",
        'auto text = fmt::format("{}", 1);',
    ],
)
def test_the_core_may(statement):
    assert not lines(rules.check_core_is_pure("core/transport/x.cpp", statement + "\n"))


def test_the_text_functions_of_arpa_are_allowed_in_one_file():
    assert not lines(rules.check_core_is_pure("core/base/endpoint.cpp", "#include <arpa/inet.h>\n"))
    assert lines(rules.check_core_is_pure("core/base/units.cpp", "#include <arpa/inet.h>\n")) == [1]


# ---- determinism ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "std::uniform_int_distribution<int> d(0, 1);",
        "std::normal_distribution<> d;",
        "std::default_random_engine engine(1);",
        "std::shuffle(a.begin(), a.end(), engine);",
        "std::ranges::sample(a, out, 3, engine);",
    ],
)
def test_distributions_of_the_standard_library_are_found(statement):
    assert lines(rules.check_no_standard_distributions("sim/des/x.cpp", "\n" + statement)) == [2]
    assert not lines(rules.check_no_standard_distributions("sim/des/x.cpp", "random.shuffle(std::span(a));"))


HASHES = """#include "core/nat/table.h"
std::unordered_map<int, std::vector<int>> by_id_;
boost::unordered_flat_map<Endpoint, Index, EndpointHash> by_endpoint_;
std::map<int, int> ordered_;
"""


@pytest.mark.parametrize(
    "statement",
    [
        "for (const auto& [id, v] : by_id_) use(v);",
        "for (auto& entry : this->by_endpoint_) {\n}",
        "for (auto it = by_id_.begin(); it != by_id_.end(); ++it) {}",
        "for (int n = 0; auto& entry : table.by_id_) {}",
        "auto first = by_endpoint_.cbegin();",
        "std::copy(std::begin(by_id_), std::end(by_id_), out);",
        "auto it = state->by_id_.begin();",
    ],
)
def test_walking_a_hash_container_is_found(statement):
    assert lines(rules.check_no_hash_order("core/nat/x.cpp", HASHES + statement)) == [5]


@pytest.mark.parametrize(
    "statement",
    [
        "for (const auto& [id, v] : ordered_) use(v);",
        "auto it = by_id_.find(3); if (it == by_id_.end()) return;",
        "// order: does not matter because the sum is commutative\nfor (auto& [id, v] : by_id_) sum += id;",
        "for (int i = 0; i < by_id_.size(); ++i) {}",
        "for (auto x : sorted_keys(by_id_)) use(x);",
        "const int n = std::clamp(a ? b : c, 0, 1);",
    ],
)
def test_harmless_uses_of_a_hash_container_are_left_alone(statement):
    assert not lines(rules.check_no_hash_order("core/nat/x.cpp", HASHES + statement))


def test_a_remark_without_a_reason_does_not_count():
    text = HASHES + "for (auto& [id, v] : by_id_) {}  // order: does not matter\n"
    assert lines(rules.check_no_hash_order("sim/des/x.cpp", text)) == [5]


def test_members_of_an_included_header_and_aliases_are_known():
    header = "using Table = std::unordered_set<int>;\nstruct S { Table table_; Table local; };\n"
    text = '#include "core/nat/table.h"\nfor (int id : table_) {}\nfor (int id : local) {}\n'
    text += "void f(const Table& t) { for (int x : t) {} }\n"
    read_file = {"core/nat/table.h": header}.get
    assert lines(rules.check_no_hash_order("core/nat/x.cpp", text, read_file)) == [2, 4]


def test_keys_that_are_addresses_are_found():
    assert lines(rules.check_no_pointer_order("core/node/x.h", "\nstd::map<const Peer*, int> peers_;\n")) == [2]
    assert lines(rules.check_no_pointer_order("core/node/x.h", "std::set<Peer *> peers_;\n")) == [1]
    assert not lines(rules.check_no_pointer_order("core/node/x.h", "std::map<PeerId, Peer*> peers_;\n"))


@pytest.mark.parametrize(
    "statement",
    [
        "f(random_.below(3), random_.below(4));",
        "if (random.below(3) == random.below(4)) return;",
        "const auto a = f(int(random_.below(3)), random_.below(4));",
        "const auto x = random.uniform() - random.uniform();",
        "f(random().next(),\n  random().next());",
    ],
)
def test_two_draws_in_one_expression_are_found(statement):
    assert len(lines(rules.check_draws_are_sequenced("sim/des/x.cpp", statement))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "const auto x = random.below(3); const auto y = random.below(4);",
        "const auto x = early ? random.below(3) : random.below(4);",
        "if (random.chance(p) && random.chance(q)) {}",
        "const Pair p{random.below(3)};",
        "if (random.chance(0.5)) x = random.below(3);",
        "const auto a = int(random.below(3)), b = int(random.below(4));",
    ],
)
def test_sequenced_draws_are_left_alone(statement):
    assert not lines(rules.check_draws_are_sequenced("sim/des/x.cpp", statement))


# ---- shape ---------------------------------------------------------------------------------------------------------


def test_a_long_file_and_a_long_function_are_found():
    assert lines(rules.check_sizes("core/x.cpp", "int a;\n" * 801)) == [801]
    assert not lines(rules.check_sizes("core/x.cpp", "int a;\n" * 800))
    long = "int before;\nvoid f() {\n" + "  g();\n" * 99 + "}\n"
    assert lines(rules.check_sizes("core/x.cpp", long)) == [2]
    assert not lines(rules.check_sizes("core/x.cpp", long.replace("  g();\n", "", 1)))


def test_a_header_without_guard_and_a_tab_are_found():
    assert lines(rules.check_header_guard("core/x.h", "// #pragma once\nint a;\n")) == [1]
    assert not lines(rules.check_header_guard("core/x.h", "#pragma once\n"))
    assert lines(rules.check_no_tabs("core/x.h", "int a;\n\tint b;\n")) == [2]


def test_names_of_machines_and_registries_are_found():
    assert lines(rules.check_names_no_machine("docs/x.md", "see\n/ro" "ot/x and\n")) == [2]
    assert lines(rules.check_names_no_machine("docs/x.md", "in /ho" "me/anna/src")) == [1]
    assert lines(rules.check_names_no_machine("ci.sh", "pip install -i https://py" "pi.org/simple")) == [1]
    assert lines(rules.check_names_no_machine("ci.sh", "https://artifact" "ory.example.com/api")) == [1]
    assert not lines(
        rules.check_names_no_machine("docs/x.md", "the network/root/zone, https://www.rfc-editor.org/rfc/rfc9000")
    )


def test_a_catalogue_file_without_figure_is_found():
    path = "topologies/catalog/x.yaml"
    assert lines(rules.check_catalog_figure(path, "nodes: {}\n")) == [1]
    assert lines(rules.check_catalog_figure(path, "# words only\nnodes: {}\n")) == [1]
    assert not lines(rules.check_catalog_figure(path, "# a ---- b\nnodes: {}\n"))
    assert not lines(rules.check_catalog_figure("topologies/data/x.yaml", "nodes: {}\n"))

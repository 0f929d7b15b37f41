"""Holds the rules of tests/style/rules.py over the whole checkout: one test per rule, one line per violation."""

import pytest

from tests.style import repository, rules


def violations_of(rule):
    found = []
    for path in repository.files():
        text = repository.read(path)
        if text is not None:
            found += rule(path, text)
    return found


@pytest.mark.parametrize(
    "rule",
    [
        rules.check_include_directions,
        rules.check_core_is_pure,
        rules.check_no_standard_distributions,
        lambda path, text: rules.check_no_hash_order(path, text, repository.read),
        rules.check_no_pointer_order,
        rules.check_draws_are_sequenced,
        rules.check_sizes,
        rules.check_header_guard,
        rules.check_no_tabs,
        rules.check_names_no_machine,
        rules.check_catalog_figure,
    ],
    ids=[
        "includes_point_one_way",
        "the_core_is_pure",
        "no_distributions_of_the_standard_library",
        "no_hash_order",
        "no_pointer_order",
        "draws_are_sequenced",
        "files_and_functions_are_short",
        "headers_are_included_once",
        "no_tabs",
        "no_machine_is_named",
        "catalogue_files_start_with_a_figure",
    ],
)
def test_the_checkout_keeps_the_rule(rule):
    found = violations_of(rule)
    if found:
        pytest.fail("\n".join(["", *map(str, found)]), pytrace=False)


def test_the_rules_see_the_files():
    """A rule that looks at nothing holds always."""
    files = repository.files()
    assert "core/env/environment.h" in files and "tests/style/rules.py" in files
    assert sum(rules.is_cpp(f) for f in files) > 30

"""The pages of docs/papers: every number in their prose and tables stands in the report beside it.

What is the paper's own stands in its file of published numbers. Numbers that are neither (years,
parameters, sizes of the data) are listed for each page, so that a new one has to be looked at.
"""

import json
import re
from pathlib import Path

import pytest
from everlearn_papers.reproduce import PAPERS, parts

PAGES = Path(__file__).parents[2] / "docs" / "papers"
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")
# Numbers written in digits are compared from here on; smaller whole numbers count things.
LEAST_WHOLE = 20
# What the pages say of protocols, data and parameters, and no report repeats in digits.
KNOWN = {
    "rlsc": {"1e-3", "200", "1,000", "28"},
    "forests": {"1,300", "1,024", "0.05", "1,000", "1,280", "50", "100", "15,000", "20,000"},
    "slda": {"1e-4", "0.9", "1,280", "512", "1280", "20", "40", "50", "62"},
    "subspace": {"720", "100", "80"},
    "transfer": {"1,280", "60", "100", "256", "101", "2,000", "4,000"},
}


def numbers(text: str) -> set[str]:
    """Numbers that say something: with a decimal point, or not small."""
    found = set()
    for match in NUMBER.findall(text):
        plain = match.rstrip(",").replace(",", "")
        if "." in plain or int(plain) >= LEAST_WHOLE:
            found.add(match.rstrip(","))
    return found


def prose(page: Path) -> str:
    """A page without links, commands and code."""
    return clean(page.read_text("utf-8"))


def clean(text: str) -> str:
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"(Fig\.|Table|Eq\.|Sec\.) [\d.,IVX ()a-d-]+", "", text)


def values(name: str) -> list[str]:
    """Every number of the report, as printed, and of the published file."""
    report = (PAGES / name / "report.md").read_text("utf-8")
    published = PAGES.parents[1] / "papers" / "src" / "everlearn_papers" / "published"
    theirs = json.loads((published / f"{name}.json").read_text("utf-8"))
    found = NUMBER.findall(report) + NUMBER.findall(json.dumps(theirs, ensure_ascii=False))
    if name == "slda":  # its rows of whole networks have a report of their own
        found += NUMBER.findall((PAGES / "deep" / "report.md").read_text("utf-8"))
    return found


def stands(number: str, reported: list[str]) -> bool:
    """Whether a number is one of these, rounded to as many digits as it has, or as a per cent."""
    plain = float(number.replace(",", ""))
    digits = len(number.partition(".")[2])
    unit = 10.0**-digits
    for other in reported:
        value = float(other.replace(",", "").rstrip("."))
        for scaled in (value, 100 * value):
            if abs(scaled - plain) <= 0.5000001 * unit:
                return True
    return False


def test_a_number_matches_only_values_that_round_to_it():
    assert stands("4.2", ["1", "4.18"])
    assert stands("98", ["0.979"])
    assert not stands("4.2", ["4.26", "42"])
    assert numbers("10 trees, 98 % of 1,300, and 0.5") == {"98", "1,300", "0.5"}


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_of_a_page_is_in_its_report(name):
    reported = values(name)
    told = numbers(prose(PAGES / f"{name}.md"))
    missing = sorted(n for n in told - KNOWN.get(name, set()) if not stands(n, reported))
    assert missing == [], f"docs/papers/{name}.md says what its report does not: {missing}"


def test_every_number_of_the_page_on_networks_is_in_its_report():
    reported = NUMBER.findall((PAGES / "deep" / "report.md").read_text("utf-8"))
    known = {"18", "90", "150", "25", "75", "0.001", "0.1"}  # networks, sizes and settings
    told = numbers(prose(PAGES.parent / "deep.md"))
    missing = sorted(number for number in told - known if not stands(number, reported))
    assert missing == [], f"docs/deep.md says what its report does not: {missing}"


def test_numbers_beside_a_link_to_a_paper_are_in_its_report():
    """What the guides quote of the papers."""
    known = {"9,000", "54"}  # examples and samples
    quoted = 0
    for guide in sorted(PAGES.parent.glob("*.md")):
        for line in guide.read_text("utf-8").splitlines():
            names = set(re.findall(r"\]\(papers/(\w+)\.md\)", line)) & set(PAPERS)
            if not names:
                continue
            reported = [value for name in names for value in values(name)]
            told = numbers(clean(line)) - known.union(*(KNOWN[name] for name in names))
            missing = sorted(number for number in told if not stands(number, reported))
            assert missing == [], f"{guide.name} says what the report does not: {missing}"
            quoted += len(told)
    assert quoted


def test_numbers_of_not_reproduced_results_are_in_the_report_of_their_paper():
    """Section by section; that of SLDA also from the report on networks trained here."""
    text = (PAGES / "not-reproduced.md").read_text("utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    names = {"SLDA": "slda", "RLSC": "rlsc", "Forests": "forests"}
    names |= {"Subspace": "subspace", "Transfer": "transfer"}
    assert set(sections) <= set(names)
    for title, section in sections.items():
        reported = values(names[title])
        told = numbers(clean(section)) - KNOWN[names[title]] - {"3.011", "224", "32"}
        missing = sorted(number for number in told if not stands(number, reported))
        assert missing == [], f"the section {title} says what no report does: {missing}"


@pytest.mark.parametrize("name", PAPERS)
def test_reports_are_of_full_runs_with_every_part(name):
    results = json.loads((PAGES / name / "results.json").read_text("utf-8"))
    assert results["quick"] is False
    listed = (PAGES / "README.md").read_text("utf-8")
    for part in set(parts(name)) - set(results["parts"]):
        assert f"`{name} --only {part}`" in listed, f"{part} is not in the report, nor said why"


def test_the_list_contains_every_table_and_figure():
    """What each paper has, counted in it."""
    listed = (PAGES / "README.md").read_text("utf-8")
    expected = {
        "rlsc": ["Fig. 1", "Fig. 2", "Fig. 3", "Table I"],
        "forests": [*(f"Fig. {n}" for n in range(1, 16)), "Table 1", "Table 2"],
        "slda": ["Fig. 1", "Fig. 2", "Fig. 3", "Table 1", "Table 2", "Table 3"],
        "subspace": ["Fig. 1", "Fig. 2", "Fig. 3", "Table 1"],
        "transfer": ["Fig. 1", "Fig. 2", "Fig. 3"],
    }
    states = ("re-run on a substitute", "re-run", "not run, because", "nothing to run")
    for name, items in expected.items():
        rows = dict(re.findall(rf"^\| {name} \| ([^|]+) \| ([^|]+) \|", listed, re.MULTILINE))
        assert list(rows) == items
        assert all(state.strip().startswith(states) for state in rows.values())


# Fig. 1 of RLSC is a formula: it runs no experiment, and has no settings.
WITHOUT_SETTINGS = {"rlsc": {"fig1"}}


@pytest.mark.parametrize("name", PAPERS)
def test_every_part_of_a_report_has_its_settings(name):
    """Seeds, and every setting an experiment was run with, printed from the run."""
    results = json.loads((PAGES / name / "results.json").read_text("utf-8"))
    report = (PAGES / name / "report.md").read_text("utf-8")
    with_settings = {part for part, record in results["parts"].items() if record.get("settings")}
    assert set(results["parts"]) - with_settings == WITHOUT_SETTINGS.get(name, set())
    lines = report.splitlines()
    for part in with_settings:
        for experiment, values in results["parts"][part]["settings"].items():
            own = [line for line in lines if line.startswith(f"* `{experiment}`: ")]
            assert any(all(f"{setting} " in line for setting in values) for line in own)

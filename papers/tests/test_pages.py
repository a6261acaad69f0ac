"""The pages of docs/papers: every number stands in the part of the report that it is quoted from.

A paragraph, bullet or table names that part in a comment, ``<!-- from table1; fig2 -->``, at its
end or on a line of its own before it: parts of the page's report, ``settings`` for its lines of
settings, or ``deep: Table 2`` for a section of the report on networks. Rows of what did not
reproduce also name it by the table or figure of their claim. A number alone is no deviation, unless
the paragraph speaks of one, and ``a ± b`` has to stand there as a pair.

What is the paper's own stands in its file of published numbers. Numbers that are neither (years,
parameters, sizes of the data) are listed for each page, so that a new one has to be looked at.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from everlearn_papers.reproduce import PAPERS, parts

PAGES = Path(__file__).parents[2] / "docs" / "papers"
PUBLISHED = PAGES.parents[1] / "papers" / "src" / "everlearn_papers" / "published"
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")
PAIR = re.compile(r"(\d[\d,]*(?:\.\d+)?) ± (\d[\d,]*(?:\.\d+)?)")
FROM = re.compile(r"<!-- from (.*?) -->")
SETTINGS = re.compile(r"^\* `[^`]*`: .*$", re.MULTILINE)
# Numbers written in digits are compared from here on; smaller whole numbers count things.
LEAST_WHOLE = 20
# What the pages say of protocols, data and parameters, and no report repeats in digits.
KNOWN = {
    "rlsc": {"1e-3", "200", "1,000", "28"},
    "forests": {"1,300", "1,024", "0.05", "1,000", "1,280", "50", "100", "15,000", "20,000"},
    "slda": {"1e-4", "0.9", "1,280", "512", "1280", "20", "40", "50", "62"},
    "subspace": {"720", "100", "80"},
    "transfer": {"1,280", "60", "100", "256", "101", "2,000", "4,000"},
    # Sizes of pictures and of iCaRL's published memory.
    "not-reproduced": {"3.011", "224", "32"},
    # The network, pictures kept, and settings of the rivals' own papers.
    "deep": {"18", "0.001", "0.1", "50", "20", "100", "2,000", "30", "40"},
}
# A table, figure, equation or section, or several: "Fig. 9, 12", "Table 1a", "Sec. VI-C".
LABEL = re.compile(
    r"(Fig\.|Table|Eq\.|Sec\.) ([\dIVX]+(?:[.-][\dA-Z]+)*(?:(?:, | and )\d+(?![\d.,]))*)"
)
DATA_SETS = re.compile(r"\b(CIFAR|Caltech|COIL|ResNet|Omniglot)-\d+")


def numbers(text: str) -> set[str]:
    """Numbers that say something: with a decimal point, or not small."""
    found = set()
    for match in NUMBER.findall(text):
        plain = match.rstrip(",").replace(",", "")
        if "." in plain or int(plain) >= LEAST_WHOLE:
            found.add(match.rstrip(","))
    return found


def clean(text: str) -> str:
    """Text without comments, links, commands, code, and the numbers of figures and data sets."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = DATA_SETS.sub(r"\1", text)
    return LABEL.sub("", text)


@cache
def published(name: str) -> str:
    theirs = json.loads((PUBLISHED / f"{name}.json").read_text("utf-8"))
    return json.dumps(theirs, ensure_ascii=False)


@cache
def report(name: str) -> str:
    return (PAGES / name / "report.md").read_text("utf-8")


@cache
def sections(name: str) -> dict[str, str]:
    """A report by heading; settings apart from the rest."""
    found = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", report(name), re.MULTILINE | re.DOTALL)
    parts_found = {title: SETTINGS.sub("", body) for title, body in found}
    parts_found["top"] = report(name).partition("\n## ")[0]
    return parts_found


@cache
def headings(name: str) -> dict[str, str]:
    """The heading of each part of a report."""
    results = json.loads((PAGES / name / "results.json").read_text("utf-8"))
    return {part: record["title"] for part, record in results["parts"].items()}


def source(name: str, part: str) -> str:
    """The text that a comment on the page of a paper refers to."""
    if part.startswith("deep: "):
        start = part.removeprefix("deep: ")
        (title,) = [title for title in sections("deep") if title.startswith(start)]
        return sections("deep")[title]
    if part == "settings":
        return "\n".join(SETTINGS.findall(report(name)))
    return sections(name)[headings(name)[part]]


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Paragraphs, bullets and tables of a page, each with the parts named for it."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    ahead: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        for block in re.split(r"\n(?=\* )", paragraph):
            named = [part.strip() for group in FROM.findall(block) for part in group.split(";")]
            if not FROM.sub("", block).strip():
                ahead = named
                continue
            yield block, named + ahead
            ahead = []


def stands(number: str, reported: Iterable[str]) -> bool:
    """Whether a number is one of these, rounded to as many digits as it has, or as a per cent."""
    plain = float(number.replace(",", ""))
    digits = len(number.partition(".")[2])
    unit = 10.0**-digits
    for other in reported:
        bare = other.replace(",", "").rstrip(".")
        # Shares are printed with two digits or more.
        scales = (1, 100) if len(bare.partition(".")[2]) >= 2 else (1,)
        if any(abs(scale * float(bare) - plain) <= 0.5000001 * unit for scale in scales):
            return True
    return False


def pair_stands(pair: tuple[str, str], text: str) -> bool:
    """Whether a mean and its deviation stand side by side."""
    return any(
        stands(pair[0], [mean]) and stands(pair[1], [spread]) for mean, spread in PAIR.findall(text)
    )


def missing(block: str, text: str, theirs: str, known: set[str]) -> list[str]:
    """Numbers of a block that stand neither in a text nor among the published."""
    told = clean(block)
    pairs = PAIR.findall(told)
    alone = numbers(PAIR.sub("", told)) - known
    means = text if "deviat" in told else re.sub(r"± [\d.,]+", "", text)
    reported = NUMBER.findall(means) + NUMBER.findall(theirs)
    lost = [f"{mean} ± {spread}" for mean, spread in pairs if not pair_stands((mean, spread), text)]
    return sorted(lost + [number for number in alone if not stands(number, reported)])


def wrong(page: str, name: str) -> list[str]:
    """What is said in a page's blocks and not by the parts that they name."""
    found = []
    for block, named in blocks(page):
        text = "\n".join(source(name, part) for part in named)
        lost = missing(block, text, published(name), KNOWN[name])
        if lost:
            found.append(f"{' '.join(block.split())[:60]}…, from {named}: {lost}")
    return found


def test_a_number_matches_only_values_that_round_to_it():
    assert stands("4.2", ["1", "4.18"])
    assert stands("98", ["0.979"])
    assert not stands("4.2", ["4.26", "42"])
    assert not stands("20", ["0.2"])  # a setting, not a share of 20 %
    assert numbers("10 trees, 98 % of 1,300, and 0.5") == {"98", "1,300", "0.5"}


def test_a_number_of_another_part_or_a_deviation_is_not_accepted():
    text = "| a | 4.18 ± 0.72 |"
    assert missing("It makes 4.2 mistakes.", text, "", set()) == []
    assert missing("It makes 4.2 ± 0.7 mistakes.", text, "", set()) == []
    assert missing("It makes 0.7 mistakes.", text, "", set()) == ["0.7"]
    assert missing("The deviation is 0.7.", text, "", set()) == []
    assert missing("It makes 4.2 ± 0.8.", text, "", set()) == ["4.2 ± 0.8"]
    page = "<!-- from table1 -->\n\n| 4.2 |\n\nOf 4.2 <!-- from fig2; fig3 -->\n\n* 4.2\n* 4.3"
    assert [named for _, named in blocks(page)] == [["table1"], ["fig2", "fig3"], [], []]


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_of_a_page_is_in_the_part_it_is_quoted_from(name):
    assert wrong((PAGES / f"{name}.md").read_text("utf-8"), name) == []


@pytest.mark.parametrize("name", PAPERS)
def test_a_wrong_number_of_a_page_is_found(name):
    """Every number in turn is changed by a few units of its last digit."""
    caught = tried = 0
    for block, named in blocks((PAGES / f"{name}.md").read_text("utf-8")):
        text = "\n".join(source(name, part) for part in named)
        for number in numbers(PAIR.sub("", clean(block))) - KNOWN[name]:
            digits = len(number.partition(".")[2])
            for step in (-3, -2, -1, 1, 2, 3):
                value = float(number.replace(",", "")) + step * 10.0**-digits
                planted = re.sub(rf"(?<![\w.,]){number}(?!\w)", f"{abs(value):.{digits}f}", block)
                tried += 1
                caught += missing(planted, text, published(name), KNOWN[name]) != []
    assert caught > 0.5 * tried, f"{caught} of {tried}"


def test_every_number_of_the_page_on_networks_is_in_the_section_it_is_quoted_from():
    found = []
    for block, named in blocks((PAGES.parent / "deep.md").read_text("utf-8")):
        text = "\n".join(source("slda", part) for part in named)
        lost = missing(block, text, "", KNOWN["deep"])
        if lost:
            found.append(f"{' '.join(block.split())[:60]}…, from {named}: {lost}")
    assert found == []


def test_every_row_of_the_page_on_networks_is_a_row_of_its_report():
    """Other names and fewer columns; the numbers, but for the epochs, are those of one row."""
    page = (PAGES.parent / "deep.md").read_text("utf-8")
    (table,) = re.findall(r"^\| \| base \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    rows = [NUMBER.findall(line) for line in report("deep").splitlines() if line.startswith("| ")]
    for line in table.splitlines()[2:]:
        told = NUMBER.findall(" ".join(line.split("|")[2:-2]))
        assert any(all(stands(number, row) for number in told) for row in rows), line


def test_numbers_beside_a_link_to_a_paper_are_in_its_report():
    """What the guides quote of the papers."""
    known = {"9,000", "54"}  # examples and samples
    quoted = 0
    for guide in sorted(PAGES.parent.glob("*.md")):
        for line in guide.read_text("utf-8").splitlines():
            names = set(re.findall(r"\]\(papers/(\w+)\.md\)", line)) & set(PAPERS)
            if not names:
                continue
            texts = [SETTINGS.sub("", report(name)) for name in names]
            texts += [report("deep")] if "slda" in names else []
            theirs = "\n".join(published(name) for name in names)
            lost = missing(line, "\n".join(texts), theirs, known.union(*map(KNOWN.get, names)))
            assert lost == [], f"{guide.name} says what the report does not: {lost}"
            quoted += len(numbers(clean(line)))
    assert quoted


def labels(text: str) -> set[str]:
    """Tables, figures and sections named in a text."""
    return {
        f"{kind} {number}"
        for kind, listed in LABEL.findall(text)
        for number in re.split(", | and ", listed)
    }


def test_numbers_of_not_reproduced_results_are_in_the_report_of_their_paper():
    """Row by row, in the parts of the tables and figures that it names."""
    text = (PAGES / "not-reproduced.md").read_text("utf-8")
    tables = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    names = {"SLDA": "slda", "RLSC": "rlsc", "Forests": "forests"}
    names |= {"Subspace": "subspace", "Transfer": "transfer"}
    assert set(tables) == set(names)
    found = []
    for title, table in tables.items():
        name = names[title]
        titles = headings(name) | {f"deep: {t}": t for t in sections("deep") if title == "SLDA"}
        for row in table.splitlines():
            (named,) = [named for _, named in blocks(row)] or [[]]
            own = [part for part, heading in titles.items() if labels(heading) & labels(row)]
            text = "\n".join(source(name, part) for part in (*own, *named, "settings"))
            lost = missing(row, text, published(name), KNOWN[name] | KNOWN["not-reproduced"])
            found += [f"{row[:60]}…: {lost}"] if lost else []
    assert found == []


@pytest.mark.parametrize("name", ["forests", "slda", "subspace", "transfer"])
def test_a_page_names_its_substitutes_before_it_goes_on(name):
    """Around its first tables, not only at its end; RLSC begins with the data of the paper."""
    start, _, _ = (PAGES / f"{name}.md").read_text("utf-8").partition("```console")
    assert "**substitute" in start


@pytest.mark.parametrize("name", PAPERS)
def test_the_times_of_parts_are_those_of_the_reports(name):
    """Minutes of processor time, in the list and in the table of docs/papers/README.md."""
    listed = (PAGES / "README.md").read_text("utf-8")
    (line,) = re.findall(rf"^\| {name} \| (\w+ \d+\.\d, .*) \|$", listed, re.MULTILINE)
    told = {part: float(minutes) for part, minutes in re.findall(r"(\w+) (\d+\.\d)", line)}
    results = json.loads((PAGES / name / "results.json").read_text("utf-8"))
    measured = {part: record["seconds"] / 60 for part, record in results["parts"].items()}
    assert told == {part: pytest.approx(value, abs=0.06) for part, value in measured.items()}


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

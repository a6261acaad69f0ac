"""Renders a report as a self-contained HTML page, and its confusions as a plot."""

import base64
import os
from html import escape
from pathlib import Path

import numpy as np

from everlearn.evaluation.plots import confusion_matrix, save_figure
from everlearn.memory.insight.report import Report
from everlearn.persistence import replace_file

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;
border-bottom:1px solid #ddd}.pictures{display:flex;flex-wrap:wrap;gap:.8rem}
figure{margin:0;width:8rem;font-size:.8rem;overflow-wrap:anywhere}img{max-width:8rem}
.bar{background:#e8eef5;position:relative;height:1rem;width:12rem}.bar i{position:absolute;
background:#37c;height:1rem;left:0}
"""
# At most this many pictures per section.
MOST_PICTURES = 60
MOST_NAMES_PLOTTED = 60


def write_page(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page; all names and sources are escaped."""
    low, high = report.accuracy.interval
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta http-equiv=Content-Security-Policy "
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">",
        f"<title>What the Memory knows</title><style>{STYLE}</style>",
        f"<h1>{report.accuracy.share:.1%} right</h1>",
        f"<p>Each of {report.accuracy.of} teachings was asked about as if it were new. "
        f"For new pictures like these, expect between {low:.1%} and {high:.1%}.</p>",
        "<table><tr><th>name<th>teachings<th>right<th><th>what to show next",
        *(_row(report, name) for name in report.per_name),
        "</table>",
    ]
    if report.confused_pairs:
        rows = (
            f"<tr><td>{escape(true)}<td>{escape(said)}<td>{count}"
            for true, said, count in report.confused_pairs[:30]
        )
        parts += ["<h2>Confused</h2><table><tr><th>shown<th>answered<th>times", *rows, "</table>"]
    mislabelled = [
        (s.id, f"{s.name}, looks like {s.looks_like} ({s.probability:.0%})")
        for s in report.mislabelled
    ]
    pairs = [
        (number, f"like {b if number == a else a}")
        for a, b, _ in report.near_duplicates
        for number in (a, b)
    ]
    parts += _pictures("Perhaps under the wrong name", mislabelled, report)
    parts += _pictures("The same thing twice", pairs, report)
    parts += _pictures("Blurred", [(number, "") for number in report.blurred], report)
    parts += _pictures("Dark", [(number, "") for number in report.dark], report)
    replace_file(Path(path), "\n".join(parts).encode())


def plot_confusions(report: Report, path: str | os.PathLike[str]) -> None:
    """Draw how often each name was taken for each other, for the names recognised worst."""
    worst = sorted(report.per_name, key=lambda name: report.per_name[name].share)
    names = sorted(worst[:MOST_NAMES_PLOTTED])
    place = {name: index for index, name in enumerate(names)}
    counts = np.diag([float(report.per_name[name].right) for name in names])
    for true, said, count in report.confused_pairs:
        if true in place and said in place:
            counts[place[true], place[said]] = count
    title = f"{report.accuracy.share:.1%} of {report.accuracy.of} right, each left out"
    save_figure(confusion_matrix(counts, names, title=title), path)


def _row(report: Report, name: str) -> str:
    """The row of a name in the table."""
    found = report.per_name[name]
    low, high = found.interval
    bar = f"<div class=bar><i style='width:{100 * found.share:.0f}%'></i></div>"
    return (
        f"<tr><td>{escape(name)}<td>{found.of}<td>{found.share:.0%} ({low:.0%} to {high:.0%})"
        f"<td>{bar}<td>{escape(report.advice.get(name, ''))}"
    )


def _pictures(title: str, found: list[tuple[int, str]], report: Report) -> list[str]:
    """A section of pictures, given as ids and captions; empty without any."""
    if not found:
        return []
    figures = [_figure(number, words, report) for number, words in found[:MOST_PICTURES]]
    return [f"<h2>{title} ({len(found)})</h2><div class=pictures>", *figures, "</div>"]


def _figure(number: int, words: str, report: Report) -> str:
    jpeg = report.thumbnails.get(number)
    image = ""
    if jpeg is not None:
        image = f"<img src='data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}' alt=''>"
    return f"<figure>{image}<figcaption>{number} {escape(words)}</figcaption></figure>"

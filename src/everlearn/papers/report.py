"""What a re-run paper consists of, and how it is written down."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.evaluation.repeat import Result, repeat
from everlearn.evaluation.table import Table
from everlearn.persistence import replace_file


@dataclass
class Section:
    """One table or figure of a paper, as measured."""

    title: str
    data: str
    text: str
    table: Table = field(default_factory=Table)
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass
class Setting:
    """How a paper is re-run."""

    quick: bool
    seeds: int | None
    folder: Path
    jobs: int = 1

    def n_seeds(self, usual: int) -> int:
        """How many seeds: as asked, else one when it must be quick, else as usual."""
        return self.seeds or (1 if self.quick else usual)

    def repeat(
        self, experiment: Callable[..., Result], part: str, usual: int, **settings: Any
    ) -> list[Result]:
        """Run an experiment for all seeds, resuming from what this part left on disk."""
        return repeat(
            experiment,
            range(self.n_seeds(usual)),
            settings=settings,
            folder=self.folder / "runs" / part,
            jobs=self.jobs,
        )


def published(paper: str) -> dict[str, Any]:
    """The published numbers of a paper, each with the table or figure it is from."""
    text = files("everlearn.papers").joinpath("published", f"{paper}.json").read_text("utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


def spread(values: ArrayLike) -> str:
    """Mean ± standard deviation, as the papers print them."""
    runs = np.asarray(values, float)
    return f"{runs.mean():.1f} ± {runs.std():.1f}" if len(runs) > 1 else f"{runs.mean():.1f}"


def write(
    folder: Path, title: str, sections: dict[str, Section], *, quick: bool, command: str
) -> Path:
    """``report.md``, ``results.json`` and one PNG per figure; gives the path of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", "", f"Made by `{command}`.", ""]
    if quick:
        lines += ["**Quick run**: fewer seeds and less data than the full one.", ""]
    for part, section in sections.items():
        lines += [f"## {section.title}", "", f"*Data*: {section.data}", "", section.text, ""]
        if len(section.table):
            lines += [section.table.to_markdown(), ""]
        for name, drawn in section.figures.items():
            path = f"{part}-{name}.png" if name else f"{part}.png"
            drawn.savefig(folder / path, dpi=110)
            lines += [f"![{section.title}]({path})", ""]
    results = {
        part: {"title": s.title, "data": s.data, "rows": json.loads(s.table.to_json())}
        for part, s in sections.items()
    }
    text = json.dumps({"title": title, "quick": quick, "parts": results}, indent=1)
    replace_file(folder / "results.json", text.encode())
    replace_file(folder / "report.md", "\n".join(lines).encode())
    return folder / "report.md"

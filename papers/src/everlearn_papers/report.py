"""What a re-run paper consists of, and how it is written down.

``results.json`` holds every part (table or figure) that was made, each with the command that made
it and the processor time it took; ``report.md`` is written from it. A part made anew takes the
place of the one before, the others stay: the report is the union of what was made in its folder, in
the paper's order.

A folder holds full runs or quick ones, never both. A full run puts quick parts aside; a quick run
does not touch a folder of full ones (:class:`~everlearn.errors.OtherResults`).
"""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from everlearn.evaluation.table import Table
from everlearn.persistence import replace_file
from everlearn_papers.errors import OtherResults
from everlearn_papers.repeat import VERSION, Result, processor_seconds, repeat

Record = dict[str, Any]
RECORDED = ("title", "data", "text", "table", "rows", "figures", "command", "version")
DOTS_PER_INCH = 110
LEFT_OUT = "left out, because they take long"


@dataclass
class Section:
    """One table or figure of a paper, as measured.

    ``text`` says what is shown; ``conclusions`` what was found, which a quick run does not show:
    it has fewer seeds and less data than what was concluded from.
    """

    title: str
    data: str
    text: str
    table: Table = field(default_factory=Table)
    figures: dict[str, Any] = field(default_factory=dict)
    conclusions: str = ""

    def with_conclusions(self) -> str:
        return f"{self.text} {self.conclusions}".rstrip()


@dataclass(frozen=True)
class Progress:
    """Where a run is: the part being made, and its experiments done out of those known so far."""

    part: str
    number: int
    n_parts: int
    done: int = 0
    known: int = 0


class Watch:
    """Tells somebody whenever the progress changes, and in the end what a part took."""

    def __init__(self, tell: Callable[[Progress], None] | None) -> None:
        self._tell = tell
        self._now = Progress("", 0, 0)
        self._start = self._earlier = 0.0
        self._settings: dict[str, dict[str, list[Any]]] = {}

    def begin(self, part: str, number: int, n_parts: int) -> None:
        self._start, self._earlier = processor_seconds(), 0.0
        self._settings = {}
        self._say(Progress(part, number, n_parts))

    def resumed(self, seconds: float) -> None:
        """An experiment of this part was found on disk, and had taken so long."""
        self._earlier += seconds

    def seconds(self) -> float:
        """Processor seconds of all that this part consists of, whenever it was run.

        An experiment that two parts read counts in both.
        """
        return processor_seconds() - self._start + self._earlier

    def runs(self, experiment: str, seeds: int, settings: dict[str, Any]) -> None:
        """An experiment is run for so many seeds with these settings."""
        known = self._settings.setdefault(experiment, {})
        for name, value in ({"seeds": seeds} | settings).items():
            values = known.setdefault(name, [])
            if value not in values:
                values.append(value)

    @property
    def settings(self) -> dict[str, dict[str, list[Any]]]:
        """By experiment of this part: each setting, with the values it was run with."""
        return self._settings

    def expect(self, n_experiments: int) -> None:
        self._say(replace(self._now, known=self._now.known + n_experiments))

    def finished(self) -> None:
        self._say(replace(self._now, done=self._now.done + 1))

    def _say(self, now: Progress) -> None:
        self._now = now
        if self._tell:
            self._tell(now)


@dataclass
class Setting:
    """How a paper is re-run."""

    quick: bool
    seeds: int | None
    folder: Path
    jobs: int = 1
    watch: Watch = field(default_factory=lambda: Watch(None))

    def n_seeds(self, usual: int) -> int:
        """How many seeds: as asked, else one when it must be quick, else as usual."""
        return self.seeds or (1 if self.quick else usual)

    def once(self) -> "Setting":
        """The same for what is run once, however many seeds are asked for elsewhere."""
        return replace(self, seeds=1)

    def repeat(
        self, experiment: Callable[..., Result], part: str, usual: int, **settings: Any
    ) -> list[Result]:
        """Run an experiment for all seeds, resuming from what this part left on disk."""
        seeds = range(self.n_seeds(usual))
        self.watch.runs(experiment.__name__, len(seeds), settings)
        self.watch.expect(len(seeds))
        return repeat(
            experiment,
            seeds,
            settings=settings,
            folder=self.folder / "runs" / ("quick" if self.quick else "full") / part,
            jobs=self.jobs,
            progress=self.watch.finished,
            resumed=self.watch.resumed,
        )


def published(paper: str) -> dict[str, Any]:
    """The published numbers of a paper, each with the table or figure it is from."""
    text = files("everlearn_papers").joinpath("published", f"{paper}.json").read_text("utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


def took(record: Record) -> str:
    """The processor time of a part, where it was measured."""
    seconds = record.get("seconds")
    if seconds is None:
        return ""
    time = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
    return f", took {time} of processor time"


def spread(values: ArrayLike) -> str:
    """Mean ± standard deviation, as the papers print them."""
    runs = np.asarray(values, float)
    return f"{runs.mean():.1f} ± {runs.std():.1f}" if len(runs) > 1 else f"{runs.mean():.1f}"


class Report:
    """The report in one folder: what is there is kept, what is added replaces its namesake.

    Parameters
    ----------
    folder : where ``report.md``, ``results.json`` and the figures are
    title : of the paper
    parts : names of all its parts, in the paper's order
    long : those of them that are made when they are asked for
    quick : whether this is a quick run
    making : the parts about to be made; what else is in the folder has to be kept

    Raises
    ------
    OtherResults
        The folder holds what cannot stand beside the new parts. Nothing was changed.
    """

    def __init__(
        self,
        folder: Path,
        title: str,
        parts: list[str],
        *,
        long: Collection[str] = (),
        quick: bool,
        making: list[str],
    ) -> None:
        self.folder = folder
        self.title = title
        self.parts = parts
        self.long = long
        self.quick = quick
        self._aside: list[str] = []  # figures of quick parts that a full run takes the place of
        self._records = self._kept(making)

    @property
    def path(self) -> Path:
        return self.folder / "report.md"

    def add(
        self,
        part: str,
        section: Section,
        command: str,
        seconds: float,
        settings: dict[str, dict[str, list[Any]]] | None = None,
    ) -> None:
        """Write one part: its figures, then the results, then the report.

        ``seconds`` is the processor time it took, not a number where that is not known;
        ``settings`` those of its experiments, as :class:`Watch` has them.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in self._aside:
            if name.endswith(".png") and Path(name).name == name:
                (self.folder / name).unlink(missing_ok=True)
        self._aside = []
        figures = []
        for name, drawn in section.figures.items():
            figures.append(f"{part}-{name}.png" if name else f"{part}.png")
            drawn.savefig(self.folder / figures[-1], dpi=DOTS_PER_INCH)
        self._records[part] = {
            "title": section.title,
            "data": section.data,
            "text": section.text if self.quick else section.with_conclusions(),
            "table": section.table.to_markdown() if len(section.table) else "",
            "rows": json.loads(section.table.to_json()),
            "figures": figures,
            "command": command,
            "version": VERSION,
            "seconds": None if math.isnan(seconds) else round(seconds, 1),
            "settings": settings or {},
        }
        made = {name: self._records[name] for name in self.parts if name in self._records}
        results = {"title": self.title, "quick": self.quick, "parts": made}
        replace_file(self.folder / "results.json", json.dumps(results, indent=1).encode())
        replace_file(self.path, self._text(made).encode())

    def _text(self, made: dict[str, Record]) -> str:
        lines = [f"# {self.title}", ""]
        if self.quick:
            lines += ["**Quick run**: fewer seeds and less data than the full one.", ""]
        missing = [name for name in self.parts if name not in made]
        expected = [name for name in missing if name not in self.long]
        if expected:
            lines += [f"Not made yet: {', '.join(expected)}.", ""]
        for record in made.values():
            lines += [f"## {record['title']}", "", f"*Data*: {record['data']}", ""]
            lines += [record["text"], ""]
            if record["table"]:
                lines += [record["table"], ""]
            for path in record["figures"]:
                lines += [f"![{record['title']}]({path})", ""]
            lines += _settings_in_words(record.get("settings", {}))
            version = f"(everlearn {record['version']})"
            lines += [f"Made by `{record['command']}` {version}{took(record)}.", ""]
        left_out = [name for name in missing if name in self.long]
        if left_out:
            lines += [f"{LEFT_OUT.capitalize()}: {', '.join(left_out)}; `--long` makes them.", ""]
        return "\n".join(lines)

    def _kept(self, making: list[str]) -> dict[str, Record]:
        path = self.folder / "results.json"
        if not path.exists():
            return {}
        try:
            found = json.loads(path.read_text("utf-8"))
            title, quick, parts = found["title"], found["quick"], dict(found["parts"])
            complete = all(set(RECORDED) <= set(record) for record in parts.values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise OtherResults(
                f"{path} is not a file of results, and would be replaced; {_elsewhere(path)}"
            ) from None
        if title != self.title:
            raise OtherResults(f"{self.folder} holds another paper: {title}; {_elsewhere(path)}")
        if self.quick and not quick:
            raise OtherResults(
                f"{self.folder} holds a full run, which a quick one does not replace; "
                f"{_elsewhere(path)}"
            )
        if quick != self.quick:
            self._aside = [name for record in parts.values() for name in record.get("figures", [])]
            return {}
        lost = set(parts) - set(making)
        if lost and not complete:
            raise OtherResults(
                f"{path} is of an earlier version of everlearn, from which "
                f"{', '.join(sorted(lost))} cannot be kept; run the whole paper, or "
                f"{_elsewhere(path)}"
            )
        return parts if complete else {}


def _settings_in_words(settings: dict[str, dict[str, list[Any]]]) -> list[str]:
    """What each experiment of a part was run with, as a list; several values of one stand apart."""
    lines = []
    for experiment, values in settings.items():
        words = [f"{name} {' | '.join(map(_value, each))}" for name, each in values.items()]
        lines.append(f"* `{experiment}`: {', '.join(words)}")
    return ["Settings:", "", *lines, ""] if lines else []


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return f"({' '.join(map(_value, value))})"
    if isinstance(value, dict):
        return f"({' '.join(f'{key}: {_value(each)}' for key, each in value.items())})"
    return str(value)


def _elsewhere(path: Path) -> str:
    return f"write to another folder (--out), or delete {path}"

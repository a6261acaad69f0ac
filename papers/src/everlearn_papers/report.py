"""The report of a re-run paper: its parts, and the files they are written to.

``results.json`` holds every finished part (table or figure) with the command that produced it and
its processor time; ``report.md`` is generated from it. Running a part again replaces its entry and
keeps the others: the report is the union of all parts run in its folder, in the paper's order.

A folder holds full runs or quick ones, never both. A full run discards quick parts; a quick run
refuses a folder of full ones (:class:`~everlearn_papers.errors.OtherResults`).
"""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from importlib import import_module
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
SKIPPED = "left out, because they take long"


@dataclass
class Section:
    """One table or figure of a paper, as measured.

    ``text`` describes the measurement. ``conclusions`` hold for the full run only: a quick run has
    fewer seeds and less data, and omits them.
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
    """Progress of a run: the current part, its finished and its scheduled experiments."""

    part: str
    number: int
    n_parts: int
    done: int = 0
    known: int = 0


class Watch:
    """Reports progress to a callback; records the processor time and settings of each part."""

    def __init__(self, tell: Callable[[Progress], None] | None) -> None:
        self._tell = tell
        self._now = Progress("", 0, 0)
        self._start = self._earlier = 0.0
        self._settings: dict[str, dict[str, list[Any]]] = {}
        self._read: set[Path] = set()

    def begin(self, part: str, number: int, n_parts: int) -> None:
        self._start, self._earlier = processor_seconds(), 0.0
        self._settings, self._read = {}, set()
        self._say(Progress(part, number, n_parts))

    def resumed(self, seconds: float) -> None:
        """Count the processor seconds of an experiment of this part that was loaded from disk."""
        self._earlier += seconds

    def seconds(self) -> float:
        """Processor seconds of this part, including experiments loaded from disk.

        An experiment used by two parts counts in both, one used twice by a part counts once.
        """
        return processor_seconds() - self._start + self._earlier

    def reads(self, folder: Path) -> bool:
        """Note that this part uses the experiments of a folder; return whether it did before."""
        known = folder in self._read
        self._read.add(folder)
        return known

    def runs(self, experiment: str, seeds: int, settings: dict[str, Any]) -> None:
        """Record the settings and the number of seeds of an experiment."""
        known = self._settings.setdefault(experiment, {})
        for name, value in ({"seeds": seeds} | settings).items():
            values = known.setdefault(name, [])
            if value not in values:
                values.append(value)

    @property
    def settings(self) -> dict[str, dict[str, list[Any]]]:
        """Values of each setting used in this part, by experiment and setting name."""
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
        """Number of seeds: ``seeds`` if given, one in a quick run, else ``usual``."""
        return self.seeds or (1 if self.quick else usual)

    def once(self) -> "Setting":
        """A copy with one seed, for experiments that are run only once."""
        return replace(self, seeds=1)

    def repeat(
        self, experiment: Callable[..., Result], part: str, usual: int, **settings: Any
    ) -> list[Result]:
        """Run an experiment for all seeds; results of this part found on disk are reused."""
        seeds = range(self.n_seeds(usual))
        self.watch.runs(experiment.__name__, len(seeds), settings | fixed_settings(experiment))
        self.watch.expect(len(seeds))
        folder = self.folder / "runs" / ("quick" if self.quick else "full") / part
        return repeat(
            experiment,
            seeds,
            settings=settings,
            folder=folder,
            jobs=self.jobs,
            progress=self.watch.finished,
            resumed=None if self.watch.reads(folder) else self.watch.resumed,
        )


def fixed_settings(experiment: Callable[..., Result]) -> dict[str, Any]:
    """Settings that every run of an experiment shares: ``SETTINGS`` of its module, by name."""
    fixed: dict[str, Any] = getattr(import_module(experiment.__module__), "SETTINGS", {})
    return fixed


def published(paper: str) -> dict[str, Any]:
    """Published numbers of a paper, by table or figure."""
    text = files("everlearn_papers").joinpath("published", f"{paper}.json").read_text("utf-8")
    numbers: dict[str, Any] = json.loads(text)
    return numbers


def took(record: Record) -> str:
    """Processor time of a part in words; empty if it was not measured."""
    seconds = record.get("seconds")
    if seconds is None:
        return ""
    time = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
    return f", took {time} of processor time"


def spread(values: ArrayLike) -> str:
    """Mean ± standard deviation with one decimal; the mean alone for a single value."""
    runs = np.asarray(values, float)
    return f"{runs.mean():.1f} ± {runs.std():.1f}" if len(runs) > 1 else f"{runs.mean():.1f}"


class Report:
    """The report in one folder; adding a part replaces the earlier part of the same name.

    Parameters
    ----------
    folder : folder of ``report.md``, ``results.json`` and the figures
    title : title of the paper
    parts : names of all its parts, in the paper's order
    long : names of the parts that run only on request
    quick : whether this is a quick run
    making : the parts about to be run; all other parts in the folder must be kept

    Raises
    ------
    OtherResults
        The folder holds results that cannot be combined with the new parts. Nothing was changed.
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
        self._aside: list[str] = []  # figures of quick parts to delete
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

        ``seconds`` is its processor time, nan if unknown; ``settings`` are those of its
        experiments (:attr:`Watch.settings`).
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
        skipped = [name for name in missing if name in self.long]
        if skipped:
            lines += [f"{SKIPPED.capitalize()}: {', '.join(skipped)}; `--long` makes them.", ""]
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
                f"{path} is not a file of results, and would be replaced; {_other_folder(path)}"
            ) from None
        if title != self.title:
            raise OtherResults(f"{self.folder} holds another paper: {title}; {_other_folder(path)}")
        if self.quick and not quick:
            raise OtherResults(
                f"{self.folder} holds a full run, which a quick one does not replace; "
                f"{_other_folder(path)}"
            )
        if quick != self.quick:
            self._aside = [name for record in parts.values() for name in record.get("figures", [])]
            return {}
        lost = set(parts) - set(making)
        if lost and not complete:
            raise OtherResults(
                f"{path} is of an earlier version of everlearn, from which "
                f"{', '.join(sorted(lost))} cannot be kept; run the whole paper, or "
                f"{_other_folder(path)}"
            )
        return parts if complete else {}


def _settings_in_words(settings: dict[str, dict[str, list[Any]]]) -> list[str]:
    """Markdown list of the settings of each experiment; several values are separated by ``|``."""
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


def _other_folder(path: Path) -> str:
    return f"write to another folder (--out), or delete {path}"

"""Re-run a paper, or one of its tables and figures."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from everlearn.errors import UnknownExperiment
from everlearn.papers.report import Setting, write

PAPERS = {
    "rlsc": "everlearn.papers.rlsc",
    "forests": "everlearn.papers.forests",
    "slda": "everlearn.papers.slda",
    "transfer": "everlearn.papers.transfer",
}


def parts(name: str) -> list[str]:
    """The tables and figures of a paper that can be re-run."""
    if name not in PAPERS:
        raise UnknownExperiment(f"unknown paper {name!r}; there are {', '.join(PAPERS)}")
    return list(import_module(PAPERS[name]).PARTS)


def reproduce(
    name: str,
    *,
    only: str | None = None,
    quick: bool = False,
    seeds: int | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[], None] | None = None,
) -> Path:
    """Re-run a paper; gives the path of ``report.md``, beside which are its results and figures.

    Parameters
    ----------
    name : one of ``PAPERS``
    only : one table or figure, for instance ``"table1"``
    quick : less data and one seed; shows that it runs, not what the paper shows
    seeds : how many random repetitions; by default as many as the paper has
    out : folder; by default ``out/NAME``. Finished seeds found there are not run again
    jobs : processes, each with one thread
    progress : called once for every table or figure done
    """
    available = parts(name)
    if only is not None and only not in available:
        raise UnknownExperiment(f"{name} has no part {only!r}; there are {', '.join(available)}")
    module = import_module(PAPERS[name])
    folder = Path(out) if out is not None else Path("out") / name
    setting = Setting(quick, seeds, folder, jobs)
    sections = {}
    for part in available if only is None else [only]:
        sections[part] = module.PARTS[part](setting)
        if progress:
            progress()
    command = f"everlearn reproduce {name}"
    command += f" --only {only}" if only else ""
    command += " --quick" if quick else ""
    command += f" --seeds {seeds}" if seeds else ""
    return write(folder, module.TITLE, sections, quick=quick, command=command)

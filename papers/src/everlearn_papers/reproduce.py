"""Re-run a paper, or one of its tables and figures."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from everlearn.errors import MissingData
from everlearn_papers.errors import UnknownExperiment
from everlearn_papers.report import Progress, Report, Setting, Watch

PAPERS = {
    "rlsc": "everlearn_papers.rlsc.paper",
    "forests": "everlearn_papers.forests.paper",
    "slda": "everlearn_papers.slda.paper",
    "subspace": "everlearn_papers.subspace.paper",
    "transfer": "everlearn_papers.transfer.paper",
}


def parts(name: str) -> list[str]:
    """The tables and figures of a paper that can be re-run."""
    if name not in PAPERS:
        raise UnknownExperiment(f"unknown paper {name!r}; there are {', '.join(PAPERS)}")
    return list(import_module(PAPERS[name]).PARTS)


def long_parts(name: str) -> list[str]:
    """Those of its parts that take long, and are made when asked for: ``LONG`` of its module."""
    available = parts(name)
    long = getattr(import_module(PAPERS[name]), "LONG", ())
    return [part for part in available if part in long]


def reproduce(
    name: str,
    *,
    only: str | None = None,
    quick: bool = False,
    long: bool = False,
    seeds: int | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Path:
    """Re-run a paper; gives the path of ``report.md``, beside which are its results and figures.

    The report is written anew after every part, together with the parts that earlier runs of the
    same kind left in the folder.

    Parameters
    ----------
    name : one of ``PAPERS``
    only : one table or figure, for instance ``"table1"``
    quick : less data and one seed; shows that it runs, not what the paper shows
    long : also what takes long (:func:`long_parts`); a quick run, or one part, needs no asking
    seeds : how many random repetitions; by default as many as the paper has, or where those take
        long, fewer
    out : folder; by default ``out/NAME``. Finished seeds found there are not run again
    jobs : processes, each with one thread
    progress : called with where the run is, for every part begun and every experiment done

    Raises
    ------
    MissingData
        Parts whose data is not there were left out; all others were made.
    OtherResults
        The folder holds results that must not be mixed with these; nothing was run.
    """
    available = parts(name)
    if only is not None and only not in available:
        raise UnknownExperiment(f"{name} has no part {only!r}; there are {', '.join(available)}")
    module = import_module(PAPERS[name])
    folder = Path(out) if out is not None else Path("out") / name
    slow = long_parts(name)
    making = [only] if only else [part for part in available if long or quick or part not in slow]
    report = Report(folder, module.TITLE, available, long=slow, quick=quick, making=making)
    watch = Watch(progress)
    setting = Setting(quick, seeds, folder, jobs, watch)
    missing: dict[str, list[str]] = {}
    for number, part in enumerate(making, start=1):
        watch.begin(part, number, len(making))
        try:
            section = module.PARTS[part](setting)
        except MissingData as error:
            missing.setdefault(str(error), []).append(part)
            continue
        command = _command(name, only, quick, long, seeds)
        report.add(part, section, command, watch.seconds(), watch.settings)
    if missing:
        raise MissingData(
            "; ".join(f"{name}, {', '.join(left)}: {why}" for why, left in missing.items())
        )
    return report.path


def _command(name: str, only: str | None, quick: bool, long: bool, seeds: int | None) -> str:
    command = f"everlearn reproduce {name}"
    command += f" --only {only}" if only else ""
    command += " --quick" if quick else ""
    command += " --long" if long else ""
    return command + (f" --seeds {seeds}" if seeds else "")

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
    """Names of the tables and figures of a paper that can be re-run."""
    if name not in PAPERS:
        raise UnknownExperiment(f"unknown paper {name!r}; there are {', '.join(PAPERS)}")
    return list(import_module(PAPERS[name]).PARTS)


def long_parts(name: str) -> list[str]:
    """Names of the slow parts (``LONG`` of its module), which run only on request."""
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
    """Re-run a paper; return the path of ``report.md``; results and figures are beside it.

    The report is rewritten after every part. It includes the parts that earlier runs of the same
    kind (quick or full) left in the folder.

    Parameters
    ----------
    name : one of ``PAPERS``
    only : one table or figure, for instance ``"table1"``
    quick : less data and one seed; checks that it runs, the numbers mean little
    long : also run :func:`long_parts`; implied by ``quick``, and by ``only`` for that part
    seeds : number of random repetitions; by default those of the paper, or fewer if slow
    out : folder; by default ``out/NAME``. Finished seeds found there are not run again
    jobs : number of processes, each with one thread
    progress : called whenever a part starts or an experiment is finished

    Raises
    ------
    MissingData
        Parts whose data is missing were skipped; all others were run.
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

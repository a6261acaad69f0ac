"""Commands that ask a Learner and leave it as it is."""

import sys
from pathlib import Path
from typing import Any

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_json, print_table, progress, when
from everlearn.memory.answers import Answers
from everlearn.memory.evaluate import evaluate as evaluate_files
from everlearn.memory.evaluate import plot_confusion
from everlearn.memory.folders import labelled_files

# So many mistakes are listed.
MOST_MISTAKES = 10


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--top", default=3, show_default=True, help="How many answers each.")
@as_json
@click.pass_context
def ask(ctx: click.Context, files: tuple[Path, ...], top: int, as_json: bool) -> None:
    """What is on these images?"""
    results = list(opened(ctx, read_only=True).ask_many(files, top=top))
    if as_json:
        print_json([_described(file, found) for file, found in zip(files, results, strict=True)])
    else:
        rows = [
            [str(file), _verdict(found), _alternatives(found)]
            for file, found in zip(files, results, strict=True)
        ]
        print_table(["file", "answer", "also possible"], rows)
    if any(isinstance(found, Exception) for found in results):
        sys.exit(1)


@click.command()
@as_json
@click.pass_context
def names(ctx: click.Context, as_json: bool) -> None:
    """List what is known."""
    known = opened(ctx, read_only=True).names()
    if as_json:
        print_json({name: vars(record) for name, record in known.items()})
    else:
        print_table(
            ["name", "teachings", "last taught"],
            [[name, str(r.count), when(r.last_taught)] for name, r in known.items()],
        )


@click.command()
@as_json
@click.pass_context
def info(ctx: click.Context, as_json: bool) -> None:
    """Describe the Learner: size, classifier, embedder."""
    facts = opened(ctx, read_only=True).info()
    if as_json:
        print_json(facts)
    else:
        print_table(["what", "value"], [[key, str(value)] for key, value in facts.items()])


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the confusions to this file.")
@as_json
@click.pass_context
def evaluate(ctx: click.Context, folder: Path, plot: Path | None, as_json: bool) -> None:
    """Ask about a folder of folders and count right answers."""
    files = list(labelled_files([folder]))
    with progress("asking", len(files)) as step:
        result = evaluate_files(opened(ctx, read_only=True), files, progress=step)
    if plot is not None:
        plot_confusion(result, plot)
    if as_json:
        print_json(
            {
                "accuracy": result.accuracy if result.n_known else None,
                "images": result.n_known,
                "called_unknown": result.flagged_known,
                "unknown_images": result.n_unknown,
                "unknown_called_unknown": result.flagged_unknown,
                "per_name": {
                    name: {"right": right, "images": of}
                    for name, (right, of) in result.per_name().items()
                },
                "mistakes": [
                    {"name": true, "answered": said, "times": count}
                    for true, said, count in result.mistakes()
                ],
                "unreadable": [{"file": f, "error": e} for f, e in result.unreadable],
            }
        )
        return
    if result.n_known:
        click.echo(f"{result.accuracy:.1%} of {result.n_known} images right")
        click.echo(f"{result.flagged_known / result.n_known:.1%} of them called unknown")
    if result.n_unknown:
        share = result.flagged_unknown / result.n_unknown
        click.echo(f"{share:.1%} of {result.n_unknown} images of unknown names called unknown")
    for file, error in result.unreadable:
        click.echo(f"not asked: {file}: {error}", err=True)
    mistakes = result.mistakes()[:MOST_MISTAKES]
    if mistakes:
        rows = [[true, said, str(count)] for true, said, count in mistakes]
        print_table(["shown", "answered", "times"], rows, title="most frequent mistakes")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@as_json
@click.pass_context
def export(ctx: click.Context, file: Path, as_json: bool) -> None:
    """Write the classifier to one ONNX file."""
    learner = opened(ctx, read_only=True)
    learner.export(file)
    if as_json:
        print_json({"file": str(file), "names": list(learner.names())})
    else:
        click.echo(f"wrote {file}: features in, probabilities of {len(learner.names())} names out")


def _described(file: Path, found: Answers | Exception) -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"file": str(file), "error": str(found)}
    return {
        "file": str(file),
        "unknown": found.unknown,
        "familiarity": found.familiarity if found else None,
        "answers": [vars(answer) for answer in found],
    }


def _verdict(found: Answers | Exception) -> str:
    if isinstance(found, Exception):
        return f"error: {found}"
    if found.unknown:
        return "unknown"
    return f"{found[0].name} {found[0].probability:.0%}"


def _alternatives(found: Answers | Exception) -> str:
    if isinstance(found, Exception):
        return ""
    rest = found if found.unknown else found[1:]
    return ", ".join(f"{answer.name} {answer.probability:.0%}" for answer in rest)

"""The command that teaches large data sets, on one machine or a cluster."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import click

from everlearn.cli.context import opened
from everlearn.cli.output import PLAIN_SECONDS, as_json, notify, print_result, say
from everlearn.cluster import Progress, fit
from everlearn.errors import InvalidInput
from everlearn.images.shipped import default_embedder
from everlearn.memory.model.classifiers import default_classifier
from everlearn.memory.storage.postgres.address import PostgresAddress
from everlearn.memory.words import counted
from everlearn.persistence import save
from everlearn.workflows import ingest as workflow


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--on",
    "engine",
    default="local",
    show_default=True,
    metavar="ENGINE",
    help="local, dask, ray, spark, or an address: dask://HOST:8786, ray://…, spark://…",
)
@click.option("--workers", type=int, help="Processes of --on local; by default one per core.")
@click.option(
    "--embedder",
    help="The network; also pixels-16, or an ONNX file.  [default: that of the Memory]",
)
@click.option(
    "--checkpoint",
    metavar="ADDRESS",
    help="Folder or bucket for finished parts; by default beside the model.",
)
@click.option(
    "--keep-shards",
    is_flag=True,
    help="Keep the statistics of each shard, so that it can be unlearned.",
)
@click.option("--skip-bad", is_flag=True, help="Leave out what cannot be read, and list it.")
@click.option(
    "--model",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a model file instead of teaching the Memory.",
)
@as_json
@click.pass_context
def ingest(
    ctx: click.Context,
    sources: tuple[str, ...],
    engine: str,
    workers: int | None,
    embedder: str | None,
    checkpoint: str | None,
    keep_shards: bool,
    skip_bad: bool,
    model: Path | None,
) -> None:
    """Teach from any number of tar files, folders or tables, on one machine or many.

    If it is interrupted, run the same command to continue.
    """
    place = Path(ctx.obj.name) if isinstance(ctx.obj, PostgresAddress) else ctx.obj
    parts = checkpoint or f"{(model or place).absolute()}.parts"
    on_bad: Literal["raise", "skip"] = "skip" if skip_bad else "raise"
    if model is None:
        try:
            workflow.image_shards(sources)
        except InvalidInput as error:
            raise click.UsageError(str(error)) from None
        memory = opened(ctx)
        found = workflow.ingest(
            memory,
            sources,
            embedder=embedder or memory.embedder.name,
            checkpoint=parts,
            engine=engine,
            workers=workers,
            on_bad=on_bad,
            progress=_progress_line(),
        )
        into, taught, shards, left_out = str(ctx.obj), found.taught, found.shards, found.left_out
        names = len(memory.names())
    else:
        trained = fit(
            default_classifier(),
            list(sources),
            engine=engine,
            workers=workers,
            embedder=embedder or default_embedder().name,
            checkpoint=parts,
            keep_shards=keep_shards,
            on_bad=on_bad,
            progress=_progress_line(),
        )
        save(trained, model)
        into, taught, shards = str(model), trained.rows, len(trained.ledger)
        names = len(trained.learner.classes_) if taught else 0
        left_out = tuple((where, why) for where, reasons in trained.bad.items() for why in reasons)
    _report(into, taught, names, shards, left_out)
    say(f"finished parts are kept in {parts}; remove it if nothing will be added")
    if left_out:
        sys.exit(1)


def _progress_line() -> Callable[[Progress], None]:
    """Prints progress on standard error: how far, how fast, how much time is left."""
    start = time.monotonic()
    said = 0.0

    def show(progress: Progress) -> None:
        nonlocal said
        now = time.monotonic()
        last = progress.shards == progress.of_shards
        if now - said < (0.2 if sys.stderr.isatty() else PLAIN_SECONDS) and not last:
            return
        said = now
        seconds = max(now - start, 1e-9)
        share = max(progress.size / max(progress.of_size, 1), 1e-9)
        left = seconds * (1 - share) / share
        known = f", {progress.known} known already" if progress.known else ""
        notify(
            f"shard {progress.shards} of {progress.of_shards}{known}, {progress.rows} learned, "
            f"{progress.rows / seconds:.0f}/s, {left:.0f} s left",
        )

    return show


def _report(
    into: str,
    taught: int,
    names: int,
    shards: int,
    left_out: tuple[tuple[str, str], ...],
) -> None:
    bad: dict[str, list[str]] = {}
    for where, why in left_out:
        bad.setdefault(where, []).append(why)
    print_result({"taught": taught, "names": names, "shards": shards, "bad": bad, "into": into})
    for where, why in left_out:
        say(f"left out: {where}: {why}", err=True)
    say(f"taught {counted(taught, 'example')} of {counted(shards, 'shard')} to {into}")

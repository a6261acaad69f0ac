"""The command that teaches from more images than one machine should read."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_json, say
from everlearn.cluster import Progress, ShardedModel, fit
from everlearn.cluster.listing import listed
from everlearn.cluster.pictures import embedder_of
from everlearn.cluster.shards import Kind
from everlearn.cluster.store import CheckpointStore
from everlearn.cluster.vectors import name_of_vectors, read_vectors
from everlearn.memory.model.classifiers import default_classifier
from everlearn.memory.storage.journal import Example
from everlearn.persistence import save

# Without a terminal, one line of progress per this many seconds.
PLAIN_SECONDS = 5.0


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
    default="efficientnet-lite0",
    show_default=True,
    help="What turns images into vectors; also pixels-16, or an ONNX file.",
)
@click.option(
    "--checkpoint",
    metavar="ADDRESS",
    help="Folder or bucket for finished parts; by default beside the model.",
)
@click.option("--keep-shards", is_flag=True, help="Keep what each shard taught, to take it out.")
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
    embedder: str,
    checkpoint: str | None,
    keep_shards: bool,
    skip_bad: bool,
    model: Path | None,
    as_json: bool,
) -> None:
    """Teach from tar files, folders or tables of any number, on one machine or many.

    Interrupted, the same command goes on where it was.
    """
    place = checkpoint or f"{(model or ctx.obj).absolute()}.parts"
    if model is None:
        _require_images(sources)
    trained = fit(
        default_classifier(),
        list(sources),
        engine=engine,
        workers=workers,
        embedder=embedder,
        checkpoint=place,
        keep_shards=keep_shards,
        keep_vectors=model is None,
        on_bad="skip" if skip_bad else "raise",
        progress=_shown(),
    )
    if model is not None:
        save(trained, model)
        taught, into = trained.rows, str(model)
    else:
        memory = opened(ctx)
        taught = memory.teach_many(_examples(sources, embedder, place)).taught
        into = str(ctx.obj)
    _report(trained, taught, into, as_json)
    if not as_json:
        say(f"finished parts are kept in {place}; remove it if nothing will be added")
    if trained.bad:
        sys.exit(1)


def _require_images(sources: tuple[str, ...]) -> None:
    for shard in listed(list(sources)):
        if shard.kind not in (Kind.TAR, Kind.PICTURES):
            raise click.UsageError(
                f"{shard.address} holds vectors; a Memory is taught images, so add --model FILE"
            )


def _examples(sources: tuple[str, ...], embedder: str, place: str) -> Iterator[tuple[Example, str]]:
    """Everything that was embedded, as a Memory is taught it."""
    store, name = CheckpointStore(place), embedder_of(embedder).name
    for shard in listed(list(sources)):
        for example in read_vectors(store, name_of_vectors(name, shard)) or ():
            source = f"{shard.address}/{example.name}" if shard.kind is Kind.TAR else example.name
            taken = Example(example.vector, source, example.digest, example.thumbnail, name)
            yield taken, str(example.label)


def _shown() -> Callable[[Progress], None]:
    """One line on standard error, now and then: how far, how fast, how long still."""
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
        say(
            f"shard {progress.shards} of {progress.of_shards}{known}, {progress.rows} learned, "
            f"{progress.rows / seconds:.0f}/s, {left:.0f} s left",
            err=True,
        )

    return show


def _report(trained: ShardedModel, taught: int, into: str, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "taught": taught,
                "names": len(trained.learner.classes_) if taught else 0,
                "shards": len(trained.ledger),
                "bad": {address: list(reasons) for address, reasons in trained.bad.items()},
                "into": into,
            }
        )
    else:
        for address, reasons in trained.bad.items():
            for reason in reasons:
                say(f"not learned: {address}: {reason}", err=True)
        say(f"taught {taught} examples of {len(trained.ledger)} shards to {into}")

"""Commands that change or compare the embedding network."""

import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_result, print_table, progress, say, wants_json
from everlearn.errors import PicturesMissing
from everlearn.images.by_name import bundled_embedder, embedder_for
from everlearn.memory.edits.reembed import Reembedding
from everlearn.memory.words import counted
from everlearn.regions.region_embedder import MODES, Mode

Numbers = tuple[float, ...]


def preprocessing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for preprocessing that an ONNX file may not specify."""
    more = "One number, or three with commas. Needed only if the file does not specify it."
    for option in (
        click.option("--scale", callback=_numbers, help=f"Pixels are divided by this. {more}"),
        click.option("--mean", callback=_numbers, help=f"Subtracted from pixels, 0 to 255. {more}"),
        click.option("--size", type=click.IntRange(1), help="Side of the square the model takes."),
    ):
        command = option(command)
    return command


def _numbers(_: click.Context, __: click.Parameter, value: str | None) -> Numbers | None:
    if value is None:
        return None
    try:
        numbers = tuple(float(word) for word in value.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, 3) or not all(map(math.isfinite, numbers)):
        raise click.BadParameter(f"{value!r} is not one number or three, as in 123.7,116.3,103.5")
    return numbers


def _plain(numbers: Numbers | None) -> float | Numbers | None:
    return numbers[0] if numbers is not None and len(numbers) == 1 else numbers


@click.command()
@click.argument("model", required=False)
@preprocessing_options
@click.option(
    "--regions",
    type=click.Choice(MODES),
    help="From now on embed whole images, their main thing, or all things.",
)
@click.option(
    "-y", "--yes", is_flag=True, help="Continue without pictures that can no longer be read."
)
@as_json
@click.pass_context
def reembed(
    ctx: click.Context,
    model: str | None,
    size: int | None,
    mean: Numbers | None,
    scale: Numbers | None,
    regions: Mode | None,
    yes: bool,
) -> None:
    """Change to another network, or to other parts of the pictures.

    MODEL is a word (basic, fast, balanced, best), an ONNX file, a name of another package
    (timm:NAME), or several of these with + between them.
    """
    if model is None and regions is None:
        raise click.UsageError("give a network, or --regions")
    memory = opened(ctx)
    embedder = memory.embedder
    if model is not None:
        embedder = embedder_for(model, size=size, mean=_plain(mean), scale=_plain(scale))

    def changed(drop: bool) -> Reembedding:
        with progress("embedding", memory.info()["teachings"]) as step:
            return memory.reembed(embedder, step, regions=regions, drop=drop)

    try:
        done = changed(drop=yes)
    except PicturesMissing as missing:
        if wants_json() or not sys.stdin.isatty():
            raise
        say(f"{missing}", err=True)
        lost = counted(missing.count, "teaching")
        click.confirm(f"continue without {lost}?", abort=True, err=True)
        done = changed(drop=True)
    print_result(vars(done))
    for number, source in done.left_out:
        say(f"left out: teaching {number}, {source} can no longer be read", err=True)
    say(
        f"{counted(done.done, 'teaching')} with new vectors, {len(done.left_out)} left out; "
        "everlearn undo takes it back"
    )
    if model is not None and bundled_embedder(embedder.name) is None:
        say(f"from now on pass the network: everlearn --network {model}, or EVERLEARN_NETWORK")


@click.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path(exists=True))
@as_json
@click.pass_context
def relocate(ctx: click.Context, old: str, new: str) -> None:
    """Update the paths of pictures that were moved from OLD to NEW."""
    done = opened(ctx).relocate(old, new)
    print_result(vars(done))
    for source in done.missing:
        say(f"not found in {new}: {source}", err=True)
    say(f"{counted(done.moved, 'teaching')} with a new path, {len(done.missing)} with the old one")


@click.command("compare-networks")
@click.argument("models", nargs=-1, required=True)
@preprocessing_options
@as_json
@click.pass_context
def compare_networks(
    ctx: click.Context,
    models: tuple[str, ...],
    size: int | None,
    mean: Numbers | None,
    scale: Numbers | None,
) -> None:
    """Compare networks on the taught pictures: accuracy and cost.

    MODELS are words (basic, fast, balanced, best), ONNX files, names of other packages
    (timm:NAME), or several of these with + between them.
    """
    memory = opened(ctx)
    embedders = [
        embedder_for(word, size=size, mean=_plain(mean), scale=_plain(scale)) for word in models
    ]
    words = {embedder.name: word for embedder, word in zip(embedders, models, strict=True)}
    with progress("embedding", memory.info()["teachings"]) as step:
        found = memory.compare_networks(embedders, progress=step)
    print_result([asdict(c) | {"network": words[c.embedder]} for c in found])
    rows = []
    for c in found:
        about = [words[c.embedder], f"{c.accuracy:.1%}", str(c.teachings), str(c.left_out)]
        cost = c.cost
        costs = ["", "", ""] if cost is None else [
            f"{cost.milliseconds:.0f}", _duration(cost.switch_seconds), f"{cost.megabytes:.0f}"
        ]  # fmt: skip
        rows.append(about + costs)
    titles = ["network", "right, leave-one-out", "teachings", "unreadable",
              "ms a picture", "to switch", "MB on disk"]  # fmt: skip
    print_table(titles, rows)


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600.0 else f"{seconds / 3600:.1f} h"

"""Commands that change or compare the network that looks at images."""

from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_json, print_table, progress, say
from everlearn.images.embedders import EfficientNetLite0, Embedder, OnnxEmbedder, Pixels

size = click.option("--size", type=int, help="Side of the square the model takes, if it asks.")


def embedder_named(word: str, size: int | None) -> Embedder:
    """The embedder a word on the command line stands for."""
    if word == "efficientnet-lite0":
        return EfficientNetLite0()
    if word == "pixels":
        return Pixels() if size is None else Pixels(size=size)
    return OnnxEmbedder(Path(word), size=size)


@click.command()
@click.argument("model")
@size
@as_json
@click.pass_context
def reembed(ctx: click.Context, model: str, size: int | None, as_json: bool) -> None:
    """Change to another network: an ONNX file, efficientnet-lite0 or pixels."""
    memory = opened(ctx)
    embedder = embedder_named(model, size)
    with progress("embedding", memory.info()["teachings"]) as step:
        done = memory.reembed(embedder, progress=lambda *_: step())
    if as_json:
        print_json(vars(done))
        return
    for number, source in done.left_out:
        say(f"can no longer be read, does not count: {number} {source}", err=True)
    say(f"{done.done} teachings have new vectors, {len(done.left_out)} were left out")


@click.command("compare-embedders")
@click.argument("models", nargs=-1, required=True)
@size
@as_json
@click.pass_context
def compare_embedders(
    ctx: click.Context, models: tuple[str, ...], size: int | None, as_json: bool
) -> None:
    """Which network would know the names best? ONNX files, or words."""
    memory = opened(ctx)
    embedders = [embedder_named(word, size) for word in models]
    with progress("embedding", len(embedders) * memory.info()["teachings"]) as step:
        found = memory.compare_embedders(embedders, progress=lambda *_: step())
    if as_json:
        print_json([vars(comparison) for comparison in found])
        return
    rows = [[c.embedder, f"{c.accuracy:.1%}", str(c.teachings), str(c.left_out)] for c in found]
    print_table(["embedder", "right, each left out", "teachings", "not readable"], rows)

"""Commands that demonstrate and measure: demo, bench."""

import click

from everlearn.cli import demo as story
from everlearn.cli.output import as_json, print_json, print_table, progress, say
from everlearn.memory.insight.speed import measure


@click.command()
@click.option(
    "--images",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="How many pictures to generate.",
)
@as_json
def bench(images: int, as_json: bool) -> None:
    """Measure how fast this machine teaches and asks."""
    with progress("teaching", images) as step:
        results = measure(images, progress=step)
    if as_json:
        print_json(results)
    else:
        print_table(["what", "measured"], [[key, _figure(value)] for key, value in results.items()])


def _figure(value: float) -> str:
    """Four significant digits, never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@click.command()
@as_json
def demo(as_json: bool) -> None:
    """Teach, ask, forget and undo, on images that need no download."""
    if not as_json:
        story.run(say)
        return
    sentences: list[str] = []
    story.run(sentences.append)
    print_json([sentence for sentence in sentences if sentence])

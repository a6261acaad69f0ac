"""Commands that demonstrate and measure: demo, bench."""

import click

from everlearn.cli import demo as demonstration
from everlearn.cli.output import as_json, print_result, print_table, progress, say
from everlearn.memory.insight.speed import measure


@click.command()
@click.option(
    "--images",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Number of pictures to generate.",
)
@as_json
def bench(images: int) -> None:
    """Measure how fast this machine teaches and asks."""
    with progress("teaching", images) as step:
        results = measure(images, progress=step)
    print_result(results)
    print_table(["what", "measured"], [[key, _figure(value)] for key, value in results.items()])


def _figure(value: float) -> str:
    """Four significant digits, never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


@click.command()
@as_json
def demo() -> None:
    """Teach, ask, forget and undo, on images that need no download."""
    sentences: list[str] = []

    def tell(sentence: str) -> None:
        say(sentence)
        sentences.append(sentence)

    demonstration.run(tell)
    print_result([sentence for sentence in sentences if sentence])

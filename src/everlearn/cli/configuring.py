"""Commands that configure a Memory: init, strictness, use, compare-classifiers."""

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_result, print_table, progress, say
from everlearn.memory.model.classifiers import FOLDS, WORDS, word_of

CLASSIFIER = click.Choice(list(WORDS))


class Share(click.FloatRange):
    """A number strictly between 0 and 1."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1, min_open=True, max_open=True)


@click.command("init")
@click.option(
    "--network",
    "word",
    metavar="WORD|FILE",
    help="basic, fast, balanced or best; a file; see everlearn reembed.  [default: balanced, or "
    "basic without everlearn-networks]",
)
@click.option(
    "--accept",
    type=Share(),
    help="Lower bound on the share of new pictures of taught things that are not called unknown.",
)
@as_json
@click.pass_context
def init(ctx: click.Context, word: str | None, accept: float | None) -> None:
    """Create a Memory that uses a certain network."""
    if word is not None:
        ctx.meta["network"] = word
    memory = opened(ctx)
    if accept is not None:
        memory.set_accept(accept)
    name = memory.set_network()
    print_result({"path": str(memory.path), "embedder": name, "accept": memory.accept})
    say(f"{memory.path} uses {name} and accepts at least {memory.accept:.0%} of familiar things")


@click.command()
@click.argument("accept", type=Share(), required=False)
@as_json
@click.pass_context
def strictness(ctx: click.Context, accept: float | None) -> None:
    """Show or set how readily a picture is called unknown.

    At least the share ACCEPT of new pictures of taught things is not called unknown: with 0.99
    fewer pictures are called unknown, with 0.9 more.
    """
    memory = opened(ctx, read_only=accept is None)
    if accept is not None:
        memory.set_accept(accept)
    print_result({"accept": memory.accept})
    say(f"at least {memory.accept:.1%} of new pictures of taught things are not called unknown")


@click.command()
@click.argument("classifier", type=CLASSIFIER)
@as_json
@click.pass_context
def use(ctx: click.Context, classifier: str) -> None:
    """Switch to another classifier: ridge (the default), lda, mean, auto."""
    memory = opened(ctx)
    memory.use(classifier=classifier)
    facts = memory.info()
    print_result({key: facts[key] for key in ("classifier", "teachings")})
    say(f"now using {classifier}, trained on all {facts['teachings']} teachings")


@click.command("compare-classifiers")
@click.argument("classifiers", nargs=-1, type=CLASSIFIER)
@as_json
@click.pass_context
def compare_classifiers(ctx: click.Context, classifiers: tuple[str, ...]) -> None:
    """Compare classifiers on the taught pictures; changes nothing."""
    words = classifiers or tuple(WORDS)
    memory = opened(ctx, read_only=True)
    with progress("holding out", FOLDS * len(words)) as step:
        found = memory.compare_classifiers(words, progress=step)
    print_result([vars(standing) for standing in found])
    now = word_of(memory.classifier)
    rows = [
        [
            s.classifier,
            f"{s.accuracy:.1%}",
            str(s.asked),
            f"{s.seconds:.1f} s",
            f"{s.ask_seconds:.2f} s",
            "in use" if s.classifier == now else "",
        ]
        for s in found
    ]
    columns = ["classifier", "right, held out", "teachings asked", "first answer after a change"]
    print_table([*columns, "each everlearn ask", ""], rows)
    better = [s for s in found if s.better]
    if not better:
        say(f"none is significantly better than {now or 'the one in use'}")
        return
    best = better[0]
    say(
        f"{best.classifier} is better; everlearn use {best.classifier} switches to it. Besides "
        f"embedding the picture, each everlearn ask then takes {best.ask_seconds:.2f} s, and the "
        f"first one after a change {best.seconds:.1f} s"
    )
    if best.classifier != "ridge":
        say("why, check and compare-networks do not work with it, only with ridge")

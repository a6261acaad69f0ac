"""Commands that change or compare the classifier."""

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_json, print_table, progress, say
from everlearn.memory.model.classifiers import FOLDS, WORDS, word_of

CLASSIFIER = click.Choice(list(WORDS))


@click.command()
@click.argument("classifier", type=CLASSIFIER)
@as_json
@click.pass_context
def use(ctx: click.Context, classifier: str, as_json: bool) -> None:
    """Switch to another classifier: ridge (the default), lda, mean, auto."""
    memory = opened(ctx)
    memory.use(classifier=classifier)
    facts = memory.info()
    if as_json:
        print_json({key: facts[key] for key in ("classifier", "teachings")})
    else:
        say(f"{classifier} answers from now on, taught all {facts['teachings']} teachings")


@click.command("compare-classifiers")
@click.argument("classifiers", nargs=-1, type=CLASSIFIER)
@as_json
@click.pass_context
def compare_classifiers(ctx: click.Context, classifiers: tuple[str, ...], as_json: bool) -> None:
    """Compare classifiers on the taught pictures; changes nothing."""
    words = classifiers or tuple(WORDS)
    memory = opened(ctx, read_only=True)
    with progress("holding out", FOLDS * len(words)) as step:
        found = memory.compare_classifiers(words, progress=step)
    if as_json:
        print_json([vars(standing) for standing in found])
        return
    now = word_of(memory.classifier)
    rows = [
        [
            s.classifier,
            f"{s.accuracy:.1%}",
            str(s.asked),
            f"{s.seconds:.1f} s",
            "in use" if s.classifier == now else "",
        ]
        for s in found
    ]
    columns = ["classifier", "right, held out", "teachings asked", "first answer after a change"]
    print_table([*columns, ""], rows)
    better = [s.classifier for s in found if s.better]
    if not better:
        say(f"none is better than {now or 'the one in use'} by more than chance")
        return
    say(f"everlearn use {better[0]} switches to it")
    if better[0] != "ridge":
        say("note: why and check explain answers of ridge only")

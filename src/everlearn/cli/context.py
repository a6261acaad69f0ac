"""What commands share: the Learner they work on."""

import click

from everlearn.memory.learner import Learner


def opened(ctx: click.Context, *, read_only: bool = False) -> Learner:
    """The Learner named on the command line; closed when the command ends."""
    learner = Learner(ctx.obj, read_only=read_only)
    ctx.call_on_close(learner.close)
    return learner

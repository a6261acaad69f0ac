"""``everlearn teach --boxes``: annotations of other tools, taught in one go."""

import sys
from collections import Counter
from pathlib import Path

import click

from everlearn.cli.context import opened
from everlearn.cli.output import print_json, print_table, progress, say
from everlearn.images.folders import require_name
from everlearn.memory.answers import Outcome
from everlearn.regions.annotations import read_annotations
from everlearn.regions.looking import Region


def teach_boxes(
    ctx: click.Context,
    paths: tuple[Path, ...],
    images: Path | None,
    regions: str | None,
    *,
    plan: bool,
    again: bool,
    also: bool,
    as_json: bool,
) -> None:
    """Teach what annotations point at; what they do not is background."""
    found = [picture for path in paths for picture in read_annotations(path, images)]
    names = Counter(name for picture in found for name, _ in picture.things)
    for name in names:
        require_name(name)
    if plan:
        if as_json:
            print_json({"names": dict(names), "images": len(found)})
        else:
            print_table(["name", "boxes"], [[name, str(count)] for name, count in names.items()])
        return
    new = not (Path(ctx.obj) / "journal.sqlite").exists()
    failures: list[Outcome] = []
    with progress("teaching", sum(names.values())) as step:

        def acknowledge(outcome: Outcome) -> None:
            step()
            if outcome.error is not None:
                failures.append(outcome)

        memory = opened(ctx, regions=regions or ("things" if new else None))
        pairs = (
            (Region(Path(picture.file), box), name)
            for picture in found
            for name, box in picture.things
        )
        summary = memory.teach_many(pairs, again=again, also=also, acknowledge=acknowledge)
    if as_json:
        print_json(
            {
                "taught": summary.taught,
                "repeated": summary.repeated,
                "unreadable": [{"file": f.source, "error": str(f.error)} for f in failures],
            }
        )
    else:
        for failure in failures:
            say(f"not taught: {failure.error}", err=True)
        repeated = f", {summary.repeated} known already" if summary.repeated else ""
        say(f"taught {summary.taught} boxes of {len(names)} names in {len(found)} images{repeated}")
    if failures:
        sys.exit(1)

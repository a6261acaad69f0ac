"""Kills, failing writes, altered bytes, interrupts, readers and forged files, against a Memory."""

from collections.abc import Iterator

from attacks import (
    altered_journals,
    beside_readers,
    forged_folders,
    interrupted_memory,
    write_faults,
)
from attacks.crash import survive
from benchmarks.side_by_side import Line

KILLS, FAULTS, ALTERATIONS, INTERRUPTS = 2_000, 500, 10_000, 20_000
QUESTIONS, FORGED = 100_000, 2_000


def lines() -> Iterator[Line]:
    tally = survive(KILLS)
    fewest = min(tally.killed_inside.values(), default=0)
    yield Line(
        f"kill -9 in every kind of change, {tally.kills:,} times, at least {fewest} inside each",
        f"{tally.lost} lost, {tally.counted_twice} counted twice, {tally.traces} traces after an "
        f"erase, {tally.not_verified} not verified, {tally.models_that_differ} models that differ "
        "from replay in any bit",
        "0, 0, 0, 0, 0",
    )
    faults = write_faults.run(FAULTS)
    checked = faults["checked"]
    yield Line(
        f"writes that fail in every kind of change, {faults['faults']:,} times",
        f"{checked['lost']} lost, {checked['traces']} traces, {checked['not_verified']} not "
        f"verified, {len(checked['wrong'])} wrong, {len(faults['untrue'])} untrue messages, "
        f"{len(faults['wedged'])} wedged, {len(faults['unnamed'])} errors without a name",
        "0, 0, 0, 0, 0, 0, 0",
    )
    verdicts = altered_journals.attack(ALTERATIONS)
    wrong = sum(n for what, n in verdicts.items() if what.startswith(("SILENT", "RAW")))
    yield Line(
        f"journal bytes altered, {verdicts.total():,} times",
        f"{verdicts['harmless']:,} harmless, {wrong} neither harmless nor named",
        "0",
    )
    interrupts = interrupted_memory.attack(INTERRUPTS)
    yield Line(
        f"interrupted {interrupts.interrupted:,} times",
        f"{interrupts.wedged} wedged, {interrupts.neither_old_nor_new} neither old nor new",
        "0, 0",
    )
    found = beside_readers.attack(QUESTIONS)
    changes = found.pop("changes made meanwhile")
    yield Line(
        f"readers beside {changes:,} changes, {found.total():,} questions",
        f"{found.total() - found['answered']} false errors",
        "0",
    )
    forged, unnamed = forged_folders.attack(FORGED)
    yield Line(
        f"{forged.total():,} forged folders",
        f"{len(unnamed)} crashes, hangs over 10 s or errors without a name",
        "0",
    )

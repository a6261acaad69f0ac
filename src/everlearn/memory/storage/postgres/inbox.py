"""Gives the teachings of many concurrent writers one order.

Numbers from a sequence are not in the order in which transactions commit, so no reader may follow
them. The holder of the Memory's lock assigns positions:

    lock is free     the writer takes it and writes the journal itself, in one transaction
    lock is held     the writer puts its teachings into the inbox, which needs no lock and is
                     durable when it commits; the next holder of the lock, this process or
                     another, assigns positions to everything that waits, in one transaction

The result of a request is stored under its key in the same transaction, so a request that is sent
again because the connection was lost before the answer arrived is executed once. If a writer is
killed after its inbox entry was committed, the next one completes it.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from everlearn import errors
from everlearn.errors import EverlearnError, KeyReused, NotOrderedYet
from everlearn.memory.storage.postgres.failures import DatabaseUnreachable
from everlearn.memory.storage.postgres.watching import INBOX
from everlearn.memory.storage.regions import packed, unpacked
from everlearn.memory.storage.rows import Example

if TYPE_CHECKING:
    from everlearn.memory.storage.postgres.database import PostgresDatabase

# How long to retry a lost connection, and how long an answer is kept.
RETRY_SECONDS = 60.0
PAUSE_SECONDS = 0.05
KEPT_SECONDS = 86_400.0
# How long a user who may not assign positions waits for a process that may.
ORDER_SECONDS = 30.0
ERASED = (
    "this was done, but its answer was removed by an erase since; list the names to see the result"
)
COLUMNS = (
    "request, place, options, name, source, digest, embedder, vector, thumbnail, image, region"
)

Answer = Any
Options = dict[str, Any]
Pairs = list[tuple[str, Example]]


@dataclass(frozen=True)
class Request:
    """Teachings that belong together, and the options to teach them with."""

    options: Options
    pairs: Pairs
    key: str = field(default_factory=lambda: secrets.token_hex(16))


class Inbox:
    """Takes teachings into the journal.

    Parameters
    ----------
    db : PostgresDatabase
    """

    def __init__(self, db: "PostgresDatabase") -> None:
        self._db = db
        # Writes a request into the journal; set by the owner of this object.
        self.write: Callable[[Options, Pairs], Answer] | None = None
        # Called from another thread when teachings of other processes wait.
        self.wake: Callable[[], None] | None = None

    def teach(self, options: Options, pairs: Pairs) -> Answer:
        """Outcomes of teachings, which are in the journal when this returns."""
        request = Request(options, pairs)
        return self._persistently(lambda again: self._teach(request, again=again))

    def persistently(self, look: Callable[[], Answer]) -> Answer:
        if self._db.changing:
            return look()
        return self._persistently(lambda again: look())

    def once(self, key: str, content: bytes, work: Callable[[], Answer]) -> Answer:
        """Run ``work`` under a key, its changes in one transaction.

        A repeated key returns the stored answer without running it.
        """
        digest = blake2b(content, digest_size=16).digest()

        def attempt(again: bool) -> Answer:
            with self._db.transaction():
                known = self._db.row("SELECT digest, answer FROM requests WHERE id = ?", key)
                if known is not None:
                    if known[0] != digest:
                        raise KeyReused(
                            f"the key {key!r} was used for another request; nothing was changed. "
                            "Use a new key for every change"
                        )
                    return _told(json.loads(known[1]))
                answer = work()
                self._keep(key, digest, answer)
                return answer

        return self._persistently(attempt)

    def order(self) -> None:
        """Assign positions to everything that waits; the caller holds the lock."""
        if self.write is None or not self._db.may_order:
            return
        rows = self._db.rows(f"SELECT {COLUMNS} FROM inbox ORDER BY id")
        if not rows:
            return
        requests: dict[str, list[Any]] = {}
        for row in rows:
            requests.setdefault(row[0], []).append(row)
        done = self._done(list(requests))
        answers = []
        for key, part in requests.items():
            if key not in done:
                answer = self._written(json.loads(part[0][2]), _pairs(part))
                answers.append((key, b"", time.time(), json.dumps(answer)))
        self._db.run_many("INSERT INTO requests VALUES (?, ?, ?, ?)", answers)
        # Not by number: rows that committed in the meantime may have a smaller one.
        self._db.run_many("DELETE FROM inbox WHERE request = ?", [(key,) for key in requests])

    def drop_answers(self) -> None:
        """Remove stored answers; the keys stay, so nothing is done twice."""
        gone = {"error": "AnswerErased", "message": ERASED}
        self._db.run("UPDATE requests SET answer = ? WHERE digest <> ?", json.dumps(gone), b"")

    def waiting(self) -> bool:
        """Whether there are teachings without a position."""
        return self._db.value("SELECT 1 FROM inbox LIMIT 1") is not None

    # Helpers.

    def _teach(self, request: Request, *, again: bool) -> Answer:
        assert self.write is not None
        if again and (found := self._answer(request.key)) is not None:
            return _told(found)
        if self._db.may_order:
            with self._db.try_transaction() as mine:
                if mine:
                    answer = self._answer(request.key) if again else None
                    if answer is None:
                        answer = self.write(request.options, request.pairs)
                        self._keep(request.key, b"", answer)
            if mine:
                return _told(answer)
        self._put(request)
        if self._db.may_order:
            with self._db.transaction():
                pass
        else:
            self._wait(request)
        return _told(self._answer(request.key))

    def _put(self, request: Request) -> None:
        options = json.dumps(request.options)
        rows = [
            (
                request.key, place, options, name, example.source, example.digest,
                example.embedder, example.vector.astype("<f4", copy=False).tobytes(),
                example.thumbnail, example.image, packed(example.region, example.proposals),
            )
            for place, (name, example) in enumerate(request.pairs)
        ]  # fmt: skip
        marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(rows))
        statement = f"INSERT INTO inbox ({COLUMNS}) VALUES {marks} ON CONFLICT DO NOTHING"
        # One statement: all rows or none.
        self._db.run(statement, *(value for row in rows for value in row))
        if not self._db.may_order:
            self._db.announce(INBOX)

    def _wait(self, request: Request) -> None:
        until = time.monotonic() + ORDER_SECONDS
        while self._answer(request.key) is None:
            if time.monotonic() > until:
                raise NotOrderedYet(
                    f"{len(request.pairs)} teachings are stored in {self._db.location} but not "
                    "ordered yet; run 'everlearn serve' as the Memory's owner"
                )
            time.sleep(PAUSE_SECONDS)

    def _written(self, options: Options, pairs: Pairs) -> Answer:
        """Write another process's request; errors in it become its answer."""
        assert self.write is not None
        try:
            with self._db.savepoint():
                return self.write(options, pairs)
        except DatabaseUnreachable:
            raise
        except EverlearnError as error:
            return {"error": type(error).__name__, "message": str(error)}

    def _answer(self, key: str) -> Answer | None:
        found = self._db.value("SELECT answer FROM requests WHERE id = ?", key)
        return None if found is None else json.loads(found)

    def _done(self, keys: list[str]) -> set[str]:
        """The keys of those requests that already have an answer."""
        query = f"SELECT id FROM requests WHERE id IN ({', '.join('?' * len(keys))})"
        return {row[0] for row in self._db.rows(query, *keys)}

    def _keep(self, key: str, digest: bytes, answer: Answer) -> None:
        now = time.time()
        row = key, digest, now, json.dumps(answer)
        self._db.run_many("INSERT INTO requests VALUES (?, ?, ?, ?)", [row])
        if secrets.randbelow(256) == 0:
            self._db.run("DELETE FROM requests WHERE time < ?", now - KEPT_SECONDS)

    def _persistently(self, attempt: Callable[[bool], Answer]) -> Answer:
        until = time.monotonic() + RETRY_SECONDS
        again, pause = False, PAUSE_SECONDS
        while True:
            try:
                return attempt(again)
            except DatabaseUnreachable:
                if time.monotonic() > until:
                    raise
                again = True
                time.sleep(pause)
                pause = min(2 * pause, 1.0)


def _pairs(rows: list[Any]) -> Pairs:
    return [
        (
            row[3],
            Example(
                np.frombuffer(row[7], dtype="<f4"),
                row[4],
                row[5],
                row[8],
                row[6],
                row[9],
                *unpacked(row[10]),
            ),
        )
        for row in sorted(rows, key=lambda row: row[1])
    ]


def _told(answer: Answer) -> Answer:
    """Return an answer from another process, or raise the error it holds."""
    if isinstance(answer, dict) and "error" in answer:
        kind = getattr(errors, str(answer["error"]), EverlearnError)
        raise kind(answer["message"])
    return answer

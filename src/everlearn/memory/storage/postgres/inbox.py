"""Gives the teachings of many concurrent writers one order.

Numbers from a sequence are not in the order in which transactions commit, so readers cannot follow
them. The process that holds the Memory's lock assigns positions instead:

    lock is free     the writer takes it and writes the journal itself, in one transaction
    lock is held     the writer puts its teachings into the inbox, which needs no lock and is
                     durable when it commits; the next process that holds the lock assigns
                     positions to everything in the inbox, in one transaction

The result of a request is stored under its key in the same transaction. If the connection is lost
before the answer arrives, the writer repeats the request and gets the stored result. If a writer is
killed after its teachings are in the inbox, the next writer completes the request.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from everlearn import errors
from everlearn.errors import EverlearnError, InvalidInput, KeyReused, NotOrderedYet
from everlearn.memory.storage.postgres.failures import DatabaseUnreachable
from everlearn.memory.storage.postgres.watching import INBOX
from everlearn.memory.storage.regions import packed, unpacked
from everlearn.memory.storage.rows import Example

if TYPE_CHECKING:
    from everlearn.memory.storage.postgres.database import PostgresDatabase

# How long to retry after a lost connection, and the first delay.
RETRY_SECONDS = 60.0
PAUSE_SECONDS = 0.05
# How long answers are stored.
KEPT_SECONDS = 86_400.0
# How long a user who may not assign positions waits for a process that may.
POSITION_SECONDS = 30.0
ERASED = (
    "this was done, but its answer was removed by an erase since; list the names to see the result"
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


class QueuedTeaching(NamedTuple):
    """A row of the table ``inbox``, without its number."""

    request: str
    place: int
    options: str
    name: str
    source: str
    digest: bytes
    embedder: str
    vector: bytes
    thumbnail: bytes
    image: bytes
    region: bytes


COLUMNS = ", ".join(QueuedTeaching._fields)


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
        """The answer to a request, which is in the journal when this returns."""
        request = Request(options, pairs)
        return self._retried(lambda again: self._teach(request, again=again))

    def with_retries(self, read: Callable[[], Answer]) -> Answer:
        if self._db.changing:
            return read()
        return self._retried(lambda again: read())

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
                    return _returned_or_raised(json.loads(known[1]))
                answer = work()
                self._store_answer(key, digest, answer)
                return answer

        return self._retried(attempt)

    def assign_positions(self) -> None:
        """Write everything in the inbox into the journal; the caller holds the lock."""
        if self.write is None or not self._db.may_assign_positions:
            return
        requests: dict[str, list[QueuedTeaching]] = {}
        for row in self._db.rows(f"SELECT {COLUMNS} FROM inbox ORDER BY id"):
            teaching = QueuedTeaching(*row)
            requests.setdefault(teaching.request, []).append(teaching)
        if not requests:
            return
        answered = self._answered(list(requests))
        answers = [
            (key, b"", time.time(), json.dumps(self._write_queued(teachings)))
            for key, teachings in requests.items()
            if key not in answered
        ]
        self._db.run_many("INSERT INTO requests VALUES (?, ?, ?, ?)", answers)
        # Not by number: rows that committed in the meantime may have a smaller one.
        self._db.run_many("DELETE FROM inbox WHERE request = ?", [(key,) for key in requests])

    def drop_answers(self) -> None:
        """Remove stored answers; the keys stay, so nothing is done twice."""
        gone = {"error": "AnswerErased", "message": ERASED}
        self._db.run("UPDATE requests SET answer = ? WHERE digest <> ?", json.dumps(gone), b"")

    # Helpers.

    def _teach(self, request: Request, *, again: bool) -> Answer:
        assert self.write is not None
        if again and (found := self._answer(request.key)) is not None:
            return _returned_or_raised(found)
        if self._db.may_assign_positions:
            with self._db.try_transaction() as locked:
                if locked:
                    answer = self._answer(request.key) if again else None
                    if answer is None:
                        answer = self.write(request.options, request.pairs)
                        self._store_answer(request.key, b"", answer)
            if locked:
                return _returned_or_raised(answer)
        self._enqueue(request)
        if self._db.may_assign_positions:
            with self._db.transaction():
                pass  # a transaction begins by assigning positions
        else:
            self._wait_for_answer(request)
        return _returned_or_raised(self._answer(request.key))

    def _enqueue(self, request: Request) -> None:
        options = json.dumps(request.options)
        rows = [
            QueuedTeaching(
                request.key,
                place,
                options,
                name,
                example.source,
                example.digest,
                example.embedder,
                example.vector.astype("<f4", copy=False).tobytes(),
                example.thumbnail,
                example.image,
                packed(example.region, example.proposals),
            )
            for place, (name, example) in enumerate(request.pairs)
        ]
        marks = ", ".join([f"({', '.join('?' * len(QueuedTeaching._fields))})"] * len(rows))
        statement = f"INSERT INTO inbox ({COLUMNS}) VALUES {marks} ON CONFLICT DO NOTHING"
        # One statement: all rows or none.
        self._db.run(statement, *(value for row in rows for value in row))
        if not self._db.may_assign_positions:
            self._db.announce(INBOX)

    def _wait_for_answer(self, request: Request) -> None:
        until = time.monotonic() + POSITION_SECONDS
        while self._answer(request.key) is None:
            if time.monotonic() > until:
                raise NotOrderedYet(
                    f"{len(request.pairs)} teachings are stored in {self._db.location} but have no "
                    "position yet; run 'everlearn serve' as the Memory's owner"
                )
            time.sleep(PAUSE_SECONDS)

    def _write_queued(self, teachings: list[QueuedTeaching]) -> Answer:
        """Write another process's request; errors in it become its answer.

        Whoever may add to the inbox can add malformed rows: they must not stop the other writers.
        """
        assert self.write is not None
        try:
            with self._db.savepoint():
                return self.write(json.loads(teachings[0].options), _decoded(teachings))
        except DatabaseUnreachable:
            raise
        except EverlearnError as error:
            return {"error": type(error).__name__, "message": str(error)}
        except (ValueError, TypeError, LookupError, RecursionError):
            return {
                "error": InvalidInput.__name__,
                "message": "a request in the inbox is malformed; nothing of it was taught",
            }

    def _answer(self, key: str) -> Answer | None:
        found = self._db.value("SELECT answer FROM requests WHERE id = ?", key)
        return None if found is None else json.loads(found)

    def _answered(self, keys: list[str]) -> set[str]:
        """Those of the keys whose request already has an answer."""
        query = f"SELECT id FROM requests WHERE id IN ({', '.join('?' * len(keys))})"
        return {row[0] for row in self._db.rows(query, *keys)}

    def _store_answer(self, key: str, digest: bytes, answer: Answer) -> None:
        now = time.time()
        row = key, digest, now, json.dumps(answer)
        self._db.run_many("INSERT INTO requests VALUES (?, ?, ?, ?)", [row])
        if secrets.randbelow(256) == 0:
            self._db.run("DELETE FROM requests WHERE time < ?", now - KEPT_SECONDS)

    def _retried(self, attempt: Callable[[bool], Answer]) -> Answer:
        """The result of an attempt, repeated with ``True`` while the database is unreachable."""
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


def _decoded(teachings: list[QueuedTeaching]) -> Pairs:
    """Names and examples of one request, in its order; raises ``ValueError`` for malformed rows."""
    pairs = []
    for row in sorted(teachings, key=lambda row: row.place):
        vector = np.frombuffer(row.vector, dtype="<f4")
        if not np.isfinite(vector).all():
            raise ValueError("not finite")
        region, proposals = unpacked(row.region)
        example = Example(
            vector,
            row.source,
            row.digest,
            thumbnail=row.thumbnail,
            embedder=row.embedder,
            image=row.image,
            region=region,
            proposals=proposals,
        )
        pairs.append((row.name, example))
    return pairs


def _returned_or_raised(answer: Answer) -> Answer:
    """Return an answer from another process, or raise the error it holds."""
    if isinstance(answer, dict) and "error" in answer:
        kind = getattr(errors, str(answer["error"]), EverlearnError)
        raise kind(answer["message"])
    return answer

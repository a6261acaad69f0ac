"""Bridge to Immich: learns from the tags that people set, and tags what it recognises.

    everlearn/NAME           set by a person     →  the picture is taught as NAME; taking the tag
                                                    off, or deleting the picture, forgets it
    everlearn-guess/NAME     set by the bridge   →  on new pictures that it recognises

Two trees of tags tell what people said from what the bridge guessed, so nothing has to be recorded
anywhere else. A picture that a person names loses its guess. An unknown picture gets no tag.

    GET  api/users/me                     whose tags these are
    GET  api/tags                         all tags
    POST api/search/metadata              pictures of a tag (and of the tags below it); new pictures
    GET  api/assets/ID                    the tags of one picture
    GET  api/assets/ID/thumbnail          the picture, about 1,440 pixels wide, in a format to read
    PUT  api/tags                         makes a tag, if there is none
    PUT, DELETE  api/tags/ID/assets       sets a tag, takes it off

Written for the HTTP API of Immich 2.7 to 3.2 (as its packages ``@immich/sdk`` 2.7.5 and 3.2.2
declare it); tested against a recording of it.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from everlearn.errors import CannotReach, InvalidInput, InvalidParameter
from everlearn.service.bridges.labels import BridgedMemory, FollowedLabels, Label, Review
from everlearn.service.bridges.remote import Remote

LOG = logging.getLogger("everlearn.service")

SOURCE = "immich"
TAUGHT, GUESSED = "everlearn", "everlearn-guess"
# Pictures on one page of a search; Immich allows 1,000.
PAGE = 1000
# How many pictures are asked about again after something was learned; and how often one that
# cannot be read is tried.
WATCHED = 200
TRIES = 20


class Immich:
    """Learns from tags and sets tags, one review at a time.

    Parameters
    ----------
    memory : Memory or Client
    address : str
        Where Immich is, such as ``http://immich:2283``.
    api_key : str
        A key with the permissions ``user.read``, ``asset.read``, ``asset.view``, ``tag.read``,
        ``tag.create`` and ``tag.asset``.
    since : datetime
        Pictures uploaded from this time on are recognised.
    taught, guessed : str
        The tags below which people name pictures, and below which the bridge does.
    """

    def __init__(
        self,
        memory: BridgedMemory,
        *,
        address: str,
        api_key: str,
        since: datetime,
        taught: str = TAUGHT,
        guessed: str = GUESSED,
    ) -> None:
        for tag in (taught, guessed):
            if not tag or tag != tag.strip("/ "):
                raise InvalidParameter(f"a tag must be a word such as 'everlearn', not {tag!r}")
        if f"{taught}/".startswith(f"{guessed}/") or f"{guessed}/".startswith(f"{taught}/"):
            raise InvalidParameter(f"one of the tags {taught!r} and {guessed!r} is below the other")
        self._memory = memory
        self._remote = Remote(address, lambda: api_key, header="x-api-key")
        self._taught_root, self._guessed_root = taught + "/", guessed + "/"
        self._user = str(self._remote.json("api/users/me")["id"])
        self._labels = FollowedLabels(memory, f"{SOURCE}/{self._user}")
        self._since = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self._seen: set[str] = set()
        # The guess for each picture that was asked about, and the number of times that a picture
        # could not be read.
        self._asked: dict[str, str | None] = {}
        self._waiting: dict[str, int] = {}

    def review(self) -> Review:
        """Learn what people tagged, then recognise what is new."""
        labels = self._tagged()
        taught, gone = self._labels.follow(labels)
        for asset in {_picture_of(key) for key in taught}:
            self._remove_tags(asset, self._guesses_on(asset))
            self._asked.pop(asset, None)
        named = {_picture_of(key) for key in labels}
        again = list(self._asked)[-WATCHED:] if taught or gone else []
        done = Counter(self._guess_again(asset) for asset in again if asset not in named)
        done.update(self._guess(asset) for asset in self._new() if asset not in named)
        return Review(len(taught), len(gone), done["recognised"], done["unknown"])

    def _tagged(self) -> dict[str, Label]:
        """All labels that people set, by ``PICTURE/TAG``."""
        root = self._taught_root
        tags = {
            str(tag["value"]): str(tag["id"])
            for tag in self._remote.json("api/tags")
            if str(tag["value"]).startswith(root)
        }
        found = {
            tag: {str(one["id"]) for one in self._search(tagIds=[number])}
            for tag, number in tags.items()
        }
        labels: dict[str, Label] = {}
        for tag, assets in found.items():
            # A search finds the pictures of the tags below as well.
            below = (found[other] for other in tags if other.startswith(tag + "/"))
            for asset in sorted(assets.difference(*below)):
                name = tag.removeprefix(root)
                labels[f"{asset}/{tags[tag]}"] = Label(name, partial(self._picture, asset))
        return labels

    def _new(self) -> Iterator[str]:
        """Pictures uploaded since the last review, and those that could not be read then."""
        yield from list(self._waiting)
        latest = self._since
        for one in self._search(createdAfter=self._since, order="asc"):
            latest = max(latest, str(one["createdAt"]))
            if one["id"] not in self._seen:
                yield str(one["id"])
        self._since = latest

    def _search(self, **wanted: Any) -> Iterator[dict[str, Any]]:
        """The user's own pictures that a search finds."""
        page: int | None = 1
        while page is not None:
            said = {"type": "IMAGE", "size": PAGE, "page": page} | wanted
            assets = self._remote.json("api/search/metadata", said)["assets"]
            yield from (one for one in assets["items"] if one["ownerId"] == self._user)
            page = int(assets["nextPage"]) if assets["nextPage"] else None

    def _picture(self, asset: str) -> bytes:
        return self._remote.image(f"api/assets/{quote(asset)}/thumbnail?size=preview")

    def _guess(self, asset: str) -> str:
        """Ask about a picture and tag it: ``recognised``, ``unknown`` or ``waiting``."""
        try:
            name = self._name(asset)
        except (CannotReach, InvalidInput) as error:
            # Immich prepares a picture some time after its upload.
            self._seen.add(asset)
            self._waiting[asset] = self._waiting.get(asset, 0) + 1
            if self._waiting[asset] == TRIES:
                LOG.warning("picture %s of Immich is not recognised: %s", asset, error)
                del self._waiting[asset]
            return "waiting"
        if name is not None:
            self._set_guess(asset, name)
        self._waiting.pop(asset, None)
        self._seen.add(asset)
        self._asked[asset] = name
        return "unknown" if name is None else "recognised"

    def _guess_again(self, asset: str) -> str:
        """Ask about a picture again after more was learned."""
        try:
            guesses = self._guesses_on(asset)
            name = self._name(asset)
        except (CannotReach, InvalidInput):
            del self._asked[asset]
            return "gone"
        before = self._asked[asset]
        if before is not None and self._guessed_root + before not in guesses:
            # A person took the guess off: it is not made again.
            del self._asked[asset]
            return "refused"
        if name != before:
            self._remove_tags(asset, guesses)
            if name is not None:
                self._set_guess(asset, name)
            self._asked[asset] = name
        return "unknown" if name is None else "recognised"

    def _name(self, asset: str) -> str | None:
        answers = self._memory.ask(self._picture(asset), top=1)
        return None if answers.unknown or not answers else answers[0].name

    def _guesses_on(self, asset: str) -> dict[str, str]:
        """The bridge's tags on a picture, with their numbers."""
        tags = self._remote.json(f"api/assets/{quote(asset)}").get("tags") or []
        return {
            str(tag["value"]): str(tag["id"])
            for tag in tags
            if str(tag["value"]).startswith(self._guessed_root)
        }

    def _set_guess(self, asset: str, name: str) -> None:
        said = {"tags": [self._guessed_root + name]}
        (tag,) = self._remote.json("api/tags", said, method="PUT")
        said = {"ids": [asset]}
        self._remote.json(f"api/tags/{quote(str(tag['id']))}/assets", said, method="PUT")

    def _remove_tags(self, asset: str, tags: dict[str, str]) -> None:
        for number in tags.values():
            said = {"ids": [asset]}
            self._remote.json(f"api/tags/{quote(number)}/assets", said, method="DELETE")


def _picture_of(key: str) -> str:
    return key.partition("/")[0]

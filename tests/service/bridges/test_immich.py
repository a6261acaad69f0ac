"""The bridge to Immich, with an Immich 3.2 that is played from what its SDK declares."""

import json
import re
from datetime import UTC, datetime

import numpy as np
import pytest

from everlearn import Memory, Pixels
from everlearn.errors import InvalidParameter
from everlearn.service.bridges import immich
from everlearn.service.bridges.immich import Immich
from everlearn.service.bridges.labels import Review
from tests.service.bridges.conftest import BLUE, RED, counts
from tests.service.conftest import picture

ME, PARTNER = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
KEY = "only-ann-knows"
START = datetime(2026, 1, 1, tzinfo=UTC)

# The fields of MetadataSearchDto, TagUpsertDto and BulkIdsDto in @immich/sdk 2.7.5 and 3.2.2 that
# the bridge may use.
SEARCH = {"type", "size", "page", "tagIds", "createdAfter", "order"}


class Played:
    """Immich's users, assets and tags, as far as the bridge sees them."""

    def __init__(self, site):
        self.tags: dict[str, str] = {}  # value → id
        self.assets: dict[str, dict] = {}
        self.page = 1000
        self.refuse_pictures = False
        site.play = self.answer

    def upload(self, asset, image, *, owner=ME, day=2):
        self.assets[asset] = {
            "image": image,
            "owner": owner,
            "created": f"2026-01-{day:02d}T00:00:00.000Z",
            "tags": set(),
        }

    def tag(self, asset, value):
        parts = value.split("/")
        for end in range(1, len(parts) + 1):
            self.tags.setdefault("/".join(parts[:end]), f"tag-{len(self.tags)}")
        self.assets[asset]["tags"].add(value)

    def untag(self, asset, value):
        self.assets[asset]["tags"].remove(value)

    def on(self, asset):
        return sorted(self.assets[asset]["tags"])

    def answer(self, method, path, headers, body):
        assert headers["x-api-key"] == KEY
        said = json.loads(body) if body else None
        status, answer = self.routed(method, path, said)
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def routed(self, method, path, said):
        if (method, path) == ("GET", "/api/users/me"):
            return 200, {"id": ME, "email": "ann@example.org"}
        if (method, path) == ("GET", "/api/tags"):
            return 200, [self.shown_tag(value) for value in sorted(self.tags)]
        if (method, path) == ("PUT", "/api/tags"):
            (value,) = said.pop("tags")
            assert not said
            self.tag_exists(value)
            return 200, [self.shown_tag(value)]
        if (method, path) == ("POST", "/api/search/metadata"):
            return 200, {"albums": {}, "assets": self.search(said)}
        if found := re.fullmatch(r"/api/assets/([^/]+)", path):
            if found[1] not in self.assets:
                return 400, {"message": "Not found or no asset.read access"}
            return 200, self.shown(found[1]) | {"tags": self.tags_of(found[1])}
        if found := re.fullmatch(r"/api/assets/([^/]+)/thumbnail\?size=preview", path):
            if found[1] not in self.assets or self.refuse_pictures:
                return 404, {"message": "Asset media not found"}
            return 200, self.assets[found[1]]["image"]
        if found := re.fullmatch(r"/api/tags/([^/]+)/assets", path):
            (value,) = (value for value, number in self.tags.items() if number == found[1])
            (asset,) = said.pop("ids")
            assert not said
            assert method in ("PUT", "DELETE")
            (self.tag if method == "PUT" else self.untag)(asset, value)
            return 200, [{"id": asset, "success": True}]
        raise AssertionError(f"Immich has no {method} {path}")

    def tag_exists(self, value):
        self.upload("nothing", b"")
        self.tag("nothing", value)
        del self.assets["nothing"]

    def shown_tag(self, value):
        return {"id": self.tags[value], "name": value.split("/")[-1], "value": value}

    def tags_of(self, asset):
        return [self.shown_tag(value) for value in self.on(asset)]

    def shown(self, asset):
        one = self.assets[asset]
        return {"id": asset, "ownerId": one["owner"], "createdAt": one["created"], "type": "IMAGE"}

    def search(self, said):
        assert said.keys() <= SEARCH
        assert said["type"] == "IMAGE"
        assert 1 <= said["size"] <= 1000
        found = sorted(self.assets, key=lambda asset: self.assets[asset]["created"])
        for number in said.get("tagIds", ()):
            # With the tags below, as Immich searches.
            (value,) = (value for value, other in self.tags.items() if other == number)
            found = [
                asset
                for asset in found
                if any(f"{tag}/".startswith(f"{value}/") for tag in self.assets[asset]["tags"])
            ]
        if after := said.get("createdAfter"):
            found = [asset for asset in found if self.assets[asset]["created"] >= after]
        first = (said["page"] - 1) * self.page
        items = [self.shown(asset) for asset in found[first : first + self.page]]
        more = str(said["page"] + 1) if len(found) > first + self.page else None
        return {"items": items, "nextPage": more, "total": len(items), "count": len(items)}


@pytest.fixture
def played(site):
    made = Played(site)
    for asset, image in (("red", RED), ("blue", BLUE)):
        made.upload(asset, image)
    return made


@pytest.fixture
def bridge(memory, site, played):
    return Immich(memory, address=site.address, api_key=KEY, since=START)


def taught(bridge, played):
    played.tag("red", "everlearn/cup")
    played.tag("blue", "everlearn/pen")
    return bridge.review()


class TestImmich:
    def test_tags_are_learned_and_new_pictures_tagged(self, bridge, played, memory):
        assert taught(bridge, played) == Review(2, 0, 0, 0)
        assert counts(memory) == {"cup": 1, "pen": 1}
        played.upload("another", picture(250, 5, 0), day=3)
        played.upload("theirs", RED, owner=PARTNER, day=3)
        assert bridge.review() == Review(0, 0, 1, 0)
        assert played.on("another") == ["everlearn-guess/cup"]
        assert played.on("theirs") == []
        assert bridge.review() == Review(0, 0, 0, 0)

    def test_a_removed_tag_leaves_no_trace_in_the_model(self, bridge, played, memory, tmp_path):
        played.upload("wrong", picture(0, 200, 0))
        played.tag("wrong", "everlearn/cup")
        taught(bridge, played)
        played.untag("wrong", "everlearn/cup")
        assert bridge.review().forgotten == 1
        with Memory(tmp_path / "never", embedder=Pixels(size=8, colour=True)) as never:
            never.teach(BLUE, "pen")
            never.teach(RED, "cup")
            for image in (RED, BLUE, picture(90, 0, 120)):
                ours, theirs = memory.ask(image), never.ask(image)
                assert [a.name for a in ours] == [a.name for a in theirs]
                np.testing.assert_allclose(
                    [a.probability for a in ours], [a.probability for a in theirs], atol=1e-12
                )

    def test_a_deleted_picture_is_forgotten(self, bridge, played, memory):
        taught(bridge, played)
        del played.assets["red"]
        assert bridge.review().forgotten == 1
        assert counts(memory) == {"pen": 1}

    def test_a_correction_replaces_the_guess(self, bridge, played, memory):
        taught(bridge, played)
        played.upload("another", picture(250, 5, 0), day=3)
        bridge.review()
        played.tag("another", "everlearn/mug")
        assert bridge.review().taught == 1
        assert played.on("another") == ["everlearn/mug"]
        assert counts(memory) == {"cup": 1, "mug": 1, "pen": 1}

    def test_unknown_pictures_are_asked_about_again_after_learning(self, bridge, played):
        assert bridge.review() == Review(0, 0, 0, 2)
        played.upload("another", picture(250, 5, 0), day=3)
        played.tag("another", "everlearn/cup")
        played.upload("sky", picture(0, 10, 250), day=3)
        played.tag("sky", "everlearn/pen")
        assert bridge.review() == Review(2, 0, 2, 0)
        assert (played.on("red"), played.on("blue")) == (
            ["everlearn-guess/cup"],
            ["everlearn-guess/pen"],
        )

    def test_a_guess_follows_what_was_learned_unless_a_person_removed_it(self, bridge, played):
        taught(bridge, played)
        for asset in ("left", "taken"):
            played.upload(asset, picture(250, 5, 0), day=3)
        assert bridge.review().recognised == 2
        played.untag("taken", "everlearn-guess/cup")
        played.upload("mug", picture(250, 5, 0), day=4)
        played.tag("mug", "everlearn/mug")
        bridge.review()
        assert played.on("left") == ["everlearn-guess/mug"]
        assert played.on("taken") == []

    def test_a_tag_below_a_name_is_a_name_of_its_own(self, bridge, played, memory):
        played.tag("red", "everlearn/cat/Tom")
        played.tag("blue", "everlearn/cat")
        played.tag("blue", "holidays")
        bridge.review()
        assert counts(memory) == {"cat": 1, "cat/Tom": 1}

    def test_all_pages_of_a_search_are_read(self, bridge, played, memory):
        played.page = 2
        for number in range(5):
            played.upload(f"r{number}", picture(250 - number, 0, 0))
            played.tag(f"r{number}", "everlearn/cup")
        bridge.review()
        assert counts(memory) == {"cup": 5}

    def test_a_picture_that_immich_has_not_prepared_is_tried_again(
        self, bridge, played, site, monkeypatch
    ):
        monkeypatch.setattr(immich, "TRIES", 3)
        taught(bridge, played)
        played.upload("another", picture(250, 5, 0), day=3)
        played.refuse_pictures = True
        assert bridge.review() == Review(0, 0, 0, 0)
        played.refuse_pictures = False
        assert bridge.review() == Review(0, 0, 1, 0)
        played.upload("broken", b"not a picture", day=4)
        for _ in range(5):
            assert bridge.review() == Review(0, 0, 0, 0)
        fetched = [path for path, _, _ in site.heard if path.startswith("/api/assets/broken/")]
        assert len(fetched) == 3

    def test_a_restarted_bridge_continues_where_it_stopped(self, bridge, played, memory, site):
        taught(bridge, played)
        played.untag("red", "everlearn/cup")
        again = Immich(memory, address=site.address, api_key=KEY, since=START)
        assert again.review().forgotten == 1
        assert counts(memory) == {"pen": 1}

    def test_the_two_tags_must_differ(self, memory, site, played):
        for words in ({"taught": "a", "guessed": "a"}, {"taught": "a", "guessed": "a/b"}):
            with pytest.raises(InvalidParameter, match="below the other"):
                Immich(memory, address=site.address, api_key=KEY, since=START, **words)
        for word in ("", "/", "a/"):
            with pytest.raises(InvalidParameter, match="must be a word"):
                Immich(memory, address=site.address, api_key=KEY, since=START, taught=word)

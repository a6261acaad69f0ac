"""Bridge to Label Studio, as its machine-learning backend.

    POST /SECRET/predict     tasks in, suggestions out: choices and rectangles
    POST /SECRET/webhook     an annotation was saved, changed or deleted
    POST /SECRET/setup       the version of the model
    GET  /SECRET/health

Every saved annotation is taught at once and every deleted one is forgotten exactly: each teaching
has the source ``label-studio/PROJECT/TASK/ANNOTATION``. The version of the model is the length of
the Memory's log, so Label Studio asks again after every change. Label Studio sends no credentials
with its webhooks; therefore the secret is part of the address.

Tested with Label Studio 1.23.
"""

import hmac
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.etree import ElementTree

from everlearn.errors import EverlearnError, InvalidInput, InvalidParameter
from everlearn.memory.answers import Answers
from everlearn.service.bridges.labels import BridgedMemory, box_within, forget_source
from everlearn.service.bridges.remote import Remote

LOG = logging.getLogger("everlearn.service")

LONGEST_BODY = 32 * 1024 * 1024
SHORTEST_SECRET = 16
# How long an exchanged personal token is used; Label Studio accepts it for 5 minutes.
TOKEN_SECONDS = 120.0
SOURCE = "label-studio"
SAVED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")


@dataclass(frozen=True)
class Control:
    """A tag of a labelling configuration that takes names: ``Choices`` or ``RectangleLabels``."""

    name: str
    target: str
    kind: str
    field: str
    names: frozenset[str]

    def result(self, name: str, **value: Any) -> dict[str, Any]:
        """One region or choice in Label Studio's format."""
        return {
            "from_name": self.name,
            "to_name": self.target,
            "type": self.kind,
            "value": {self.kind: [name], **value},
        }


class LabelStudio:
    """Suggests names in Label Studio and learns from annotations.

    Parameters
    ----------
    memory : Memory or Client
    address : str
        Where Label Studio is, such as ``http://localhost:8080``.
    api_key : str
        An access token of Label Studio, used to fetch images.
    image_hosts : iterable of str
        Other origins, such as ``https://images.example.org``, that images may come from.
    """

    def __init__(
        self, memory: BridgedMemory, *, address: str, api_key: str, image_hosts: Iterable[str] = ()
    ) -> None:
        self._memory = memory
        self._remote = Remote(address, self._authorization, image_hosts)
        self._api_key = api_key
        self._token: tuple[float, str] = (0.0, "")
        self._lock = threading.Lock()

    @property
    def model_version(self) -> str:
        """Changes with every change of the Memory."""
        return f"everlearn-{self._memory.info()['log_entries']}"

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """Suggestions for tasks; none if the thing is unknown or the image cannot be read."""
        with self._lock:
            controls = read_controls(request.get("label_config") or "")
            context = (request.get("params") or {}).get("context") or {}
            version = self.model_version
            results = [
                self._suggestion(task, controls, context.get("result") or [])
                | {"model_version": version}
                for task in request.get("tasks") or []
            ]
        return {"results": results}

    def setup(self, request: dict[str, Any]) -> dict[str, Any]:
        """Called when Label Studio connects or asks for the version."""
        with self._lock:
            return {"model_version": self.model_version, "status": "ok"}

    def webhook(self, event: dict[str, Any]) -> dict[str, Any]:
        """Apply one change from Label Studio; returns how many were taught and forgotten."""
        action = event.get("action")
        with self._lock:
            if action in SAVED:
                return self._learn(event)
            if action == "ANNOTATIONS_DELETED":
                gone = {str(one["id"]) for one in event.get("annotations") or []}
                return {"taught": 0, "forgotten": self._forget(event, gone, place=3)}
            if action == "TASKS_DELETED":
                gone = {str(one["id"]) for one in event.get("tasks") or []}
                return {"taught": 0, "forgotten": self._forget(event, gone, place=2)}
        return {"taught": 0, "forgotten": 0}

    def _authorization(self) -> str:
        """The token; a personal one, which contains dots, is exchanged for an access token."""
        if self._api_key.count(".") != 2:
            return f"Token {self._api_key}"
        made, token = self._token
        if not token or time.monotonic() - made > TOKEN_SECONDS:
            said = {"refresh": self._api_key}
            answer = self._remote.json("api/token/refresh/", said, authorized=False)
            token = str(answer["access"])
            self._token = time.monotonic(), token
        return f"Bearer {token}"

    def _suggestion(
        self, task: dict[str, Any], controls: list[Control], drawn: list[dict[str, Any]]
    ) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        scores: list[float] = []
        try:
            for control in controls:
                image = self._remote.image(task["data"][control.field])
                for result, score in self._suggested(image, control, drawn):
                    results.append(result)
                    scores.append(score)
        except (EverlearnError, KeyError) as error:
            LOG.warning("no suggestion for task %s: %s", task.get("id"), error)
            return {"result": [], "score": 0.0}
        return {"result": results, "score": min(scores, default=0.0)}

    def _suggested(
        self, image: bytes, control: Control, drawn: list[dict[str, Any]]
    ) -> Iterator[tuple[dict[str, Any], float]]:
        if control.kind == "choices":
            if best := _best(self._memory.ask(image, top=None), control):
                yield control.result(best[0]), best[1]
            return
        for one in drawn:
            # A rectangle that was just drawn needs a name.
            if one.get("from_name") == control.name and _is_upright(one.get("value") or {}):
                value = one["value"]
                place = {key: float(value[key]) for key in ("x", "y", "width", "height")}
                answers = self._memory.ask(image, box=box_of(value), top=None)
                if best := _best(answers, control):
                    yield control.result(best[0], rotation=0, **place), best[1]
        if drawn:
            return
        for thing in self._memory.find(image, top=None):
            if best := _best(thing.answers, control):
                left, top, right, bottom = (100.0 * float(edge) for edge in thing.box)
                place = {"x": left, "y": top, "width": right - left, "height": bottom - top}
                yield control.result(best[0], rotation=0, **place), best[1]

    def _learn(self, event: dict[str, Any]) -> dict[str, Any]:
        """Teach annotations in place of their earlier content."""
        annotations, tasks = _list(event["annotation"]), _list(event["task"])
        controls = read_controls(event["project"]["label_config"])
        taught = forgotten = 0
        for annotation, task in zip(annotations, tasks, strict=True):
            source = "/".join(
                str(part) for part in (SOURCE, event["project"]["id"], task["id"], annotation["id"])
            )
            # Everything that can fail comes before the first change.
            cancelled = annotation.get("was_cancelled")
            shown = [] if cancelled else self._shown(annotation, task, controls)
            forgotten += forget_source(self._memory, source)
            for image, box, name in shown:
                taught += self._memory.teach(
                    image, name, box=box, source=source, again=True, also=True
                )
        return {"taught": taught, "forgotten": forgotten}

    def _shown(
        self, annotation: dict[str, Any], task: dict[str, Any], controls: list[Control]
    ) -> list[tuple[bytes, Any, str]]:
        """The pictures of an annotation, each with a box or none, and its names."""
        by_name = {control.name: control for control in controls}
        shown: list[tuple[bytes, Any, str]] = []
        for one in annotation.get("result") or []:
            control = by_name.get(one.get("from_name"))
            if control is None or control.kind != one.get("type"):
                continue
            value = one["value"]
            if control.kind == "rectanglelabels" and not _is_upright(value):
                LOG.warning("annotation %s: a rotated rectangle is not learned", annotation["id"])
                continue
            image = self._remote.image(task["data"][control.field])
            box = None if control.kind == "choices" else box_of(value)
            shown += [(image, box, str(name)) for name in value[control.kind]]
        return shown

    def _forget(self, event: dict[str, Any], gone: set[str], *, place: int) -> int:
        """Forget all teachings whose source has one of these ids at this position."""
        project = str((event.get("project") or {}).get("id", ""))
        sources = set()
        for teaching in self._memory.teachings():
            parts = (teaching.source or "").split("/")
            ours = len(parts) == 4 and parts[0] == SOURCE and project in ("", parts[1])
            if ours and parts[place] in gone:
                sources.add(teaching.source)
        return sum(forget_source(self._memory, source) for source in sources)


def read_controls(config: str) -> list[Control]:
    """The tags of a labelling configuration that take names for an image."""
    try:
        root = ElementTree.fromstring(config)
    except ElementTree.ParseError as error:
        raise InvalidInput(f"the labelling configuration is not XML: {error}") from None
    fields = {
        tag.get("name"): (tag.get("value") or "").removeprefix("$") for tag in root.iter("Image")
    }
    found = []
    for tag, kind, entry in (
        ("Choices", "choices", "Choice"),
        ("RectangleLabels", "rectanglelabels", "Label"),
    ):
        for element in root.iter(tag):
            name, target = element.get("name"), element.get("toName")
            if name and target and target in fields:
                names = {one.get("alias") or one.get("value") or "" for one in element.iter(entry)}
                found.append(Control(name, target, kind, fields[target], frozenset(names)))
    return found


def box_of(value: dict[str, Any]) -> tuple[float, float, float, float]:
    """A rectangle, given in per cent of the picture's sides, as left, top, right, bottom."""
    return box_within(*(float(value[key]) / 100.0 for key in ("x", "y", "width", "height")))


def _best(answers: Answers, control: Control) -> tuple[str, float] | None:
    """The most probable name that the configuration offers; none if the thing is unknown."""
    if answers.unknown:
        return None
    for answer in answers:
        if answer.name in control.names:
            return answer.name, answer.probability
    return None


def _is_upright(value: dict[str, Any]) -> bool:
    return all(key in value for key in ("x", "y", "width", "height")) and not value.get("rotation")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class BridgeServer(ThreadingHTTPServer):
    """Serves Label Studio; ``address`` is what to enter there."""

    def __init__(self, place: tuple[str, int], handler: Any, secret: str) -> None:
        super().__init__(place, handler)
        self.address = f"http://{place[0]}:{self.server_port}/{secret}"


def make_server(
    bridge: LabelStudio, secret: str, *, host: str = "127.0.0.1", port: int = 9090
) -> BridgeServer:
    """A server whose ``serve_forever`` answers Label Studio."""
    if len(secret) < SHORTEST_SECRET or not secret.isascii() or not secret.isalnum():
        raise InvalidParameter(
            f"a secret needs at least {SHORTEST_SECRET} ASCII letters and digits, not {secret!r}"
        )
    actions = {"predict": bridge.predict, "webhook": bridge.webhook, "setup": bridge.setup}

    class Handler(BaseHTTPRequestHandler):
        timeout = 60.0
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self._action() == "health":
                self._answer(200, {"status": "UP"})
            else:
                self._answer(404, {"error": "not found"})

        def do_POST(self) -> None:
            action = actions.get(self._action())
            length = self.headers.get("content-length", "")
            if action is None or not length.isdecimal() or int(length) > LONGEST_BODY:
                self.close_connection = True
                self._answer(404 if action is None else 413, {"error": "not taken"})
                return
            try:
                said = json.loads(self.rfile.read(int(length)))
                self._answer(200, action(said))
            except (EverlearnError, ValueError, KeyError, TypeError, AttributeError) as error:
                LOG.warning("Label Studio was answered with an error: %s", error)
                self._answer(400, {"error": f"{type(error).__name__}: {error}"})

        def _action(self) -> str:
            _, given, action = (*self.path.partition("?")[0].split("/"), "", "", "")[:3]
            return action if hmac.compare_digest(given.encode(), secret.encode()) else ""

        def _answer(self, status: int, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """The address holds the secret, so requests are not logged."""

    return BridgeServer((host, port), Handler, secret)

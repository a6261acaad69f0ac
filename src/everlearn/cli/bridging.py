"""Commands that connect a Memory to other systems."""

import dataclasses
import os
import secrets
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from everlearn.cli.context import cannot_listen, opened
from everlearn.cli.output import as_json, notify, print_result, say
from everlearn.errors import EverlearnError, InvalidParameter

if TYPE_CHECKING:
    from everlearn.service.bridges.labels import Review

service_option = click.option(
    "--service",
    metavar="URL",
    help="Use the Memory of a running everlearn serve, whose token is in EVERLEARN_TOKEN, "
    "instead of a folder.",
)

pause_option = click.option(
    "--pause",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two reviews.",
)
looks_option = click.option(
    "--looks", type=click.IntRange(1), help="Stop after this many reviews; by default never."
)


def _memory(ctx: click.Context, service: str | None) -> Any:
    """The Memory of a service, or of the folder named on the command line."""
    if service is None:
        return opened(ctx)
    from everlearn.service.client import Client

    client = Client(service)
    ctx.call_on_close(client.close)
    return client


@click.command()
@click.option(
    "--address",
    default="http://localhost:8080",
    show_default=True,
    help="Where Label Studio is; its access token is in EVERLEARN_LABEL_STUDIO_KEY.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9090, show_default=True, type=click.IntRange(0, 65_535), help="Port."
)
@click.option(
    "--secret",
    envvar="EVERLEARN_BRIDGE_SECRET",
    show_envvar=True,
    help="Last part of the bridge's address; by default a new one at every start.",
)
@click.option(
    "--image-host",
    "image_hosts",
    multiple=True,
    metavar="URL",
    help="Another host that images may be fetched from; may be repeated.",
)
@service_option
@as_json
@click.pass_context
def label_studio(
    ctx: click.Context,
    address: str,
    host: str,
    port: int,
    secret: str | None,
    image_hosts: tuple[str, ...],
    service: str | None,
) -> None:
    """Suggest names in Label Studio and learn from every annotation."""
    from everlearn.service.bridges.label_studio import LabelStudio, make_server

    key = os.environ.get("EVERLEARN_LABEL_STUDIO_KEY", "")
    if not key:
        raise InvalidParameter(
            "set EVERLEARN_LABEL_STUDIO_KEY to an access token of Label Studio (Account & Settings)"
        )
    bridge = LabelStudio(
        _memory(ctx, service), address=address, api_key=key, image_hosts=image_hosts
    )
    try:
        server = make_server(bridge, secret or secrets.token_hex(16), host=host, port=port)
    except OSError as error:
        raise cannot_listen(host, port, error) from None
    print_result({"address": server.address})
    say(f"In Label Studio, Settings > Model > Connect Model: {server.address}")
    with server:
        server.serve_forever()


@click.command()
@click.option(
    "--address",
    default="http://localhost:5000",
    show_default=True,
    help="Frigate's HTTP API; a token for it may be in EVERLEARN_FRIGATE_TOKEN.",
)
@click.option(
    "--mqtt",
    default="localhost",
    show_default=True,
    metavar="HOST[:PORT]",
    help="The MQTT broker that Frigate uses; credentials in EVERLEARN_MQTT_USER and "
    "EVERLEARN_MQTT_PASSWORD.",
)
@click.option("--prefix", default="frigate", show_default=True, help="Frigate's topic_prefix.")
@service_option
@as_json
@click.pass_context
def frigate(ctx: click.Context, address: str, mqtt: str, prefix: str, service: str | None) -> None:
    """Name the objects that Frigate tracks, and learn from corrections."""
    from everlearn.service.bridges.frigate import Frigate
    from everlearn.service.mqtt import parse_broker

    host, port = parse_broker(mqtt)
    bridge = Frigate(
        _memory(ctx, service),
        address=address,
        host=host,
        port=port,
        prefix=prefix,
        username=os.environ.get("EVERLEARN_MQTT_USER"),
        password=os.environ.get("EVERLEARN_MQTT_PASSWORD"),
        token=os.environ.get("EVERLEARN_FRIGATE_TOKEN"),
    )
    ctx.call_on_close(bridge.close)
    print_result({"frigate": address, "mqtt": f"{host}:{port}"})
    say(f"naming what Frigate at {address} tracks; Ctrl-C stops")
    threading.Event().wait()


@click.command()
@click.argument("dataset")
@click.option(
    "--truth",
    default="ground_truth",
    show_default=True,
    metavar="FIELD",
    help="The field with the labels to learn: classifications or detections.",
)
@click.option(
    "--predictions",
    default="everlearn",
    show_default=True,
    metavar="FIELD",
    help="The field that is set on samples without these labels.",
)
@click.option(
    "--confirmed",
    default="confirmed",
    show_default=True,
    metavar="TAG",
    help="The tag of samples whose predictions are right; they are learned.",
)
@pause_option
@looks_option
@service_option
@as_json
@click.pass_context
def fiftyone(
    ctx: click.Context,
    dataset: str,
    truth: str,
    predictions: str,
    confirmed: str,
    pause: float,
    looks: int | None,
    service: str | None,
) -> None:
    """Learn from the labels of a FiftyOne dataset, and label the rest of it."""
    from everlearn.service.bridges.fiftyone import FiftyOne

    bridge = FiftyOne(
        _memory(ctx, service), dataset, truth=truth, predictions=predictions, confirmed=confirmed
    )
    _repeat(bridge.review, pause, looks)


@click.command()
@click.option(
    "--address",
    default="http://localhost:2283",
    show_default=True,
    help="Where Immich is; an API key is in EVERLEARN_IMMICH_KEY.",
)
@click.option(
    "--since",
    metavar="DATE",
    help="Recognise pictures uploaded since then, such as 2026-01-31; by default from now on.",
)
@click.option(
    "--tag",
    default="everlearn",
    show_default=True,
    help="People name a picture by a tag below this one, such as everlearn/cup.",
)
@click.option(
    "--guess-tag",
    default="everlearn-guess",
    show_default=True,
    help="The tag below which everlearn names pictures.",
)
@pause_option
@looks_option
@service_option
@as_json
@click.pass_context
def immich(
    ctx: click.Context,
    address: str,
    since: str | None,
    tag: str,
    guess_tag: str,
    pause: float,
    looks: int | None,
    service: str | None,
) -> None:
    """Learn from the tags of pictures in Immich, and tag new ones."""
    from everlearn.service.bridges.immich import Immich

    key = os.environ.get("EVERLEARN_IMMICH_KEY", "")
    if not key:
        raise InvalidParameter(
            "set EVERLEARN_IMMICH_KEY to an API key of Immich (Account Settings > API Keys)"
        )
    bridge = Immich(
        _memory(ctx, service),
        address=address,
        api_key=key,
        since=_date(since),
        taught=tag,
        guessed=guess_tag,
    )
    _repeat(bridge.review, pause, looks)


def _date(text: str | None) -> datetime:
    """A date, which is of this machine's time zone if it names none; now by default."""
    try:
        return (datetime.fromisoformat(text) if text else datetime.now()).astimezone()
    except ValueError:
        raise InvalidParameter(f"a date looks like 2026-01-31, not {text!r}") from None


def _repeat(review: Callable[[], "Review"], pause: float, looks: int | None) -> None:
    """Review until stopped; an error ends the command in the first review, and is printed later."""
    _report(review())
    done = 1
    while looks is None or done < looks:
        time.sleep(pause)
        try:
            _report(review())
        except EverlearnError as error:
            notify(f"everlearn: {error}")
        done += 1


def _report(done: "Review") -> None:
    print_result(dataclasses.asdict(done))
    if any(dataclasses.astuple(done)):
        say(
            f"learned {done.taught} labels, forgot {done.forgotten}; "
            f"recognised {done.recognised} pictures, {done.unknown} unknown"
        )

"""Commands that connect a Memory to other systems."""

import os
import secrets
import threading
from typing import Any

import click

from everlearn.cli.context import opened
from everlearn.cli.output import as_json, print_result, say
from everlearn.errors import InvalidParameter

service_option = click.option(
    "--service",
    metavar="URL",
    help="Use the Memory of a running everlearn serve, whose token is in EVERLEARN_TOKEN, "
    "instead of a folder.",
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
    server = make_server(bridge, secret or secrets.token_hex(16), host=host, port=port)
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

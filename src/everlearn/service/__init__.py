"""The service: an HTTP API over Memories, a page with a camera, and a client.

gate.py       who may come in: Host, Origin, token, rate
api/          what can be asked for: routes, requests, answers, errors
served.py     a Memory with its one writer                 (writer.py: the queue)
events.py     what happens, told to whoever listens
webhooks.py   what happens, posted and signed
mqtt.py       what happens, at a broker, where Home Assistant finds it
app.py        all of it put together
server.py     the process
page/         what a browser is given
client.py     the same methods as a Memory's, from another process; needs no package
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

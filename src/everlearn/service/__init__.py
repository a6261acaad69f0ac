"""The service: an HTTP API over Memories, a page with a camera, and a client.

gate.py       access control: Host, Origin, token, rate
api/          routes, requests, answers, errors
served.py     a Memory with its single writer              (writer.py: the queue)
events.py     events as a stream for listeners
webhooks.py   events posted to URLs, signed
mqtt.py       answers and events at a broker, discovered by Home Assistant
app.py        the application, assembled from these
server.py     the process
page/         the files of the page
client.py     the methods of a Memory, from another process; standard library only
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

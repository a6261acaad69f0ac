"""An RTSP camera with the part of RFC 2326 that a reader over TCP needs.

Frames go out as an MPEG transport stream in RTP packets (RFC 2250, payload type 33), interleaved
with the answers on one connection.
"""

import io
import socketserver
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

import numpy as np

PACKET_BYTES = 188
PACKETS_PER_MESSAGE = 7


def transport_stream(frames: list[np.ndarray], rate: int) -> bytes:
    import av

    stream = io.BytesIO()
    with av.open(stream, "w", format="mpegts") as container:
        video = container.add_stream("mpeg2video", rate=rate)
        video.height, video.width = frames[0].shape[:2]
        video.pix_fmt = "yuv420p"
        video.gop_size = 5
        for frame in frames:
            container.mux(video.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(video.encode())
    return stream.getvalue()


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while words := self.rfile.readline().split():
                headers = {}
                while (line := self.rfile.readline().strip()) != b"":
                    key, _, value = line.partition(b":")
                    headers[key.lower()] = value.strip()
                self.answer(words[0].decode(), words[1].decode(), headers[b"cseq"].decode())
                if words[0] == b"PLAY":
                    self.play()
                    return

    def answer(self, method: str, address: str, number: str) -> None:
        body, more = "", ""
        if method == "DESCRIBE":
            body = (
                "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\n"
                "m=video 0 RTP/AVP 33\r\na=rtpmap:33 MP2T/90000\r\na=control:track\r\n"
            )
            more = f"Content-Type: application/sdp\r\nContent-Length: {len(body)}\r\n"
            more += f"Content-Base: {address}/\r\n"
        elif method == "SETUP":
            more = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 1\r\n"
        elif method == "PLAY":
            more = "Session: 1\r\n"
        response = f"RTSP/1.0 200 OK\r\nCSeq: {number}\r\n{more}\r\n{body}"
        self.wfile.write(response.encode())

    def play(self) -> None:
        data, step = self.server.data, PACKET_BYTES * PACKETS_PER_MESSAGE
        for count, start in enumerate(range(0, len(data), step)):
            payload = data[start : start + step]
            header = struct.pack(">BBHII", 0x80, 33, count & 0xFFFF, 9000 * count // 10, 1)
            frame = struct.pack(">cBH", b"$", 0, len(header) + len(payload)) + header + payload
            self.wfile.write(frame)
        if self.server.silent is not None:
            self.server.silent.wait()


@contextmanager
def rtsp_camera(data: bytes, *, goes_silent: bool = False) -> Iterator[int]:
    """A camera's port. After the last packet it disconnects, or stays connected and silent."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.daemon_threads = True
        server.data = data
        server.silent = Event() if goes_silent else None
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            if server.silent is not None:
                server.silent.set()
            server.shutdown()
            thread.join()

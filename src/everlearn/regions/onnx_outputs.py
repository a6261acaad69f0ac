"""Adds an output to an ONNX network, or makes its input size variable, without the onnx package.

A serialised Protocol Buffers message may be followed by another one of the same type: repeated
fields are appended, embedded messages merged. So a graph gets one more output by appending a few
bytes to the file,

    ModelProto { graph (7) { output (12) { name (1) } } }

and onnxruntime infers its type and shape. The input size is made variable by writing a name, ``h``
or ``w``, in place of the number: both take five bytes.
"""

from everlearn.errors import NotAModel
from everlearn.images.protobuf import message, varint

_GRAPH, _OUTPUT, _NAME = 7, 12, 1


def with_output(model: bytes, name: str) -> bytes:
    """The same network with the value called ``name`` as an additional output."""
    return model + message(_GRAPH, message(_OUTPUT, message(_NAME, name.encode())))


def with_free_sides(model: bytes, side: int) -> bytes:
    """The same network for pictures of any height and width, instead of ``side`` pixels."""
    channels = message(1, b"\x08\x03")
    fixed = message(1, b"\x08" + varint(side))
    freed = [message(1, message(2, name)) for name in (b"h", b"w")]
    before, after = channels + 2 * fixed, channels + b"".join(freed)
    if model.count(before) != 1 or len(before) != len(after):
        raise NotAModel(f"the network has no single input of 3 x {side} x {side} pixels")
    return model.replace(before, after)

"""The wire format of protocol buffers, against the examples of its specification."""

import pytest

from everlearn.images.protobuf import NotProtobuf, message, read_varint, varint


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, b"\x00"), (127, b"\x7f"), (128, b"\x80\x01"), (150, b"\x96\x01"), (300, b"\xac\x02")],
)
def test_integers_are_written_and_read_as_specified(value, written):
    assert varint(value) == written
    assert read_varint(b"\x08" + written + b"\xff", 1) == (value, 1 + len(written))


def test_an_integer_of_more_than_64_bits_is_refused():
    assert read_varint(varint(2**63), 0) == (2**63, 10)
    with pytest.raises(NotProtobuf):
        read_varint(b"\xff" * 10 + b"\x01", 0)


def test_text_is_a_length_delimited_field():
    assert message(2, b"testing") == b"\x12\x07testing"

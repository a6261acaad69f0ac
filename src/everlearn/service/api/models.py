"""The words of the API: what is sent and what comes back."""

import base64
import binascii
import math
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from everlearn.images.folders import LONGEST_NAME
from everlearn.memory.answers import Answers
from everlearn.memory.edits.forgetting import Forgotten
from everlearn.memory.edits.writing import LONGEST_GROUP

WIDEST = 65_536
LONGEST_SOURCE = 1_000

Number = Annotated[float, Field(strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Source = Annotated[str, Field(min_length=1, max_length=LONGEST_SOURCE)]

Group = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_GROUP,
        pattern=r"^[ -~]+$",
        description="A word of the client's own: what is taught under one is undone as one.",
    ),
]


def _decoded(value: Any) -> Any:
    """An image in JSON is text in base64; anywhere else it is bytes."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an image in JSON is written in base64") from None


Image = Annotated[
    bytes,
    BeforeValidator(_decoded),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


def _four_numbers(value: Any) -> Any:
    """In a form or an address a box is four numbers with commas; in JSON a list."""
    if not isinstance(value, str) or value == "auto":
        return value
    try:
        return [float(word) for word in value.split(",")]
    except ValueError:
        raise ValueError("a box is left,top,right,bottom in pixels or shares, or auto") from None


GivenBox = Annotated[
    Literal["auto"] | Annotated[list[float], Field(min_length=4, max_length=4)],
    BeforeValidator(_four_numbers),
]


class Sent(BaseModel):
    """What a client sends holds nothing we do not know."""

    model_config = ConfigDict(extra="forbid")


class OneExample(Sent):
    """A vector or an image, one of them."""

    vector: Annotated[list[Number], Field(min_length=1, max_length=WIDEST)] | None = None
    image: Image | None = None
    box: GivenBox | None = Field(
        None, description="A part of the image: left, top, right, bottom in pixels or shares."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.vector is None) == (self.image is None):
            raise ValueError("send one example: a vector or an image")
        return self

    @property
    def example(self) -> Any:
        """As a Memory takes it: never a word, which could be the path of a file."""
        return self.image if self.vector is None else self.vector


class TeachRequest(OneExample):
    name: Name
    source: Source | None = None
    again: bool = False
    also: bool = False
    group: Group | None = None


class CorrectRequest(OneExample):
    name: Name
    source: Source | None = Field(
        None, description="Where it came from; what is moved keeps the source it has."
    )
    also: bool = False


class AskRequest(OneExample):
    where: bool = Field(False, description="Ask about the surest thing, and say where it is.")
    top: Annotated[int, Field(ge=1, le=10_000)] | None = 5
    remember: bool = False
    session: Group | None = Field(
        None,
        description="A word of the client's own for a camera: its frames are answered together, "
        "too (``steady``).",
    )
    after: Annotated[int, Field(ge=0, lt=1 << 63)] | None = Field(
        None, description="Wait until everything up to this position is known."
    )


class ForgetRequest(Sent):
    """An example, a number, or a name and a source."""

    vector: Annotated[list[Number], Field(min_length=1, max_length=WIDEST)] | None = None
    image: Image | None = None
    id: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    name: Name | None = None
    source: Source | None = None
    erase: bool = False

    @model_validator(mode="after")
    def _one_example_at_most(self) -> Self:
        if self.vector is not None and self.image is not None:
            raise ValueError("send one example: a vector or an image")
        return self

    @property
    def choice(self) -> dict[str, Any]:
        """As a Memory takes it."""
        return {
            "what": self.image if self.vector is None else self.vector,
            "id": self.id,
            "name": self.name,
            "source": self.source,
            "erase": self.erase,
        }


class RenameRequest(Sent):
    old: Name
    new: Name


class Taught(BaseModel):
    new: bool = Field(description="False where the same image is taught under this name already.")


class Corrected(BaseModel):
    name: str
    moved_from: list[str]
    taught: bool


class OneAnswer(BaseModel):
    name: str
    probability: float


class SteadyAnswer(BaseModel):
    """What the latest frames of a session say together."""

    model_config = ConfigDict(from_attributes=True)

    name: str | None = Field(description="Null for unknown.")
    probability: float
    settled: bool = Field(description="Whether it led clearly at least once.")
    changed: bool = Field(description="Whether it is another one than after the frame before.")


class Answered(BaseModel):
    unknown: bool = Field(description="Whether it resembles nothing that was taught.")
    familiarity: float | None
    threshold: float | None
    p_value: float = Field(description="The share of taught things that look no more familiar.")
    probably: bool = Field(description="Whether it is known, but only just.")
    ignored: bool = Field(description="Whether it resembles strangers that are to be ignored.")
    answers: list[OneAnswer] = Field(description="The best first.")
    box: list[float] | None = Field(None, description="The part of the image it is about.")
    steady: SteadyAnswer | None = Field(None, description="In a session: by the latest frames.")

    @classmethod
    def of(cls, answers: Answers) -> Self:
        steady = answers.steady
        return cls(
            steady=None if steady is None else SteadyAnswer.model_validate(steady),
            box=None if answers.box is None else list(answers.box),
            unknown=answers.unknown,
            familiarity=finite(answers.familiarity),
            threshold=finite(answers.threshold),
            p_value=answers.p_value,
            probably=answers.probably,
            ignored=answers.ignored,
            answers=[OneAnswer(name=a.name, probability=a.probability) for a in answers],
        )


class Forgot(BaseModel):
    count: int
    names: dict[str, int]
    receipt: dict[str, Any] | None = Field(description="Of an erase.")
    receipt_file: str | None = Field(description="The same as a file to keep, with its digest.")

    @classmethod
    def of(cls, forgotten: Forgotten) -> Self:
        receipt = forgotten.receipt
        return cls(
            count=forgotten.count,
            names=forgotten.names,
            receipt=None if receipt is None else dict(vars(receipt)),
            receipt_file=None if receipt is None else receipt.as_json(),
        )


class Done(BaseModel):
    """One operation, done, undone or redone."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    kind: str
    count: int
    names: list[str]
    time: float
    undone: bool


class Undoable(BaseModel):
    undo: Done | None = Field(description="What would be taken back.")
    redo: Done | None = Field(description="What would be done again.")


class OneName(BaseModel):
    name: str
    count: int
    last_taught: float


class OneTeaching(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: int
    name: str
    source: str
    taught_at: float
    has_thumbnail: bool
    box: list[float] | None = Field(None, description="The part of the image that was taught.")


class Verified(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    problems: list[str]
    teachings: int
    log_entries: int
    log: str
    model: str
    erase_pending: bool


class Failure(BaseModel):
    """What went wrong."""

    class Details(BaseModel):
        kind: str
        message: str

    error: Details


def finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

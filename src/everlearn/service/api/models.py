"""Request and response models of the HTTP API.

The answer to a change with an idempotency key is stored under the name of its model, which has to
be defined here (kept_answers.py).
"""

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

from everlearn.images.names import LONGEST_NAME
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
        description="A word chosen by the client: teachings with the same one are undone together.",
    ),
]


def _decoded(value: Any) -> Any:
    """An image is base64 text in JSON and bytes everywhere else."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an image in JSON must be encoded in base64") from None


Image = Annotated[
    bytes,
    BeforeValidator(_decoded),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


def _four_numbers(value: Any) -> Any:
    """A box is four numbers with commas in a form or a query, and a list in JSON."""
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


class RequestModel(BaseModel):
    """Base of requests: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class OneExample(RequestModel):
    """Either a vector or an image."""

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
        """The example for a Memory; never a string, which could be the path of a file."""
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
        None, description="Where it came from; a moved teaching keeps the source it has."
    )
    also: bool = False


class AskRequest(OneExample):
    where: bool = Field(False, description="Ask about the most confident thing and return its box.")
    top: Annotated[int, Field(ge=1, le=10_000)] | None = 5
    remember: bool = False
    session: Group | None = Field(
        None,
        description="A word chosen by the client for a camera: ``steady`` combines the answers "
        "to its frames.",
    )
    after: Annotated[int, Field(ge=0, lt=1 << 63)] | None = Field(
        None, description="Wait until everything up to this position is included."
    )


class ForgetRequest(RequestModel):
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
        """As arguments of a Memory."""
        return {
            "what": self.image if self.vector is None else self.vector,
            "id": self.id,
            "name": self.name,
            "source": self.source,
            "erase": self.erase,
        }


class RenameRequest(RequestModel):
    old: Name
    new: Name


def finite(value: float | None) -> float | None:
    """JSON has no infinity: it is null."""
    return float(value) if value is not None and math.isfinite(value) else None


Finite = Annotated[float | None, BeforeValidator(finite)]


class RecordModel(BaseModel):
    """Base of responses that have the fields of a record of a Memory."""

    model_config = ConfigDict(from_attributes=True)


class Taught(BaseModel):
    new: bool = Field(description="False if the same image is already taught under this name.")


class Corrected(RecordModel):
    name: str
    moved_from: list[str]
    taught: bool


class OneAnswer(RecordModel):
    name: str
    probability: float


class SteadyAnswer(RecordModel):
    """The combined answer of the latest frames of a session."""

    name: str | None = Field(description="Null for unknown.")
    probability: float
    settled: bool = Field(description="Whether the name has led clearly at least once.")
    changed: bool = Field(description="Whether it differs from the previous frame's.")


class Answered(RecordModel):
    unknown: bool = Field(description="Whether it resembles nothing that was taught.")
    familiarity: Finite
    threshold: Finite
    p_value: float = Field(description="Share of taught examples that look no more familiar.")
    probably: bool = Field(description="Whether it is known, but only just.")
    ignored: bool = Field(description="Whether it resembles unknowns set to be ignored.")
    answers: list[OneAnswer] = Field(description="Best first.")
    box: list[float] | None = Field(None, description="The part of the image it is about.")
    steady: SteadyAnswer | None = Field(None, description="In a session: the latest frames.")

    @classmethod
    def of(cls, answers: Answers) -> Self:
        return cls.model_validate(vars(answers) | {"answers": list(answers)})


class Forgot(BaseModel):
    count: int
    names: dict[str, int]
    receipt: dict[str, Any] | None = Field(description="The receipt of an erase.")
    receipt_file: str | None = Field(description="The same as the text of a file, with its digest.")

    @classmethod
    def of(cls, forgotten: Forgotten) -> Self:
        receipt = forgotten.receipt
        return cls(
            count=forgotten.count,
            names=forgotten.names,
            receipt=None if receipt is None else dict(vars(receipt)),
            receipt_file=None if receipt is None else receipt.as_json(),
        )


class Done(RecordModel):
    """One operation: done, undone or redone."""

    id: int
    kind: str
    count: int
    names: list[str]
    time: float
    undone: bool


class Undoable(BaseModel):
    undo: Done | None = Field(description="What would be undone.")
    redo: Done | None = Field(description="What would be redone.")


class OneName(BaseModel):
    name: str
    count: int
    last_taught: float


class SimilarName(BaseModel):
    similar: str | None = Field(description="Null if there is none, or the name is known.")


class OneTeaching(RecordModel):
    id: int
    name: str
    source: str
    taught_at: float
    has_thumbnail: bool
    box: list[float] | None = Field(None, description="The part of the image that was taught.")


class Counted(BaseModel):
    count: int


class Strictness(RequestModel):
    accept: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        description="Lower bound on the share of familiar things that are not called unknown."
    )


class Verified(RecordModel):
    problems: list[str]
    teachings: int
    log_entries: int
    log: str
    model: str
    erase_pending: bool


class Failure(BaseModel):
    """The body of an error."""

    class Details(BaseModel):
        kind: str
        message: str

    error: Details

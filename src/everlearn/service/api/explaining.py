"""Routes that explain and evaluate: why, check, evaluate."""

import time
from functools import partial
from typing import Annotated, Any, Self

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, Field

from everlearn.errors import EverlearnError, NeverLearned
from everlearn.images.names import one_spelling
from everlearn.memory.answers import Answers
from everlearn.memory.insight.evaluate import Evaluation, was_taught
from everlearn.memory.insight.why import WITHOUT, Why
from everlearn.memory.memory import Memory
from everlearn.service.api.addresses import Chosen, documented_body, new_router
from everlearn.service.api.bodies import read_body
from everlearn.service.api.models import Finite, Name, OneExample, RecordModel, RequestModel, Source

MOST_EXAMPLES = 10_000
# Minimum time between two progress events.
PROGRESS_SECONDS = 0.2

router = new_router()


class WhyRequest(OneExample):
    name: Name | None = Field(None, description="Explain this name; defaults to the best answer.")
    top: Annotated[int, Field(ge=0, le=1_000)] = 5


class OneEffect(RecordModel):
    """The effect of one teaching on the score of the answer."""

    id: int
    name: str
    source: str
    score_with: float
    score_without: Finite
    probability_without: float
    effect: Finite
    box: list[float] | None = Field(None, description="The part of the image that was taught.")


class Explained(BaseModel):
    name: str
    score: float
    probability: float
    effects: list[OneEffect] = Field(description="Strongest first.")
    decisive: bool = Field(description="Whether a single teaching decides the answer.")
    answer_without: dict[str, str | None] = Field(description="Without the strongest 1, 2, 5.")

    @classmethod
    def of(cls, why: Why) -> Self:
        without = {str(count): why.answer_without(count) for count in WITHOUT}
        return cls(
            name=why.name,
            score=why.score,
            probability=why.probability,
            effects=[OneEffect.model_validate(effect) for effect in why.effects],
            decisive=why.decisive,
            answer_without=without,
        )


class OneAccuracy(RecordModel):
    right: int
    of: int
    interval: tuple[float, float]


class OneSuspect(RecordModel):
    id: int
    name: str
    source: str
    looks_like: str
    probability: float


class Checked(RecordModel):
    """The report of a Memory, by exact leave-one-out."""

    accuracy: OneAccuracy
    per_name: dict[str, OneAccuracy]
    confused_pairs: list[tuple[str, str, int]]
    mislabelled: list[OneSuspect]
    near_duplicates: list[tuple[int, int, float]]
    blurred: list[int]
    dark: list[int]
    too_few: list[str]
    advice: dict[str, str] = Field(description="For each name, what to show next.")
    ranking: list[int]
    pictured: Annotated[list[int], BeforeValidator(sorted)] = Field(
        validation_alias="thumbnails", description="Listed teachings that have a thumbnail."
    )
    strangers_noticed: float | None = Field(
        description="Share of things never taught that would be called unknown, estimated by "
        "treating each name as unknown; null if too little was taught for an estimate."
    )


class Labelled(OneExample):
    name: Name
    file: Source | None = Field(None, description="How the answer refers to it.")


class EvaluateRequest(RequestModel):
    examples: Annotated[list[Labelled], Field(min_length=1, max_length=MOST_EXAMPLES)]


class OneOutcome(BaseModel):
    """The files of one name that got the same answer."""

    name: str
    answered: str | None
    files: list[str]


def _by_answer(answers: dict[tuple[str, str | None], list[str]]) -> list[OneOutcome]:
    return [
        OneOutcome(name=name, answered=said, files=files) for (name, said), files in answers.items()
    ]


class Evaluated(RecordModel):
    accuracy: Finite = Field(description="On the examples whose name is known.")
    n_known: int
    n_unknown: int
    flagged_known: int
    flagged_unknown: int
    answers: Annotated[list[OneOutcome], BeforeValidator(_by_answer)] = Field(
        description="The files by name and answer; correct ones too."
    )
    taken_for: list[tuple[str, str, str]]
    taught: list[str]
    unreadable: list[tuple[str, str]]


@router.post("/why", openapi_extra=documented_body(WhyRequest, bare=True))
async def why(request: Request, served: Chosen) -> Explained:
    """Which pictures led to this answer, and what would it be without them?"""
    sent = await read_body(request, WhyRequest)
    found = await served.question(
        lambda memory: memory.why(sent.example, sent.name, box=sent.box, top=sent.top)
    )
    return Explained.of(found)


@router.get("/check")
async def check(served: Chosen) -> Checked:
    """Accuracy by leave-one-out, doubtful pictures, and what to show next; emits progress."""
    published = 0.0

    def step(done: int, of: int) -> None:
        nonlocal published
        if time.monotonic() - published >= PROGRESS_SECONDS or done == of:
            published = time.monotonic()
            served.publish("progress", work="check", done=done, of=of)

    report = await served.long_question(lambda memory: memory.report(progress=step))
    return Checked.model_validate(report)


@router.post("/evaluate", openapi_extra=documented_body(EvaluateRequest))
async def evaluate(request: Request, served: Chosen) -> Evaluated:
    """Ask about many labelled examples and compare the answers with their names."""
    sent = await read_body(request, EvaluateRequest)
    known = await served.question(lambda memory: memory.names())
    if not known:
        raise NeverLearned("nothing was taught yet, so there is nothing to evaluate")
    spelling = one_spelling([one.name for one in sent.examples], known)
    found = Evaluation()
    for number, one in enumerate(sent.examples, start=1):
        answers, taught = await served.question(partial(_ask, example=one.example))
        file, name = one.file or str(number), spelling[one.name]
        found.count(file, name, answers, known=name in known, taught=taught)
    return Evaluated.model_validate(found)


def _ask(memory: Memory, example: Any) -> tuple[Answers | Exception, bool]:
    """The answers, or the error, and whether the example was taught."""
    try:
        return memory.ask(example, top=1), was_taught(memory, example)
    except EverlearnError as error:
        return error, False

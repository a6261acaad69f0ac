"""The API keeps to its own description, whatever is sent."""

import base64

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.conftest import picture

IMAGE = base64.b64encode(picture(200, 0, 0)).decode()
WORDS = st.text(max_size=12) | st.sampled_from(["red", "blue", "cup", "camera"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
NESTED = PLAIN | st.lists(PLAIN, max_size=3)
ANYTHING = NESTED | st.dictionaries(st.text(max_size=5), NESTED, max_size=3)


def drawn(schema, definitions):
    """Values that a schema allows, and now and then one that it may not."""
    if "$ref" in schema:
        return drawn(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return st.one_of([drawn(one, definitions) for one in schema["anyOf"]])
    if schema.get("contentEncoding") == "base64":
        return st.sampled_from([IMAGE, "", "bm8gaW1hZ2U=", "no base64"])
    kinds = {
        "null": st.none(),
        "boolean": st.booleans(),
        "string": WORDS,
        "number": st.floats(allow_nan=False, width=32) | st.integers(-3, 3),
        "integer": st.integers(schema.get("minimum", 0), min(schema.get("maximum", 20), 20))
        | st.integers(),
    }
    if schema["type"] == "array":
        return st.lists(drawn(schema["items"], definitions), max_size=4)
    if schema["type"] == "object":
        known = {name: drawn(one, definitions) for name, one in schema["properties"].items()}
        needed = {name: known[name] for name in schema.get("required", ())}
        rest = {name: one for name, one in known.items() if name not in needed}
        return st.fixed_dictionaries(needed, optional=rest)
    return kinds[schema["type"]]


def operations(description):
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if path != "/v1/events":  # which never ends; test_client.py listens to it
                yield path, method, operation


@pytest.fixture
def description(api):
    return api.get("/v1/openapi.json").json()


def require_described(answer, operation, components):
    assert str(answer.status_code) in operation["responses"], answer.text
    kind = answer.headers["content-type"].partition(";")[0]
    described = operation["responses"][str(answer.status_code)].get("content", {})
    if kind != "application/json" or kind not in described:
        assert "Traceback" not in answer.text
        return
    schema = {**described[kind]["schema"], "components": components}
    jsonschema.validate(answer.json(), schema)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_answers_are_as_described_whatever_is_sent(api, description, data):
    every = list(operations(description))
    path, method, operation = data.draw(st.sampled_from(every))
    query = {}
    for one in operation.get("parameters", ()):
        value = data.draw(drawn(one["schema"], {}) | st.none() | WORDS)
        if one["in"] == "path":
            path = path.replace("{id}", str(data.draw(st.integers(-1, 4))))
        elif one["in"] == "query" and value is not None:
            query[one["name"]] = value
    if data.draw(st.booleans()):
        query.pop("memory", None)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    sent = {}
    if body is not None:
        schema = body["schema"]
        allowed = drawn(schema, schema.get("$defs", {}))
        sent["json"] = data.draw(allowed if data.draw(st.integers(0, 5)) else ANYTHING)
    answer = api.request(method.upper(), path, params=query, **sent)
    require_described(answer, operation, description["components"])


def test_what_a_schema_allows_is_drawn_and_accepted(api, description):
    """So that the test above does not only see refusals."""
    body = {"vector": [1.0, 0.0], "name": "cup"}
    schema = description["paths"]["/v1/teach"]["post"]["requestBody"]["content"]
    jsonschema.validate(body, schema["application/json"]["schema"])
    assert api.post("/v1/teach", json=body).status_code == 200
    for path, method, operation in operations(description):
        if method == "get" and "{" not in path:
            answer = api.get(path)
            assert answer.status_code == 200, (path, answer.text)
            require_described(answer, operation, description["components"])

"""The API follows its own description, whatever is sent."""

import base64
import tempfile
from functools import cache

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everlearn import Memory
from everlearn.service import Settings, create_app
from tests.service.conftest import ADDRESS, TOKEN, picture

IMAGE = base64.b64encode(picture(200, 0, 0)).decode()
WORDS = st.text(max_size=12) | st.sampled_from(["red", "blue", "cup", "camera"])
FINITE = st.floats(allow_nan=False, allow_infinity=False)  # JSON has no others
PLAIN = st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5)
NESTED = PLAIN | st.lists(PLAIN, max_size=3)
ANYTHING = NESTED | st.dictionaries(st.text(max_size=5), NESTED, max_size=3)


def validate(value, schema):
    """As jsonschema does, which takes seconds to import: not while tests are collected."""
    import jsonschema

    jsonschema.validate(value, schema)


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
        "number": FINITE | st.integers(-3, 3),
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


@cache
def description():
    """What a service says of itself; the same whatever it serves."""
    with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
        app, _ = create_app({"home": memory}, Settings(token=TOKEN))
        with TestClient(app, base_url=ADDRESS) as client:
            client.headers["authorization"] = f"Bearer {TOKEN}"
            return client.get("/v1/openapi.json").json()


def requests():
    """Any operation, with what it takes and now and then with something else."""
    return st.one_of([asked(*operation) for operation in operations(description())])


def asked(path, method, operation):
    query = {
        one["name"]: drawn(one["schema"], {}) | WORDS
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    }
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    sent = st.just({})
    if body is not None:
        allowed = drawn(body["schema"], body["schema"].get("$defs", {}))
        sent = st.fixed_dictionaries({"json": st.one_of(allowed, allowed, allowed, ANYTHING)})
    return st.tuples(
        st.just((path, method, operation)),
        st.integers(-1, 4),
        st.fixed_dictionaries({}, optional=query),
        sent,
    )


def require_described(answer, operation, components):
    assert str(answer.status_code) in operation["responses"], answer.text
    kind = answer.headers["content-type"].partition(";")[0]
    described = operation["responses"][str(answer.status_code)].get("content", {})
    if kind != "application/json" or kind not in described:
        assert "Traceback" not in answer.text
        return
    schema = {**described[kind]["schema"], "components": components}
    validate(answer.json(), schema)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=st.deferred(requests))
def test_answers_are_as_described_whatever_is_sent(api, request):
    (path, method, operation), number, query, sent = request
    path = path.replace("{id}", str(number))
    answer = api.request(method.upper(), path, params=query, **sent)
    require_described(answer, operation, description()["components"])


def test_values_drawn_from_a_schema_are_accepted(api):
    """So that the test above does not only see refusals."""
    body = {"vector": [1.0, 0.0], "name": "cup"}
    schema = description()["paths"]["/v1/teach"]["post"]["requestBody"]["content"]
    validate(body, schema["application/json"]["schema"])
    assert api.post("/v1/teach", json=body).status_code == 200
    for path, method, operation in operations(description()):
        if method == "get" and "{" not in path:
            wanted = {p["name"]: "cup" for p in operation.get("parameters", ()) if p["required"]}
            answer = api.get(path, params=wanted)
            assert answer.status_code == 200, (path, answer.text)
            require_described(answer, operation, description()["components"])

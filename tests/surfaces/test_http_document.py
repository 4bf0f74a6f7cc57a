"""The OpenAPI document: every operation has a name, a description and examples that work."""

from __future__ import annotations

from typing import Any

import pytest

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.server.http.request_parsing import EXAMPLE_ID, OTHER_ID
from retentive.stores import open_store
from tests.surfaces.serving import client


def document() -> dict[str, Any]:
    with Engine(open_store("memory://")) as engine:
        return create_app(engine).openapi()


DOCUMENT = document()
OPERATIONS = {
    (method.upper(), path): operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}


FOR_OPENAI_CLIENTS = ("/v1/chat/completions", "/v1/models")
"""They need a model behind them, and fail in the shape that those clients know."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    return DOCUMENT["components"]["schemas"][name] if name else schema


def examples() -> list[Any]:
    """Each body that the document shows, with the operation that takes it."""
    found = []
    for (method, path), operation in OPERATIONS.items():
        if "requestBody" in operation and path not in FOR_OPENAI_CLIENTS:
            content = operation["requestBody"]["content"].get("application/json")
            if content is None:
                continue
            shown = [example["value"] for example in content.get("examples", {}).values()]
            forms = [content["schema"], *content["schema"].get("anyOf", [])]
            shown += [example for form in forms for example in resolved(form).get("examples", [])]
            assert shown, f"{method} {path} has no example"
            found += [pytest.param(method, path, body, id=f"{operation['operationId']} {body}") for body in shown]
    return found


@pytest.mark.parametrize(("method", "path", "body"), examples())
def test_every_example_works_as_it_is_shown(method, path, body):
    with Engine(open_store("memory://")) as engine:
        engine.remember("I am allergic to peanuts", id=EXAMPLE_ID, session="2026-05-08", speaker="Ana")
        other = engine.remember("Bo plays the cello", id=OTHER_ID)
        suggestion = engine.reviews.add(EXAMPLE_ID, other, "an example")
        for query in ("What can Ana not eat?", *(f"query {number}?" for number in range(9))):
            engine.judge(query, good=[EXAMPLE_ID])
        for weight in (1, 2, 3):
            engine.tuning.save({"keyword_weight": weight})
        id = suggestion.id if "/reviews/" in path else EXAMPLE_ID
        address = path.replace("{id}", id).replace("{name}", "2026-05-08")

        with client(engine) as asking:  # which ends what an example starts in the background
            answer = asking.request(method, address, json=body)

        assert answer.status_code in (200, 201, 202, 204), answer.text


@pytest.mark.parametrize(("method", "path"), [one for one in OPERATIONS if one[1] not in FOR_OPENAI_CLIENTS])
def test_every_operation_is_named_told_and_can_fail_in_ways_that_are_told(method, path):
    operation = OPERATIONS[method, path]

    assert operation["operationId"].isidentifier()
    assert operation["summary"]
    assert operation["description"]
    assert len(operation["tags"]) == 1
    failures = {status: answer for status, answer in operation["responses"].items() if status >= "400"}
    assert {"401", "403", "413", "421", "422", "503"} <= set(failures)
    for answer in failures.values():
        assert answer["content"] == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def test_no_two_operations_share_a_name():
    names = [operation["operationId"] for operation in OPERATIONS.values()]

    assert len(set(names)) == len(names)


def test_every_schema_that_is_spoken_of_is_defined():
    spoken = {part.split('"')[0] for part in str(DOCUMENT).replace("'", '"').split("#/components/schemas/")[1:]}

    assert spoken <= set(DOCUMENT["components"]["schemas"])
    assert "Problem" in spoken


def test_the_document_and_its_page_are_served():
    with Engine(open_store("memory://")) as engine:
        asking = client(engine)

        assert asking.get("/openapi.json").json() == DOCUMENT
        page = asking.get("/docs")
        assert "swagger" in page.text
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
        assert page.headers["x-frame-options"] == "DENY"

"""Requests generated from the OpenAPI document: valid ones are accepted, invalid ones are rejected, none fails."""

from __future__ import annotations

import schemathesis
from schemathesis import Case

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store

ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409", "412", "429", "5xx"]
"""The answers to valid requests. 412: an `If-Match` that was made up is valid, and no ETag of anything here."""

CONFIG = {
    "seed": 1,
    "generation": {"max-examples": 5, "deterministic": True, "no-shrink": True},
    "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
}

# A token is required, so that requests without one are tested too. The test client uses the host name "testserver".
SETTINGS = Settings(store="memory://", server=ServerSettings(require_token=True, hosts=("testserver",)))
ENGINE = Engine(open_store("memory://"), settings=SETTINGS)
ENGINE.remember("I am allergic to peanuts", session="1")
_, SECRET = ENGINE.tokens.create(access="admin")

document = schemathesis.openapi.from_asgi(
    "/openapi.json", create_app(ENGINE), config=schemathesis.Config.from_dict(CONFIG)
)


# test_chat_schema.py tests the operations that need an LLM server. Bytes that are made up are no file of a format.
@document.exclude(path_regex="^/v1/(chat|models|import)").parametrize()
def test_every_operation_does_as_the_document_says(case: Case) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {SECRET}"})

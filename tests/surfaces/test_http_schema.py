"""The OpenAPI document, taken at its word: what it allows is accepted, what it forbids is refused, nothing breaks."""

from __future__ import annotations

import schemathesis
from schemathesis import Case

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.settings import ServerSettings, Settings
from retentive.stores import open_store

CONFIG = {"seed": 1, "generation": {"max-examples": 5, "deterministic": True, "no-shrink": True}}

# Nobody comes in without a token here, so that this is tried too. The test client calls the service "testserver".
SETTINGS = Settings(store="memory://", server=ServerSettings(require_token=True, hosts=("testserver",)))
ENGINE = Engine(open_store("memory://"), settings=SETTINGS)
ENGINE.remember("I am allergic to peanuts", session="1")
_, SECRET = ENGINE.tokens.create(access="admin")

document = schemathesis.openapi.from_asgi(
    "/openapi.json", create_app(ENGINE), config=schemathesis.Config.from_dict(CONFIG)
)


# What needs a model behind it is tried in test_chat_schema.py.
@document.exclude(path_regex="^/v1/(chat|models)").parametrize()
def test_every_operation_does_as_the_document_says(case: Case) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {SECRET}"})

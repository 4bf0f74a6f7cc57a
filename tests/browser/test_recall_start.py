"""The Recall view in a browser before the first query: examples, and the ways to fill an empty store."""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from retentive.transfer.samples import QUERIES, read_samples


@pytest.fixture
def empty(engine: Engine) -> Engine:
    """Return the engine of the service without memories."""
    engine.forget_scope(engine.scope(), confirm=True)
    return engine


def examples(page: Page) -> list[str]:
    page.locator(".examples button").first.wait_for()
    return page.locator(".examples button").all_inner_texts()


def test_a_visitor_sees_a_query_box_with_three_examples_and_no_parameters(page, base_url):
    page.goto(base_url)

    assert examples(page) == list(QUERIES[:3])
    expect(page.get_by_label("Query")).to_be_visible()
    expect(page.locator("input[type=range]:visible")).to_have_count(0)
    page.get_by_role("button", name=QUERIES[0]).click()
    expect(page.locator(".hit").first).to_contain_text("Induction it is then")
    expect(page.get_by_label("Query")).to_have_value(QUERIES[0])
    expect(page.locator(".examples")).not_to_be_visible()
    expect(page.locator(".basic-parameters input[type=range]:visible")).to_have_count(4)
    expect(page.locator(".advanced")).not_to_have_attribute("open", "")


def test_the_examples_of_another_store_are_the_first_words_of_memories_of_different_sessions(page, base_url, empty):
    empty.remember("The ferry leaves at eight, from the northern pier. Be early.", session="trip")
    empty.remember("Bring the tickets for the ferry", session="trip")
    empty.remember("The dentist moved to the harbour street last week", session="health")
    page.goto(base_url)

    assert examples(page) == ["The dentist moved to the harbour", "Bring the tickets for the ferry"]


def test_an_empty_store_says_so_and_loads_the_samples(page, base_url, empty):
    page.goto(f"{base_url}/#/recall?q=anything")
    expect(page.get_by_role("heading", name="No memories yet")).to_be_visible()
    found = Axe().run(page).response["violations"]
    assert [rule["id"] for rule in found if rule["impact"] in ("serious", "critical")] == []

    page.get_by_role("button", name="Load the samples").click()

    assert examples(page) == list(QUERIES[:3])
    expect(page.locator(".toast")).to_contain_text(f"{len(read_samples())} memories stored")
    assert {memory.source for memory in empty.list(limit=100).memories} == {"retentive-sample"}
    expect(page.get_by_label("Project").get_by_role("option", name="sample-kitchen")).to_have_count(1)


def test_a_file_is_imported_into_an_empty_store(page, base_url, empty):
    line = json.dumps({"text": "The spare key is under the third flowerpot"})
    page.goto(base_url)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import a JSONL file").click()

    chooser.value.set_files([{"name": "notes.jsonl", "mimeType": "application/jsonl", "buffer": line.encode()}])

    assert examples(page) == ["The spare key is under"]
    expect(page.get_by_role("region", name="Import")).to_contain_text("1 memory added")


def test_a_first_memory_is_written_in_an_empty_store(page, base_url, empty):
    page.goto(base_url)
    page.get_by_role("button", name="Remember…").click()
    dialog = page.get_by_role("dialog", name="Remember a memory")
    dialog.get_by_label("Text").fill("The spare key is under the third flowerpot")

    dialog.get_by_role("button", name="Remember").click()

    assert examples(page) == ["The spare key is under"]


def test_the_page_links_to_the_reference_of_the_api(page, base_url):
    page.goto(base_url)

    page.get_by_role("link", name="API reference").click()

    expect(page).to_have_url(f"{base_url}/docs")

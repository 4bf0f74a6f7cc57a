"""The review queue in a browser: pairs of memories, accepted or rejected, with undo."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from tests.browser.test_memories_page import EVIL, is_too_wide, serious


@pytest.fixture
def embedder() -> None:
    """Use the keyword retriever alone."""
    return


@pytest.fixture
def pairs(engine: Engine) -> list[Any]:
    """Two open suggestions; the text of the first older memory is markup."""
    engine.remember(f"My dentist is Dr Kova {EVIL}", speaker="Ana", occurred="2024-02-01T10:00:00Z")
    engine.remember("My dentist is no longer Dr Kova", speaker="Ana", occurred="2025-02-01T10:00:00Z")
    engine.remember("My boat lies in Kiel harbour", speaker="Ana", occurred="2024-02-01T10:00:00Z")
    engine.remember(
        "I moved to Lübeck with my boat, out of Kiel harbour", speaker="Ana", occurred="2025-02-01T10:00:00Z"
    )
    found = list(engine.reviews.list())
    assert len(found) == 2
    return found


def shown(page: Page) -> Any:
    return page.get_by_role("list", name="Suggestions").locator(".review-pair")


def test_a_suggestion_is_accepted_rejected_and_undone(page, base_url, engine: Engine, pairs):
    page.goto(f"{base_url}/#/memories")
    expect(page.locator(".review-bar")).to_contain_text("2 memories may be out of date")
    page.locator(".review-bar").get_by_role("button", name="Review").click()
    expect(shown(page)).to_have_count(2)
    expect(shown(page).first.locator(".review-older .review-text")).to_have_text(pairs[0].old.text)
    expect(shown(page).first).to_contain_text("no longer")
    assert serious(page) == []

    shown(page).first.get_by_role("button", name="Accept").focus()
    page.keyboard.press("Enter")
    expect(shown(page)).to_have_count(1)
    expect(shown(page).get_by_role("button", name="Accept")).to_be_focused()
    assert engine.get(pairs[0].old.id).superseded_by == pairs[0].new.id

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No suggestion is open.")).to_be_visible()
    assert [len(engine.reviews.list(status=status)) for status in ("confirmed", "dismissed")] == [1, 1]
    assert engine.get(pairs[1].old.id).superseded_by is None

    page.locator(".toast").last.get_by_role("button", name="Undo").click()
    expect(shown(page)).to_have_count(1)
    page.get_by_role("button", name="Accepted", exact=True).click()
    shown(page).get_by_role("button", name="Undo").click()
    expect(page.get_by_text("No suggestion has been accepted.")).to_be_visible()
    assert engine.get(pairs[0].old.id).superseded_by is None
    assert len(engine.reviews.list()) == 2
    assert page.title() == "Memories · Retentive"


def test_the_queue_fits_a_phone_and_the_catalogue_leads_to_it(page, base_url, pairs):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{base_url}/#/memories")
    page.get_by_label("Project or session").select_option(label="Review (2)")

    expect(shown(page)).to_have_count(2)
    assert not is_too_wide(page)
    assert serious(page) == []
    page.get_by_role("button", name="Back to the list").click()
    expect(page.locator(".memory-opener").first).to_be_visible()

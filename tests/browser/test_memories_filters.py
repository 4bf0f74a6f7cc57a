"""The Memories view in a browser: search, filters, bulk edit, and the histogram."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retentive.engine import Engine
from tests.browser.test_memories_page import EVIL, Api, api, is_too_wide, rows, serious

__all__ = ["api"]


@pytest.fixture
def embedder() -> None:
    """Use the keyword retriever alone."""
    return


@pytest.fixture
def posts(engine: Engine) -> list[str]:
    """Six memories of three days and two channels, in two sessions; returns their ids, oldest first."""
    drafts = [
        {
            "text": f"Post {at} about the breakwater",
            "project": "harbour",
            "session": f"watch-{at // 3}",
            "occurred": f"2025-01-1{at // 2}T12:00:00Z",
            "metadata": {"channel": "mail" if at % 2 else "phone", "n": at},
        }
        for at in range(6)
    ]
    return [memory.id for memory in engine.remember_many(drafts)]


def listed(page: Page) -> Any:
    return page.locator(".memory-text")


def posted(*numbers: int) -> list[str]:
    return [f"Post {at} about the breakwater" for at in numbers]


def select(page: Page, *numbers: int) -> None:
    for text in posted(*numbers):
        page.get_by_role("checkbox", name=f"Select “{text}”").check()


def test_a_search_lists_what_it_finds_and_is_no_use_of_the_memories(page, base_url, engine: Engine, posts):
    engine.remember(f"The lighthouse keeper {EVIL}")
    page.goto(f"{base_url}/#/memories")
    expect(rows(page)).to_have_count(49)
    page.get_by_label("Search memories").fill("lighthouse keeper")
    page.keyboard.press("Enter")

    expect(listed(page)).to_have_text([f"The lighthouse keeper {EVIL}"])
    assert "q=lighthouse+keeper" in page.url
    page.get_by_label("Search memories").fill("breakwater")
    page.keyboard.press("Enter")
    expect(listed(page)).to_have_count(6)
    page.reload()
    expect(listed(page)).to_have_count(6)
    expect(page.get_by_label("Search memories")).to_have_value("breakwater")
    page.get_by_label("Search memories").fill("")
    expect(rows(page)).to_have_count(49)
    assert page.title() == "Memories · Retentive"


def test_the_list_is_filtered_by_period_and_metadata(page, base_url, posts):
    page.goto(f"{base_url}/#/memories?project=harbour")
    expect(listed(page)).to_have_text(posted(5, 4, 3, 2, 1, 0))
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("From").fill("2025-01-11")
    expect(listed(page)).to_have_text(posted(5, 4, 3, 2))
    page.get_by_label("Until").fill("2025-01-11")
    expect(listed(page)).to_have_text(posted(3, 2))
    page.get_by_label("Metadata").fill("channel = mail, n = 3")
    page.keyboard.press("Enter")
    expect(listed(page)).to_have_text(posted(3))
    assert serious(page) == []
    page.get_by_role("button", name="Clear filters").click()
    expect(listed(page)).to_have_text(posted(5, 4, 3, 2, 1, 0))
    page.get_by_label("Search memories").fill("breakwater")
    page.keyboard.press("Enter")
    page.get_by_label("Metadata").fill("channel = phone")
    page.keyboard.press("Tab")
    expect(listed(page)).to_have_count(3)


def test_selected_memories_are_changed_together_and_the_change_is_undone(page, base_url, engine: Engine, posts):
    page.goto(f"{base_url}/#/memories?project=harbour")
    select(page, 0, 4)
    page.get_by_role("button", name="Edit…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Change").click()
    expect(dialog.get_by_role("alert")).to_have_text("Nothing was chosen that changes these memories.")
    dialog.get_by_label("Kind").select_option("semantic")
    dialog.get_by_label("Importance").fill("0.9")
    dialog.get_by_label("Project of their sessions").fill("coast")
    expect(dialog).to_contain_text("2 sessions with 6 memories will be moved")
    assert serious(page) == []
    dialog.get_by_role("button", name="Change").click()

    expect(page.locator(".toast")).to_contain_text("Changed 2 memories and 2 sessions")
    changed = {memory.id: memory for memory in engine.get_many(posts)}
    assert [changed[id].kind for id in posts] == ["semantic", *["episodic"] * 3, "semantic", "episodic"]
    assert (changed[posts[0]].importance, changed[posts[1]].importance) == (0.9, 0.5)
    assert {memory.project for memory in changed.values()} == {"coast"}

    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator("#announcer")).to_have_text("Undone")
    restored = engine.get_many(posts)
    assert {(memory.kind, memory.importance, memory.project) for memory in restored} == {("episodic", 0.5, "harbour")}


def test_memories_found_by_a_search_are_forgotten_and_restored(page, base_url, engine: Engine, posts):
    page.goto(f"{base_url}/#/memories?q=breakwater")
    select(page, 1)
    page.get_by_role("button", name="Select all shown").click()
    page.get_by_role("button", name="Forget 6 memories…").click()
    page.get_by_role("button", name="Forget 6 memories", exact=True).click()
    expect(listed(page)).to_have_count(0)
    assert not engine.get_many(posts)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(listed(page)).to_have_count(6)
    assert len(engine.get_many(posts)) == 6


def test_the_histogram_lists_the_period_of_a_bar_or_of_a_drag(page, base_url, posts):
    page.goto(f"{base_url}/#/memories?project=harbour")
    chart = page.get_by_role("img", name="Memories over time")
    bars = chart.locator(".histogram-bar")
    expect(bars).to_have_count(3)
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 30, steps=3)
    expect(chart.locator(".histogram-bar.out")).to_have_count(1)
    page.mouse.up()
    expect(page.get_by_label("From")).to_have_value("2025-01-11")
    expect(page.get_by_label("Until")).to_have_value("2025-01-12")
    expect(listed(page)).to_have_text(posted(5, 4, 3, 2))
    chart.click(position={"x": 2, "y": 30})
    expect(listed(page)).to_have_text(posted(1, 0))
    page.get_by_role("button", name="Whole time").click()
    expect(listed(page)).to_have_count(6)
    assert serious(page) == []


def test_on_a_phone_filters_bulk_edit_and_histogram_fit(page, base_url, posts, api: Api):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{base_url}/#/memories?project=harbour&since=2025-01-10")
    before = page.locator(".filter-more").bounding_box()
    page.locator(".filter-more summary").click()
    expect(page.get_by_label("From")).to_be_hidden()
    assert page.locator(".filter-more").bounding_box() == before, "the button moves when it is pressed"
    page.get_by_text("Memories over time").click()
    expect(page.get_by_role("img", name="Memories over time")).to_be_visible()
    select(page, 5)
    expect(page.get_by_role("button", name="Edit…")).to_be_visible()
    assert not is_too_wide(page)
    assert serious(page) == []


def test_the_period_that_a_query_names_is_shown_in_both_views_and_as_a_band_of_the_histogram(page, base_url, posts):
    page.goto(f"{base_url}/#/memories?project=harbour&q=breakwater on 11 January 2025")
    chart = page.get_by_role("img", name="Memories over time")
    band = chart.locator(".histogram-band")
    expect(band).to_have_count(1)
    assert band.evaluate(
        "band => ['x', 'width'].map(name => band[name].baseVal.value / band.parentNode.width.baseVal.value)"
    ) == pytest.approx([1 / 3, 1 / 3], rel=0.01)
    expect(page.locator(".histogram summary")).to_contain_text("period: 11 January 2025")
    page.get_by_role("searchbox", name="Search memories").fill("breakwater")
    page.keyboard.press("Enter")
    expect(band).to_have_count(0)

    page.goto(f"{base_url}/#/recall?q=breakwater in January 2025")
    expect(page.locator(".timing .tag")).to_have_text(re.compile(r"^Period: 1\W+31 January 2025$"))
    assert serious(page) == []

"""The Compare view in a browser: two tunings on one query and on the judged queries."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from retentive.engine import Engine
from tests.browser.test_memories_page import EVIL, is_too_wide, serious

LOGINS = "why did the logins fail?"
ALLERGIES = "Any allergies?"


def open_comparison(page: Page, base_url: str, parameters: str = "") -> None:
    page.goto(f"{base_url}/#/compare?{parameters}")
    page.get_by_label("Query").fill(LOGINS)
    page.keyboard.press("Enter")
    page.locator(".compare-lists").wait_for()


def texts(page: Page, side: str) -> list[str]:
    return page.locator(f".compare-side-{side} .compare-text").all_inner_texts()


def compared(page: Page, base_url: str, a: Any, b: Any) -> Any:
    body = {"query": LOGINS, "a": a, "b": b, "limit": 10}
    return page.request.post(f"{base_url}/v1/recall/compare", data=body).json()


def test_both_results_are_shown_with_what_moved(page, base_url, engine: Engine):
    engine.remember(f"The logins fail {EVIL}")
    open_comparison(page, base_url, "a=keyword-only&b=semantic-only")

    found = compared(page, base_url, "keyword-only", "semantic-only")
    for side in ("a", "b"):
        assert [text.split("<")[0].strip() for text in texts(page, side)] == [
            hit["memory"]["text"].split("<")[0].strip() for hit in found[side]["hits"]
        ]
    moves = {
        "entered": sum(move["rankA"] is None for move in found["moved"]),
        "left": sum(move["rankB"] is None for move in found["moved"]),
        "up": sum((move["change"] or 0) > 0 for move in found["moved"]),
    }
    assert moves["entered"]
    for kind, count in moves.items():
        shown = page.locator(f".compare-side .compare-move.{kind}")
        expect(shown).to_have_count(count)
        if count:
            expect(page.locator(".compare-summary")).to_contain_text(f"{count} {kind}")
    in_both = sum(move["change"] is not None for move in found["moved"])
    expect(page.locator(".compare-slopes path")).to_have_count(in_both)
    assert page.title() == "Compare · Retentive"
    assert serious(page) == []


def test_a_changed_parameter_is_in_the_link_and_the_sides_can_be_swapped(page, base_url):
    open_comparison(page, base_url, "b=saved")
    expect(page.locator(".compare-summary")).to_contain_text("10 unchanged")
    page.get_by_label("Parameter of B to change").select_option("semanticWeight")
    page.get_by_label("Semantic weight", exact=True).fill("0")

    expect(page.locator(".compare-side-b h2")).to_have_text("B: saved tuning with 1 change")
    expect(page.locator(".compare-summary")).not_to_contain_text("10 unchanged")
    expected = compared(page, base_url, None, {"semanticWeight": 0})
    expect(page.locator(".compare-side-b .compare-text")).to_have_text(
        [hit["memory"]["text"] for hit in expected["b"]["hits"]]
    )
    page.reload()
    expect(page.get_by_label("Semantic weight", exact=True)).to_have_value("0")
    page.get_by_role("button", name="Swap A and B").click()
    expect(page.locator(".compare-side-a h2")).to_have_text("A: saved tuning with 1 change")
    page.get_by_role("button", name="Semantic weight of A: do not change it").click()
    expect(page.locator(".compare-summary")).to_contain_text("10 unchanged")


def test_one_retriever_and_no_judge_are_chosen_by_name(page, base_url):
    open_comparison(page, base_url, "b=saved")
    choices = page.get_by_label("Parameter of B to change")
    expect(choices.locator("option", has_text="Judge orders")).to_have_count(0)
    choices.select_option("Semantic retriever only")

    expect(page.get_by_label("Keyword weight", exact=True)).to_be_focused()
    expect(page.locator(".compare-summary")).not_to_contain_text("10 unchanged")
    saved = page.request.get(f"{base_url}/settings").json()
    tuning = {"keywordWeight": 0, "semanticWeight": saved["semanticWeight"]}
    expected = compared(page, base_url, None, tuning)
    assert texts(page, "b") == [hit["memory"]["text"] for hit in expected["b"]["hits"]]
    choices.select_option("Judge off")
    expect(page.get_by_label("Judge", exact=True)).to_have_value("off")
    expect(choices.locator("option", has_text="Judge orders")).to_have_count(1)


def test_the_judged_queries_are_measured_with_a_paired_test(page, base_url, engine: Engine):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{base_url}/#/compare?a=semantic-only&b=keyword-only")
    judged = page.get_by_role("region", name="On your judgements")
    expect(judged).to_contain_text("No query has a memory that was judged good.")
    page.goto("about:blank")
    allergy = engine.remember("I must not eat groundnuts").id
    engine.judge(ALLERGIES, good=[allergy])
    page.goto(f"{base_url}/#/compare?a=semantic-only&b=keyword-only")

    expect(judged.locator(".compare-verdict")).to_have_text(
        re.compile(
            r"^B is worse than A by [01]\.\d{3} in nDCG@10 \(p = 1\.000\), which may be chance: one query is few\.$"
        )
    )
    row = judged.get_by_role("row", name=re.compile("MRR"))
    expect(row.get_by_role("cell").last).to_have_text("1.000")
    judged.get_by_role("button", name=ALLERGIES).click()
    expect(page.get_by_label("Query")).to_have_value(ALLERGIES)
    expect(page.locator(".compare-side-a")).to_be_hidden()
    expect(page.locator(".compare-left")).to_contain_text("I must not eat groundnuts")
    assert not is_too_wide(page)
    assert serious(page) == []

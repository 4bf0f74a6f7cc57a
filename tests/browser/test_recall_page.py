"""The Recall view in a browser: query, hits, score explanations."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.recall_steps import CAT, LOGINS, open_advanced, recall
from tests.surfaces.serving import token

ATTACK = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script> the parrot eats mangoes'


def test_a_hit_shows_its_text_and_provenance(page, base_url):
    recall(page, base_url)

    first = page.locator(".hit").first
    expect(first).to_contain_text("The cat is called Möbius")
    expect(first).to_contain_text("sample-assistant")
    expect(first.locator("time")).to_have_attribute("title", re.compile("2026"))
    expect(page.locator(".timing")).to_contain_text(
        re.compile(r"10 hits in [\d.]+ ms · candidates: 30 semantic, 1 keyword")
    )
    expect(page.locator("#announcer")).to_have_text(re.compile(r"10 hits in [\d.]+ ms"))


def test_the_words_that_match_the_query_are_marked(page, base_url, engine):
    engine.remember("<b>Parrots</b> like PARROT food, but a parrotfish is a fish")
    recall(page, base_url)
    first = page.locator(".hit-text").first
    expect(first.locator("mark")).to_have_text(["cat", "eats"])
    expect(first).to_have_text("The cat is called Möbius and eats only the salmon pâté.")

    recall(page, base_url, "does the parrot sing?")

    text = page.locator(".hit-text").filter(has_text="parrotfish")
    expect(text.locator("mark")).to_have_text(["Parrots", "PARROT", "parrotfish"])
    expect(text).to_have_text("<b>Parrots</b> like PARROT food, but a parrotfish is a fish")


def test_a_hit_shows_its_relevance_its_date_in_words_and_its_importance_if_it_is_not_the_default(
    page, base_url, engine
):
    engine.remember("The parrot is called Pedro", occurred="2026-05-12T08:30:00Z")
    recall(page, base_url, "what is the parrot called?")

    hit = page.locator(".hit").filter(has_text="Pedro")
    hit.scroll_into_view_if_needed()  # a hit out of sight is not rendered
    expect(hit.locator(".relevance-number")).to_have_text(re.compile(r"^\d+ %$"))
    relevance = int(hit.locator(".relevance-number").text_content().removesuffix(" %"))
    bar = hit.get_by_role("meter", name="Relevance")
    expect(bar).to_have_attribute("aria-valuenow", str(relevance))
    box, filled = bar.bounding_box(), bar.locator("span").bounding_box()
    assert filled["width"] == pytest.approx(box["width"] * relevance / 100, abs=1)
    expect(hit.locator("time")).to_have_text(re.compile(r"^(.+ ago|last \w+|yesterday|in .+), 12 May 2026$"))
    expect(hit.locator("time")).to_have_attribute("title", "12 May 2026, 08:30:00")
    expect(hit).not_to_contain_text("importance")
    cat = page.locator(".hit").filter(has_text="Möbius")
    expect(cat).to_contain_text("importance 0.6")


class Half:
    """A judge to which texts with "salmon" answer, and which does not read those with "oven"."""

    name = "half"

    def score(self, query, readings, *, deadline):
        return [
            4.0 if "salmon" in one.text and "cat" in query else None if "oven" in one.text else -4.0 for one in readings
        ]


@pytest.mark.parametrize("judge", [Half()], ids=["judged"])
def test_the_page_tells_what_the_judge_reads_as_an_answer_and_what_it_has_not_read(page, base_url):
    recall(page, base_url)

    relevance = page.locator(".hit").first.locator(".relevance")
    expect(relevance).to_have_text(re.compile(r"^\d+ %relevance$"))
    expect(relevance.locator("[title]")).to_have_attribute("title", re.compile("The judge reads it as an answer"))
    expect(page.locator(".hit").filter(has_text="new oven").locator(".relevance")).to_have_text("not read")
    expect(page.get_by_text("Probably nothing stored answers this.")).to_have_count(0)

    recall(page, base_url, "which port does the proxy listen on?")

    expect(page.get_by_text("Probably nothing stored answers this.")).to_have_count(1)
    page.get_by_label("Judge", exact=True).select_option("filter")
    expect(page.locator(".hits.shown .hit")).to_have_count(0)


def test_neighbours_are_shown_above_and_below_on_demand(page, base_url):
    recall(page, base_url, "why did they choose induction?")
    hit = page.locator(".hit").filter(has_text="Induction it is then")
    expect(hit.locator(".neighbour").first).not_to_be_visible()

    hit.get_by_role("button", name="Neighbours").click()

    expect(hit.locator(".neighbour.before")).to_contain_text("Ana: Call them. And no gas, please")
    expect(hit.locator(".neighbour.after")).to_be_visible()
    text, before, after = (
        hit.locator(part).bounding_box()["y"] for part in (".hit-text", ".neighbour.before", ".neighbour.after")
    )
    assert before < text < after
    page.get_by_label("Balance").fill("20")
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    expect(hit.locator(".neighbour.before")).to_be_visible()
    hit.get_by_role("button", name="Neighbours").click()
    expect(hit.locator(".neighbour.before")).not_to_be_visible()


def test_retired_memories_are_found_if_asked_for_and_struck_through(page, base_url, engine):
    engine.remember("Ana works at the harbour office", key="work of Ana")
    engine.remember("Ana works at the town library", key="work of Ana")
    recall(page, base_url, "where does Ana work?")
    expect(page.locator(".hit").filter(has_text="town library")).to_have_count(1)
    expect(page.locator(".hit").filter(has_text="harbour office")).to_have_count(0)

    page.get_by_label("Retired too").check()

    old = page.locator(".hit").filter(has_text="harbour office")
    expect(old).to_contain_text("superseded")
    expect(old.locator(".hit-text")).to_have_css("text-decoration-line", "line-through")
    current = page.locator(".hit").filter(has_text="town library").locator(".hit-text")
    expect(current).to_have_css("text-decoration-line", "none")
    page.reload()
    expect(old).to_have_count(1)


def test_the_score_bar_of_a_hit_opens_as_a_table_of_ranks_and_changes_that_add_up_to_the_score(page, base_url, engine):
    engine.tuning.save({"quality": "multiply"})
    recall(page, base_url)
    bar = page.locator(".hit").first.locator(".bar-button")

    bar.click()

    rows = page.locator(".hit").first.locator(".hit-score-table tr")
    expect(rows.filter(has_text="Score")).to_have_count(1)
    *changes, relevance = rows.locator("td.number").all_inner_texts()
    *steps, score = (float(text.replace("−", "-")) for text in changes)
    assert sum(steps) == pytest.approx(score, abs=0.003)
    assert re.fullmatch(r"\d+ %", relevance)
    expect(rows.nth(1)).to_contain_text(re.compile("semantic.*#1"))
    expect(rows.nth(2)).to_contain_text(re.compile("keyword.*#1"))
    assert bar.locator("rect[data-step=quality]").evaluate("segment => segment.style.fill").startswith("url(")
    expect(bar).to_have_attribute("aria-label", re.compile(r"^Score 0\.\d+: semantic \+0\.\d+"))


def test_a_link_restores_query_scope_and_limit(page, base_url):
    page.goto(f"{base_url}/#/recall?q=where+is+the+oven&limit=3&project=sample-kitchen")

    expect(page.locator(".hit")).to_have_count(3)
    expect(page.get_by_label("Project")).to_have_value("sample-kitchen")
    expect(page.get_by_label("Query")).to_have_value("where is the oven")
    for provenance in page.locator(".hit .provenance").all_text_contents():
        assert "sample-kitchen" in provenance


def test_the_explain_dialog_shows_why_a_memory_is_not_in_the_result(page, base_url):
    recall(page, base_url)

    page.get_by_role("button", name="Explain…").click()
    dialog = page.get_by_role("dialog", name="Explain a memory")
    dialog.get_by_label("Find a memory").fill("rollback")
    dialog.get_by_role("button", name=re.compile("Rolling back auth-service")).click()

    expect(dialog.locator(".explanation-sentence")).to_contain_text("No retriever returned it")
    expect(dialog.get_by_role("img", name=re.compile(r"^Rank [34]\d"))).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Explain…")).to_be_focused()


def test_why_a_memory_is_not_in_the_result_is_found_by_keyboard(page, base_url):
    recall(page, base_url)
    page.locator(".hit-card").first.focus()

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Explain a memory")
    rows = dialog.locator(".memory-row")
    expect(rows.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(rows.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    expect(rows.nth(1)).to_have_attribute("aria-current", "true")
    expect(rows.nth(1)).to_be_focused()
    expect(dialog.locator(".outcome")).to_have_text("Below the limit")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    expect(dialog.get_by_label("Find a memory")).to_be_focused()
    page.keyboard.type("rollback")
    expect(rows.first).to_contain_text("rollback")
    page.keyboard.press("Enter")
    expect(dialog.locator(".explanation blockquote")).to_contain_text("rollback")
    page.keyboard.press("Escape")
    expect(page.locator(".hit-card").first).to_be_focused()


def test_markup_in_a_memory_is_shown_as_text_and_never_runs(page, base_url, engine):
    engine.remember(ATTACK, speaker="<b>Eve</b>", project="<i>p</i>", session="<u>s</u>")
    recall(page, base_url, "what does the parrot eat?")

    expect(page.locator(".hit-text").first).to_have_text(ATTACK)
    expect(page.locator(".hit .speaker").first).to_have_text("<b>Eve</b>")
    page.locator(".rank-figure summary").click()
    expect(page.locator(".rank-figure td, .rank-figure th").filter(has_text="<img").first).to_be_visible()
    page.get_by_role("button", name="Explain…").click()
    page.get_by_label("Find a memory").fill("parrot")
    page.locator(".memory-row").filter(has_text="mangoes").first.click()
    expect(page.locator("dialog blockquote p").first).to_have_text(ATTACK)
    assert page.evaluate("window.ran") is None
    assert page.locator("main img, main script, dialog img, dialog script, main b:has-text('Eve')").count() == 0


def test_the_view_works_by_keyboard(page, base_url):
    page.goto(f"{base_url}/#/recall")
    page.get_by_role("heading", name="Recall what your agent remembers").wait_for()
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()
    page.keyboard.type(CAT)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()

    cards = page.locator(".hit-card")
    cards.first.focus()
    page.keyboard.press("ArrowDown")
    expect(cards.nth(1)).to_be_focused()
    expect(page.locator(".chart-line.on")).to_have_attribute("aria-label", re.compile("^Hit 2"))
    page.keyboard.press("Tab")
    expect(cards.nth(1).locator(".session-link")).to_be_focused()
    page.keyboard.press("Tab")
    expect(cards.nth(1).locator(".bar-button")).to_be_focused()
    expect(page.locator(".tooltip")).to_be_visible()
    page.keyboard.press("Enter")
    expect(cards.nth(1).locator(".score-table")).to_be_visible()
    expect(page.locator(".tooltip")).not_to_be_visible()  # it would cover the table
    page.keyboard.press("End")
    expect(cards.last).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()


def test_a_long_text_is_shortened_until_it_is_expanded(page, base_url, engine):
    engine.remember("The lighthouse keeper wrote: " + "the lamp must never go out, " * 30 + "and that is all.")
    recall(page, base_url, "what did the lighthouse keeper write?")
    text = page.locator(".hit-text").filter(has_text="The lighthouse keeper")
    expect(text).not_to_contain_text("and that is all.")

    text.get_by_role("button", name="more").click()

    expect(text).to_contain_text("and that is all.")


def test_an_excerpt_of_a_text_without_spaces_is_not_empty(page, base_url, engine):
    engine.remember("cat " + "Donaudampfschiff" * 40)
    recall(page, base_url, "Donaudampfschiff cat")
    expect(page.locator(".hit-text").filter(has_text="Donaudampfschiff" * 15)).to_contain_text("… more")


def test_hits_stay_when_the_judgements_cannot_be_read(page, base_url, expected_errors):
    expected_errors.append("500")
    page.route("**/v1/judgements*", lambda route: route.fulfill(status=500, json={"detail": "it failed"}))
    with page.expect_response("**/v1/judgements*"):
        page.goto(f"{base_url}/#/recall?q=cat")

    expect(page.get_by_text("it failed")).to_be_visible()
    expect(page.get_by_role("list", name="Hits").get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_text("The recall failed")).to_have_count(0)


def test_hits_are_shown_where_the_browser_refuses_storage(page, base_url):
    refuse = "get() { throw new DOMException('refused', 'SecurityError'); }"
    for name in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{name}', {{ {refuse} }})")
    page.goto(f"{base_url}/#/recall?q=cat")

    expect(page.get_by_role("list", name="Hits").get_by_role("listitem").first).to_be_visible()
    page.locator("#query").fill("tea")
    page.get_by_role("button", name="Recall", exact=True).click()
    expect(page.locator("#queries option")).to_have_count(2)


def test_a_tab_restores_the_query(page, base_url):
    recall(page, base_url)
    page.get_by_role("link", name="Status").click()
    expect(page).to_have_title(re.compile("Status"))

    page.get_by_role("link", name="Recall").click()

    page.locator(".hit").first.wait_for()
    expect(page.get_by_label("Query")).to_have_value(CAT)


ANIMATIONS = """
window.animations = {};
const animate = Element.prototype.animate;
Element.prototype.animate = function (frames, options) {
    const from = /translateY[(](.+)px/.exec(frames[0].transform);
    if (from) window.animations[this.dataset.id] = Number(from[1]);
    return animate.call(this, frames, options);
};
"""


def test_hits_are_animated_from_their_old_positions(page, base_url):
    page.set_viewport_size({"width": 1280, "height": 4000})  # hits out of sight are not animated
    page.add_init_script(ANIMATIONS)
    recall(page, base_url, LOGINS)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".move.up").first).to_be_visible()
    animations = page.evaluate("window.animations")
    for hit in page.locator(".hit:has(.move.up)").all():
        assert animations[hit.get_attribute("data-id")] > 0
    for hit in page.locator(".hit:has(.move.down)").all():
        assert animations[hit.get_attribute("data-id")] < 0
    assert page.locator(".hit").first.get_attribute("data-id") not in animations


def test_nothing_is_animated_with_reduced_motion(page, base_url):
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script(ANIMATIONS)
    recall(page, base_url, LOGINS)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".move.up").first).to_be_visible()
    assert page.evaluate("window.animations") == {}


def test_a_line_of_the_chart_highlights_its_card_and_a_click_focuses_it(page, base_url):
    recall(page, base_url)
    line = page.locator(".chart-line[data-id]").last

    line.locator(".chart-rank").hover()

    first = page.locator(f".hit[data-id='{line.get_attribute('data-id')}']")
    expect(first).to_have_class(re.compile(r"\bon\b"))
    line.locator(".chart-rank").click()
    expect(first.locator(".hit-card")).to_be_focused()


@pytest.mark.parametrize("embedder", [None])
def test_a_recall_without_an_embedder_is_shown_as_degraded(page, base_url):
    recall(page, base_url, LOGINS)

    expect(page.locator(".timing .note")).to_contain_text("Degraded: keyword-only. No embedder is configured.")
    page.get_by_role("link", name="What to do").click()
    expect(page.get_by_role("heading", name="Recall is degraded: keyword retriever only")).to_be_visible()


def test_a_token_is_requested_once_and_stored_in_the_tab(page, serve, engine, expected_errors):
    expected_errors.append("401")
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.wait_for()
    assert page.get_by_role("dialog").count() == 1
    expect(dialog.get_by_label("Token")).to_be_focused()
    expect(dialog.locator(".note")).to_have_text("This service requires a token.")

    dialog.get_by_label("Token").fill(token(engine, access="read"))
    dialog.get_by_role("button", name="Use token").click()

    page.locator(".hit").first.wait_for()
    page.reload()
    page.locator(".hit").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(page, base_url, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    recall(page, base_url, LOGINS)
    page.get_by_label("Preset").select_option("classic-rrf")
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True).click()
    expect(page.locator(".metrics .difference")).to_be_visible()
    open_advanced(page)
    page.locator(".bar-button").first.click()
    assert _serious(page) == []

    page.get_by_role("button", name="Explain…").click()
    page.locator(".memory-row").first.click()
    page.locator(".explanation-sentence").wait_for()
    assert _serious(page) == []


def _serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    serious = [rule for rule in found if rule["impact"] in ("serious", "critical")]
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in serious for node in rule["nodes"]]


@pytest.mark.parametrize("width", [360, 720, 1024, 1600])
def test_nothing_is_wider_than_the_window(page, base_url, width):
    page.set_viewport_size({"width": width, "height": 800})
    recall(page, base_url, LOGINS)
    page.locator(".bar-button").first.click()
    if width < 960:
        page.locator(".tuning-title").click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = "each => each.filter(one => one.getBoundingClientRect().right > innerWidth + 1).length"
    assert page.locator("main .panel, main .hit-card, header .button").evaluate_all(outside) == 0

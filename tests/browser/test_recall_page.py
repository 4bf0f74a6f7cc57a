"""The Recall view in a browser: query, score explanations, tuning, judgements, evaluation."""

from __future__ import annotations

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from retentive.settings import Settings
from tests.surfaces.serving import token

CAT = "what does the cat eat?"
LOGINS = "why did the logins fail?"
ATTACK = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script> the parrot eats mangoes'


def recall(page: Page, base_url: str, query: str = CAT) -> None:
    """Open the page, submit a query and wait for the hits."""
    page.goto(f"{base_url}/#/recall")
    page.get_by_label("Query").fill(query)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()


def set_parameter(page: Page, parameter: str, value: object) -> None:
    """Change a tuning parameter and wait until the hits show their changes of rank."""
    page.get_by_label(parameter, exact=True).fill(str(value))
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    expect(page.locator(".results")).to_have_attribute("aria-busy", "false")


def saved_settings(page: Page, base_url: str) -> dict:
    return page.request.get(f"{base_url}/settings").json()


def texts(page: Page) -> list[str]:
    return page.locator(".hits.shown .hit-text").all_inner_texts()


def test_a_hit_shows_its_text_provenance_and_rank_in_each_retriever(page, base_url):
    recall(page, base_url)

    first = page.locator(".hit").first
    expect(first).to_contain_text("The cat is called Möbius")
    expect(first).to_contain_text("sample-assistant")
    expect(first.locator("time")).to_have_attribute("title", re.compile("2026"))
    expect(first.locator(".retriever-chip").first).to_contain_text("semantic #1")
    expect(first.locator(".retriever-chip").last).to_contain_text("keyword #1")
    expect(page.locator(".hit").nth(2).locator(".retriever-chip").last).to_contain_text("keyword –")
    expect(page.locator(".timing")).to_contain_text(
        re.compile(r"10 hits in [\d.]+ ms · candidates: 30 semantic, 1 keyword")
    )
    expect(page.locator("#announcer")).to_have_text(re.compile(r"10 hits in [\d.]+ ms"))


def test_the_score_bar_of_a_hit_opens_as_a_table_that_adds_up_to_the_score(page, base_url):
    recall(page, base_url)
    bar = page.locator(".hit").first.locator(".bar-button")

    bar.click()

    rows = page.locator(".hit").first.locator(".hit-score-table tr")
    changes = [float(text.replace("−", "-")) for text in rows.locator("td.number").all_inner_texts()]
    *steps, score, relevance = changes
    assert sum(steps) == pytest.approx(score, abs=0.003)
    assert 0 <= relevance <= 1
    expect(rows.nth(1)).to_contain_text("semantic")
    expect(rows.filter(has_text="Score")).to_have_count(1)
    assert bar.locator("rect[data-step=quality]").evaluate("segment => segment.style.fill").startswith("url(")
    expect(bar).to_have_attribute("aria-label", re.compile(r"^Score 0\.\d+: semantic \+0\.\d+"))


def test_a_link_restores_query_scope_and_limit(page, base_url):
    page.goto(f"{base_url}/#/recall?q=where+is+the+oven&limit=3&project=sample-kitchen")

    page.locator(".hit").first.wait_for()
    assert page.locator(".hit").count() == 3
    expect(page.get_by_label("Project")).to_have_value("sample-kitchen")
    expect(page.get_by_label("Query")).to_have_value("where is the oven")
    for provenance in page.locator(".hit .provenance").all_inner_texts():
        assert "sample-kitchen" in provenance


def test_a_changed_parameter_reorders_the_hits_and_is_saved_and_undone(page, base_url):
    recall(page, base_url, LOGINS)
    before = texts(page)
    set_parameter(page, "Semantic weight", 0)
    expect(page.locator(".tuning-state")).to_have_text("1 unsaved change")
    expect(page.locator(".removed").first).to_be_visible()
    assert saved_settings(page, base_url)["semanticWeight"] == 1.0

    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.locator(".toast")).to_contain_text("Saved 1 parameter")
    expect(page.locator(".tuning-state")).to_have_text("Saved")
    expect(page.locator(".hits.shown .move")).to_have_count(0)
    assert saved_settings(page, base_url)["semanticWeight"] == 0
    assert texts(page) != before

    expect(page.get_by_role("button", name="Undo").first).to_be_focused()
    page.locator(".toast").get_by_role("button", name="Undo").click()

    expect(page.get_by_label("Semantic weight", exact=True)).to_have_value("1")
    expect(page.locator(".hit").first.locator(".retriever-chip").first).to_contain_text("semantic #")
    assert saved_settings(page, base_url)["semanticWeight"] == 1.0


def test_arrows_show_the_change_of_rank_of_each_hit(page, base_url):
    recall(page, base_url, LOGINS)
    before = texts(page)

    page.get_by_label("Preset").select_option("classic-rrf")

    expect(page.locator(".hits.shown .move").first).to_be_visible()
    after = texts(page)
    for index, text in enumerate(after):
        mark = page.locator(".hits.shown .hit").nth(index).locator(".move")
        if text not in before:
            expect(mark).to_have_text("new")
            continue
        change = before.index(text) - index
        expect(mark).to_contain_text("=" if change == 0 else f"{'▲' if change > 0 else '▼'}{abs(change)}")
    page.get_by_role("button", name="Side by side").click()
    assert page.locator(".hits.saved .hit-text").all_inner_texts() == before
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator(".hits.shown .move")).to_have_count(0)
    assert texts(page) == before


def test_parameters_are_built_from_the_schema_and_can_be_reset_to_the_default(page, base_url):
    schema = page.request.get(f"{base_url}/settings/schema").json()["properties"]
    recall(page, base_url)

    assert {parameter.get_attribute("data-parameter") for parameter in page.locator("[data-parameter]").all()} == set(
        schema
    )
    parameter = page.locator("[data-parameter=keywordWeight]")
    expect(parameter).to_contain_text(schema["keywordWeight"]["description"])
    set_parameter(page, "Keyword weight", 3)
    parameter.get_by_role("button", name="reset to the default, 1.6").click()
    expect(page.get_by_label("Keyword weight", exact=True)).to_have_value("1.6")
    expect(page.locator(".tuning-state")).to_have_text("Saved")


@pytest.mark.parametrize("settings", [Settings(store="", tuning={"keyword_weight": 2.0})], ids=["configured"])
def test_parameters_set_by_the_configuration_are_read_only(page, base_url):
    recall(page, base_url)

    field = page.get_by_label("Keyword weight", exact=True)
    expect(field).to_be_disabled()
    expect(page.locator("[data-parameter=keywordWeight]")).to_contain_text("cannot be changed here")


def test_unsaved_changes_are_copied_as_toml_curl_and_python(page, base_url):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    recall(page, base_url)
    set_parameter(page, "Keyword weight", 3)

    def copied(format: str) -> str:
        page.get_by_label("Copy as").select_option(format)
        expect(page.locator(".toast").last).to_contain_text(f"Copied as {format}")
        return page.evaluate("navigator.clipboard.readText()")

    assert copied("TOML") == "[tuning]\nkeyword_weight = 3\n"
    curl = copied("curl")
    assert f"{base_url}/v1/recall" in curl
    body = json.loads(curl[curl.index("-d '") + 4 : curl.rindex("'")])
    assert (body["query"], body["tuning"]) == (CAT, {"keywordWeight": 3})
    python = copied("Python")
    assert f'engine.recall("{CAT}", limit=10, tuning={{"keyword_weight": 3}})' in python
    compile(python, "copied", "exec")


def test_a_judged_query_appears_in_the_evaluation_and_the_judgement_can_be_removed(page, base_url):
    recall(page, base_url)
    relevant = page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True)

    relevant.click()

    expect(relevant).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".metrics")).to_contain_text("Saved")
    expect(page.locator(".judged-query")).to_contain_text(CAT)
    set_parameter(page, "Keyword weight", 0)
    expect(page.locator(".metrics .difference")).to_be_visible()
    page.reload()
    relevant = page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True)
    expect(relevant).to_have_attribute("aria-pressed", "true")
    relevant.click()
    expect(relevant).to_have_attribute("aria-pressed", "false")
    expect(page.locator(".evaluation-body")).to_contain_text("Rate results to see quality metrics")


def test_a_parameter_search_shows_its_progress_and_its_result_is_saved(page, base_url, engine):
    answers = {
        "what is the budget?": "14,000",
        "who is the carpenter?": "Lindqvist",
        "why no gas?": "asthma",
        "which fuse?": "16 A",
        "does the user eat meat?": "vegetarian",
        "why could nobody sign in?": "ERR_CONN",
        "how to go back to the old version?": "deploy rollback",
        "how long was it down?": "Twelve minutes",
        "how are the legs?": "knee",
        "which islands?": "Canary",
        "is the examination over?": "audit is over",
        "what is the pet called?": "Möbius",
    }
    memories = engine.list(limit=100).memories
    for query, words in answers.items():
        engine.judge(query, good=[memory.id for memory in memories if words in memory.text])
    poor = {"semantic_weight": 0.0, "keyword_weight": 5.0, "session_weight": 2.0, "neighbour_weight": 2.0}
    engine.tuning.save({**poor, "common_words": 0.01})  # so poor that twelve queries show a significant gain
    recall(page, base_url)

    page.get_by_role("button", name="Find better parameters").click()

    expect(page.locator(".search-body .note")).to_contain_text("Better on held-out queries", timeout=60_000)
    page.get_by_role("button", name="Save these values").click()
    expect(page.locator(".toast")).to_contain_text(re.compile(r"Saved \d+ parameter"))
    saved = saved_settings(page, base_url)
    assert (saved["semanticWeight"], saved["keywordWeight"], saved["sessionWeight"]) != (0, 5.0, 2.0)


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

    expect(page.locator(".timing .note")).to_contain_text("Degraded: keyword-only")


def test_a_token_is_requested_once_and_stored_in_the_tab(page, serve, engine, expected_errors):
    expected_errors.append("401")
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    dialog = page.get_by_role("dialog", name="Token required")
    dialog.wait_for()
    assert page.get_by_role("dialog").count() == 1

    dialog.get_by_label("Token").fill(token(engine, access="read"))
    dialog.get_by_role("button", name="Use token").click()

    page.locator(".hit").first.wait_for()
    page.reload()
    page.locator(".hit").first.wait_for()


def test_a_token_without_write_access_gets_a_message_on_saving(page, serve, engine, expected_errors):
    expected_errors.extend(["401", "403"])
    page.goto(f"{serve(require_token=True)}/#/recall?q=cat")
    page.get_by_label("Token", exact=True).fill(token(engine, access="read"))
    page.get_by_role("button", name="Use token").click()
    page.locator(".hit").first.wait_for()
    set_parameter(page, "Keyword weight", 3)

    page.get_by_role("button", name="Save", exact=True).click()

    expect(page.locator(".toast")).to_contain_text("This token may not change settings")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_violation(page, base_url, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    recall(page, base_url, LOGINS)
    page.get_by_label("Preset").select_option("classic-rrf")
    expect(page.locator(".hits.shown .move").first).to_be_visible()
    page.locator(".hit").first.get_by_role("button", name="Relevant", exact=True).click()
    expect(page.locator(".metrics .difference")).to_be_visible()
    page.locator(".parameter-group").evaluate_all("groups => groups.forEach(group => { group.open = true; })")
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

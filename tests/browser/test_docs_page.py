"""The page of the API in a browser: its Content-Security-Policy allows what it needs and nothing else."""

from __future__ import annotations

from playwright.sync_api import expect


def test_the_page_of_the_api_works_under_its_content_security_policy(page, base_url):
    page.goto(f"{base_url}/docs")  # the fixture fails the test if the browser logs a violation
    expect(page.locator("#operations-recall-recall_memories")).to_be_visible()

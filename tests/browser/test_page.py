"""The page in a browser, before any input."""

from __future__ import annotations

from retentive.server.http.playground_page import HEADERS


def test_the_page_loads_under_its_policy_without_errors(page, base_url):
    answer = page.goto(f"{base_url}/")

    assert answer.status == 200
    assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert "Retentive" in page.title()
    page.get_by_role("main").wait_for()


def test_the_browser_enforces_the_policy(page, base_url, expected_errors):
    expected_errors.append("violates the following Content Security Policy directive")
    page.goto(f"{base_url}/")

    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            return window.ran === true;
        }"""
    )

    assert ran is False

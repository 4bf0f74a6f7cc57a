"""Secrets in texts: keys, tokens, passwords, card and bank numbers. They are replaced before a text is stored.

Only what is certainly a secret is replaced: a key of a known provider by its prefix, a value by the name that it is
assigned to, a number by its check digits.
"""

from __future__ import annotations

import re

PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.IGNORECASE | re.DOTALL)
"""What the user does not want to be stored. Without an end, it is the rest of the text."""

_PROVIDERS = {
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)"
    r"|\bAGE-SECRET-KEY-1[A-Z0-9]{50,}",
    "AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{40,}",
    "GitLab token": r"\bgl(?:pat|ptt|dt|rt|soat)-[\w-]{20,}",
    "Slack token": r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{20,}|\bhooks\.slack\.com/services/[\w/]{20,}",
    "Anthropic key": r"\bsk-ant-[\w-]{20,}",
    "OpenAI key": r"\bsk-(?:proj|svcacct|admin|or-v1)-[\w-]{20,}|\bsk-(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}",
    "Google key": r"\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}",
    "Stripe key": r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}",
    "package registry token": r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-AgE[\w-]{40,}|\bdckr_pat_[\w-]{20,}",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "API key": r"\bgsk_[A-Za-z0-9]{40,}|\br8_[A-Za-z0-9]{30,}|\bdo[opr]_v1_[a-f0-9]{64}\b"
    r"|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bkey-[0-9a-f]{32}\b|\bdapi[a-f0-9]{32}\b|\bhv[sb]\.[\w-]{24,}"
    r"|\blin_api_[A-Za-z0-9]{32,}"
    r"|\bntn_[A-Za-z0-9]{40,}|\bpplx-[A-Za-z0-9]{40,}|\bxai-[A-Za-z0-9]{40,}|\bAccountKey=[A-Za-z0-9+/=]{40,}",
    "bot token": r"\b\d{8,10}:AA[\w-]{33}|\b[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}",
    "web token": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
}
_PROVIDERS_IN_ORDER = tuple(_PROVIDERS)
_PROVIDER = re.compile("|".join(f"({pattern})" for pattern in _PROVIDERS.values()), re.DOTALL)

_HEADER = re.compile(r"\b(?:bearer|basic)[ :]+(?P<value>(?=\S{0,200}\d)[\w+/=.~-]{20,})", re.IGNORECASE)
_ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{0,100}:(?P<value>[^\s/\"'<>]{1,200})@(?=[\w\[])", re.IGNORECASE
)

_PASSWORDS = r"password|passwd|pwd|passphrase|passwort|kennwort|mot de passe|contraseña|senha|密码|密碼"
_ASSIGNED = re.compile(
    rf"""(?<!\[)(?P<name>{_PASSWORDS}|passcode|secret|(?:api|access|secret|private)[_-]?key
    |(?:auth|access|refresh|bearer|api|session|bot)[_-]?token|client[_-]?secret|(?:\b|[_-])token)["'”]?
    \s*(?:=>|:=|[=:：]|\s(?:is|ist|lautet|est|es|é)\s|[是为為])\s*["'“”`]?(?P<value>[^\s"'“”`,;<>]{{4,200}})""",
    re.IGNORECASE | re.VERBOSE,
)
_PIN = re.compile(
    r"\b(?:pin|pin[ -]?code|pin number|cvv|cvc|security code)\b"
    r"(?:\s*[:=]\s*|\s+(?:is|ist|est|es)\s+)(?P<value>\d{3,8})\b",
    re.IGNORECASE,
)

_PLACEHOLDER = re.compile(
    r"[*•x.…_-]+|[$%]?[{(\[<].*|\$\w+|\w*\.(?:env|environ|get|config|settings|secrets?)\b.*|(?:your|my|the|some)[_-].*"
    r"|(?:pass|password|passwd|pwd|secret|token|user|admin|postgres|root|none|null|true|false|string|str|bytes|text|required|optional|example|changeme|redacted|undefined)\W*",
    re.IGNORECASE,
)

_CARD = re.compile(r"(?<![\d.,/-])(?:\d[ -]?){12,18}\d(?![\d/-])")
_BANK = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")


_LONG, _DIGITS = re.compile(r"\S{16}"), re.compile(r"\d{4}")
_NAMES = ("pass", "pwd", "secret", "key", "token", "kennwort", "senha", "contraseña", "密", "pin", "cvv", "cvc", "code")


def without_secrets(text: str) -> str:
    """The text without what is private, and with the kind of each secret in place of it: `[secret: GitHub token]`."""
    lower = text.lower()
    if "<private>" in lower:
        text = PRIVATE.sub("", text).strip()
    # Searching for all of them takes ten times as long as looking whether there can be any.
    if _LONG.search(text) or "PRIVATE KEY" in text:
        text = _PROVIDER.sub(lambda match: _mark(_PROVIDERS_IN_ORDER[(match.lastindex or 1) - 1]), text)
        text = _HEADER.sub(lambda match: _value_replaced(match, "token"), text)
    if "://" in text:
        text = _ADDRESS.sub(lambda match: _value_replaced(match, "password"), text)
    if any(name in lower for name in _NAMES):
        text = _ASSIGNED.sub(_assigned, text)
        text = _PIN.sub(lambda match: _value_replaced(match, "code"), text)
    if _DIGITS.search(text):
        text = _CARD.sub(lambda match: _mark("card number") if _is_card(match[0]) else match[0], text)
        text = _BANK.sub(lambda match: _mark("bank account") if _is_bank_account(match[0]) else match[0], text)
    return text


def _mark(kind: str) -> str:
    return f"[secret: {kind}]"


def _value_replaced(match: re.Match[str], kind: str) -> str:
    value, (start, end) = match["value"], match.span("value")
    if value.startswith("[secret") or _PLACEHOLDER.fullmatch(value):
        return match[0]
    offset = match.start()
    return match[0][: start - offset] + _mark(kind) + match[0][end - offset :]


def _assigned(match: re.Match[str]) -> str:
    is_password = re.search(_PASSWORDS, match["name"], re.IGNORECASE) is not None
    value = match["value"].rstrip(".!?)")
    mixed = re.search(r"\d", value) and re.search(r"[^\W\d]", value)
    symbols = re.search(r"[^\w.()/]", value) and is_password
    digits = value.isdigit() and is_password
    if not (mixed or symbols or digits) or len(value) < (4 if is_password else 8) or re.match(r"https?:|/|\./", value):
        return match[0]
    return _value_replaced(match, "password" if is_password else "token")


def _is_card(text: str) -> bool:
    """Whether digits are the number of a payment card: the issuer's range, a usual length and Luhn's check digit."""
    digits = [int(digit) for digit in text if digit.isdigit()]
    number = "".join(map(str, digits))
    if not re.match(r"3[47]\d{13}$|4\d{12}(\d{3})?$|5[1-5]\d{14}$|2[2-7]\d{14}$|6(?:011|5\d\d)\d{12}$", number):
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_bank_account(text: str) -> bool:
    """Whether a text is an IBAN: its remainder is 1."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1

"""The options of a hook, as `hook install` writes them into the client's configuration."""

from __future__ import annotations

import os

from retentive.hooks.events import CLIENTS
from retentive.server.runtime_file import user_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEADLINE_MS = 300
BUDGETS = {"session-start": 1500, "prompt": 800}
SCOPES = ("profile", "project")


NAMES = ("client", "store", "config", "url", "profile", "embedder", "project", "scope", "budget", "deadline")


class HookOptions:
    """The options of one hook. A budget of 0 is the default of the event."""

    def __init__(
        self,
        *,
        event: str,
        client: str,
        store: str,
        config: str | None = None,
        url: str | None = None,
        profile: str | None = None,
        embedder: str | None = None,
        project: str | None = None,
        scope: str = "project",
        budget: int = 0,
        deadline: int = DEADLINE_MS,
        capture: bool = True,
    ) -> None:
        self.event, self.client, self.store, self.config, self.url = event, client, store, config, url
        self.profile, self.embedder, self.project, self.scope = profile, embedder, project, scope
        self.budget, self.deadline, self.capture = budget, deadline, capture

    @property
    def seconds(self) -> float:
        """The deadline in seconds."""
        return self.deadline / 1000

    def words(self) -> list[str]:
        """Return the options as words of a command; defaults are left out."""
        words = [f"--client={self.client}", f"--store={self.store}"]
        named = {name: getattr(self, name) for name in ("config", "url", "profile", "embedder", "project")}
        words += [f"--{name}={value}" for name, value in named.items() if value]
        if self.scope != "project":
            words.append(f"--scope={self.scope}")
        if self.deadline != DEADLINE_MS:
            words.append(f"--deadline={self.deadline}")
        if self.budget:
            words.append(f"--budget={self.budget}")
        return words if self.capture else [*words, "--no-capture"]


def parse_options(words: Sequence[str]) -> HookOptions:
    """Return the options in the words of a command: the event, and options as `--name=value` or `--name value`."""
    values: dict[str, str] = {}
    rest = list(words[1:])
    capture = True
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if word == "--no-capture":
            capture = False
        elif not word.startswith("--") or name not in NAMES or (not equals and not rest):
            raise ValueError(f"'{word}' is no option of a hook")
        else:
            values[name] = value if equals else rest.pop(0)
    client, scope = values.get("client", ""), values.get("scope", "project")
    if client not in CLIENTS:
        raise ValueError(f"--client is one of {', '.join(CLIENTS)}")
    if scope not in SCOPES:
        raise ValueError(f"--scope is one of {', '.join(SCOPES)}")
    return HookOptions(
        event=words[0],
        client=client,
        store=values.get("store") or os.environ.get("RETENTIVE_STORE") or _default_store(),
        config=values.get("config"),
        url=values.get("url"),
        profile=values.get("profile"),
        embedder=values.get("embedder"),
        project=values.get("project"),
        scope=scope,
        budget=int(values.get("budget", 0)),
        deadline=int(values.get("deadline", DEADLINE_MS)),
        capture=capture,
    )


def _default_store() -> str:
    return os.path.join(user_folders().user_data_dir("retentive"), "memories.db")

"""The commands of the program: where each one is, the first sentence of its help, and its examples."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A command: the function or the group in a module of `cli`, the first sentence of its help, and examples.

    A group has its own examples.
    """

    where: str
    summary: str
    examples: tuple[str, ...] = ()


COMMANDS = {
    "setup": Entry(
        "setup.setup",
        "Connect the agents' clients on this machine: hooks, MCP, the service, and what they said before.",
        ("retentive setup", "retentive setup --client claude-code --dry-run", "retentive setup --undo"),
    ),
    "remember": Entry(
        "memories.remember",
        "Store a memory, or many from a JSONL file.",
        (
            'retentive remember "The plumber comes on Monday" --project home',
            "echo 'The cat eats wet food' | retentive remember",
        ),
    ),
    "recall": Entry(
        "recall.recall",
        "Search memories with the keyword and the semantic retriever.",
        ('retentive recall "when is the plumber coming?" --project home', 'retentive recall "key" --limit 3 --explain'),
    ),
    "explain": Entry(
        "recall.explain",
        "Explain why a memory ranks where it does for a query, or why it does not appear.",
        ('retentive explain "when is the plumber coming?" 0190a1b2',),
    ),
    "get": Entry("memories.get", "Show a memory with all its fields.", ("retentive get 0190a1b2",)),
    "list": Entry(
        "memories.list_memories",
        "List memories, newest first.",
        ("retentive list --project home --limit 5", "retentive list --full"),
    ),
    "update": Entry(
        "memories.update",
        "Change fields of a memory.",
        ('retentive update 0190a1b2 --text "The plumber comes on Tuesday"',),
    ),
    "forget": Entry(
        "memories.forget",
        "Delete memories for good: by id, or all of a session, project or profile after confirmation.",
        ("retentive forget 0190a1b2", "retentive forget --session monday"),
    ),
    "supersede": Entry(
        "facts.supersede",
        "Retire a memory because another one replaces it.",
        ('retentive supersede 0190a1b2 0190c3d4 --reason "new lock"',),
    ),
    "retract": Entry(
        "facts.retract",
        "Retire a memory that is no longer true.",
        ("retentive retract 0190a1b2 --at 2026-05-08",),
    ),
    "restore": Entry("facts.restore", "Undo that a memory was retired.", ("retentive restore 0190a1b2",)),
    "history": Entry(
        "facts.history",
        "Show what a memory has replaced, and what has replaced it, oldest first.",
        ("retentive history 0190a1b2",),
    ),
    "sweep": Entry(
        "facts.sweep", "Delete the memories of the profile that have expired, for good.", ("retentive sweep",)
    ),
    "chat": Entry(
        "chat.chat",
        "Chat with the configured model, with memory.",
        ("retentive chat", "retentive chat --project home --session evening"),
    ),
    "import": Entry(
        "transfer.import_memories",
        "Import memories and conversations of other programs.",
        ("retentive import conversations.json --dry-run", "retentive import notes/ --project home"),
    ),
    "export": Entry(
        "transfer.export",
        "Export memories with all their fields as JSONL, which retentive import reads.",
        ("retentive export memories.jsonl --everything --vectors", "retentive export - --project home"),
    ),
    "projects": Entry("memories.projects", "List projects.", ("retentive projects",)),
    "status": Entry(
        "store.status",
        "Show statistics of the store and whether the semantic retriever works.",
        ("retentive status", "retentive status --json"),
    ),
    "doctor": Entry(
        "store.doctor",
        "Check that every text can be read and is the one that was stored, that indexes agree, that the embedder "
        "works.",
        ("retentive doctor", "retentive doctor --repair"),
    ),
    "backup": Entry(
        "backup.backup",
        "Write a checked copy of a SQLite store that is in use into a new file.",
        ("retentive backup backups --keep 14",),
    ),
    "recover": Entry(
        "store.recover",
        "Save what can be read of a damaged file, even one that cannot be opened, into a new store.",
        ("retentive recover memories.db --output saved.db",),
    ),
    "compact": Entry(
        "store.compact", "Return the space of forgotten memories to the file system.", ("retentive compact",)
    ),
    "reembed": Entry("store.reembed", "Embed every memory with the current model.", ("retentive reembed",)),
    "copy": Entry(
        "copying.copy",
        "Copy a store to another one, and verify that the two are equal.",
        ("retentive copy memories.db postgresql://localhost/memories", "retentive copy a.db b.db --verify"),
    ),
    "samples": Entry(
        "recall.samples",
        "Load fictitious sample conversations into a profile of their own, and show a recall with its explanation.",
        ("retentive samples", 'retentive samples "what does the cat eat?"', "retentive samples --remove"),
    ),
    "eval": Entry(
        "evaluation.evaluate",
        "Evaluate recall on an evaluation set, with a row for each system: retrievers, presets, tunings.",
        ("retentive eval set/ --report report.html", "retentive eval --own"),
    ),
    "judge": Entry(
        "judge.judge",
        "Judge which memories are relevant to a query, for eval --own and tune --own.",
        ("retentive judge", 'retentive judge --query "where is the key?" --good 0190a1b2=3 --bad 0190c3d4'),
    ),
    "tune": Entry(
        "tuning.tune",
        "Search for better tuning parameters, and save them in your store if held-out queries confirm the gain.",
        ("retentive tune --own --dry-run", "retentive tune set/ --metric any@5 --save"),
    ),
    "given": Entry(
        "given.given",
        "Show what agents were given: the memories that each prompt got, with their relevance.",
        ("retentive given --client claude-code", "retentive given --limit 500 --json"),
    ),
    "watch": Entry(
        "transfer.watch",
        "Keep the memories of a folder of notes in sync with its files, until Ctrl-C.",
        ("retentive watch notes/ --project home", "retentive watch notes/ --once"),
    ),
    "serve": Entry(
        "serve.serve",
        "Serve the store over HTTP and MCP, only on this machine by default.",
        ("retentive serve", "retentive serve --port 8080 --open"),
    ),
    "review": Entry("review.review", "Confirm or dismiss what may have replaced what."),
    "imports": Entry("transfer.imports", "List the imports that can be undone, or undo one."),
    "sessions": Entry("memories.sessions", "List sessions, or move one to another project."),
    "config": Entry("store.config", "Show the settings in effect, or save tuning parameters in the store."),
    "mcp": Entry(
        "mcp.mcp",
        "Serve memory to an MCP client over standard input and output, or print the client's configuration.",
    ),
    "hook": Entry(
        "hook.hook", "Recall and capture in an agent's client without being asked, by hooks that the client runs."
    ),
    "token": Entry("serve.token", "Manage API tokens."),
}
"""Every command by its name."""

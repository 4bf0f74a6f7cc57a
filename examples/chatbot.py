"""A chatbot with memory: what is relevant is put into the prompt, and what was said is remembered.

It talks to any server with OpenAI's chat completions API, such as Ollama on this machine:

    python examples/chatbot.py http://127.0.0.1:11434/v1 llama3.2

Tell it where your spare key is, end it with Ctrl-D, start it again and ask. The official `openai` client gets the same
memory without any code if its base URL is that of `retentive serve`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from openai import OpenAI

from retentive import Engine, ProfileView
from retentive.chat.context import assemble

SESSION = "chatbot"


def answer(view: ProfileView, client: OpenAI, model: str, question: str) -> str:
    """Return the model's answer to a question, and remember both."""
    context = assemble(view, question, session=SESSION, budget=1000)
    asked = [*context.messages, {"role": "user", "content": question}]
    reply = client.chat.completions.create(model=model, messages=asked).choices[0].message.content or ""
    said = (("user", question), ("assistant", reply))
    view.remember([{"text": text, "speaker": speaker, "session": SESSION} for speaker, text in said])
    return reply


def main(url: str, model: str, store: str = "chatbot.db", lines: Iterable[str] = sys.stdin) -> None:
    """Answer each line of a text."""
    client = OpenAI(base_url=url, api_key="not needed on this machine")
    with Engine.open(store) as engine:
        view = ProfileView(engine, "default")
        for line in lines:
            print(answer(view, client, model, line.strip()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: python {sys.argv[0]} URL MODEL, such as http://127.0.0.1:11434/v1 llama3.2")
    main(*sys.argv[1:])

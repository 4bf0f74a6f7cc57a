"""An agent in LangGraph with long-term memory: it looks up what it knows, answers, and notes what it was told.

    python examples/langgraph_agent.py http://127.0.0.1:11434/v1 llama3.2

The graph has three nodes. `RetentiveStore` is a LangGraph store, so that every node gets it from the runtime, and what
one conversation has noted the next one finds.
"""

from __future__ import annotations

import sys
from typing import TypedDict
from uuid import uuid4

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from openai import OpenAI

from retentive import Engine
from retentive.integrations.langgraph import RetentiveStore


class State(TypedDict, total=False):
    """What the nodes pass on."""

    user: str
    said: str
    known: list[str]
    answer: str


def build(store: RetentiveStore, client: OpenAI, model: str) -> CompiledStateGraph:
    """Return the agent."""

    def look_up(state: State, runtime: Runtime) -> State:
        found = runtime.store.search(("users", state["user"]), query=state["said"], limit=3)
        return {"known": [item.value["text"] for item in found]}

    def respond(state: State) -> State:
        notes = "\n".join(f"- {text}" for text in state["known"]) or "- nothing yet"
        messages = [
            {"role": "system", "content": f"What you know about the user:\n{notes}"},
            {"role": "user", "content": state["said"]},
        ]
        reply = client.chat.completions.create(model=model, messages=messages)
        return {"answer": reply.choices[0].message.content or ""}

    def note(state: State, runtime: Runtime) -> State:
        if not state["said"].endswith("?"):
            runtime.store.put(("users", state["user"]), str(uuid4()), {"text": state["said"]})
        return {}

    nodes = (("look_up", look_up), ("respond", respond), ("note", note))
    graph = StateGraph(State)
    for name, function in nodes:
        graph.add_node(name, function)
    for before, after in ((START, "look_up"), ("look_up", "respond"), ("respond", "note"), ("note", END)):
        graph.add_edge(before, after)
    return graph.compile(store=store)


def main(url: str, model: str, store: str = "agent.db") -> None:
    """Tell the agent two things, and ask it about one of them."""
    with Engine.open(store) as engine:
        agent = build(RetentiveStore(engine, fields=["text"]), OpenAI(base_url=url, api_key="none"), model)
        for said in ("My dentist is at the harbour.", "I like pizza with olives.", "Where is my dentist?"):
            done = agent.invoke({"user": "ana", "said": said})
            print(f"{said}\n  knew: {done['known']}\n  answer: {done['answer']}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: python {sys.argv[0]} URL MODEL, such as http://127.0.0.1:11434/v1 llama3.2")
    main(*sys.argv[1:])

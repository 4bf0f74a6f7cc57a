"""The command that chats with the configured model in the terminal, with memory."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import common, exit_code, json_text, print_error, styled
from retentive.engine import Engine
from retentive.errors import Invalid, RetentiveError, Unavailable
from retentive.extras import needs_extra

if TYPE_CHECKING:
    from retentive.chat.context import PromptContext
    from retentive.chat.proxy import Chat, MemoryOptions, Reply
    from retentive.tenancy import ProfileView

END = ("/exit", "/quit")
PROMPT = "you: "


def chat(
    ctx: typer.Context,
    project: Annotated[
        str | None,
        typer.Option(help="Recall from this project instead of the whole profile, and store the turns in it."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(help="Session of the turns; by default 'chat'."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Model; by default that of the settings, or the server's.")] = None,
) -> None:
    """Chat with the configured model, with memory. The turns are stored; /exit, Ctrl-D or Ctrl-C ends it.

    The model is a server with OpenAI's API, set by RETENTIVE_LLM_URL or url under [llm] in the config file.
    """
    with needs_extra("Chat with memory", "server"):
        from retentive.chat.proxy import Chat, MemoryOptions
    with common(ctx).engine(missing="create") as engine, asyncio.Runner() as runner:
        proxy = Chat(engine.settings.llm)
        try:
            options = MemoryOptions(session=session, project=project)
            talk = Conversation(engine, proxy, options, model, as_json=common(ctx).json)
            runner.run(talk.start())
            _read_and_answer(runner, talk)
        except KeyboardInterrupt:
            typer.echo(err=True)
        finally:
            runner.run(proxy.close())
        if talk.failure is not None and not sys.stdin.isatty():  # a person has seen it
            raise typer.Exit(exit_code(talk.failure))


def _read_and_answer(runner: asyncio.Runner, talk: Conversation) -> None:
    """Read lines and answer them until the user ends the chat."""
    shows_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    if shows_prompt:
        import readline  # noqa: F401 - lines can be edited
    while True:
        try:
            line = input(PROMPT if shows_prompt else "").strip()
        except EOFError:
            typer.echo(err=True)
            return
        if line in END:
            return
        if line:
            runner.run(talk.answer(line))


class Conversation:
    """The messages of one run of the program, and how they are answered. `failure` is the last error."""

    def __init__(
        self, engine: Engine, proxy: Chat, options: MemoryOptions, model: str | None, *, as_json: bool
    ) -> None:
        from retentive.tenancy import ProfileView

        self._view: ProfileView = ProfileView(engine, engine.settings.profile)
        self._chat = proxy
        self._options = options
        self._model = model or engine.settings.llm.model
        self._messages: list[dict[str, Any]] = []
        self._as_json = as_json
        self.failure: RetentiveError | None = None

    async def start(self) -> None:
        """Check that a model is configured, find its name if none is, and say with what the user talks."""
        from retentive.chat.llm_client import LlmError

        try:
            self._chat.llm.check()
        except LlmError as error:
            raise Invalid(str(error)) from None
        self._model = self._model or await self._first_model()
        named = f" with {self._model}" if self._model else ""
        _note(f"Chat{named}, session '{self._options.session_name}'. /exit ends it.")

    async def _first_model(self) -> str | None:
        """The first model that the server lists; None if it lists none."""
        from retentive.chat.llm_client import LlmError

        try:
            response = await self._chat.llm.get("models", headers={})
            found = json.loads(await response.read())["data"][0]["id"] if response.ok else None
        except (LlmError, ValueError, LookupError, TypeError):
            return None
        return found if isinstance(found, str) else None

    async def answer(self, text: str) -> None:
        """Send a message, print what was recalled and the answer as it arrives, and wait until the turn is stored."""
        from retentive.chat.llm_client import LlmError

        self._messages.append({"role": "user", "content": text})
        request = {"messages": self._messages, "stream": True, **({"model": self._model} if self._model else {})}
        try:
            reply = await self._chat.complete(self._view, request, self._options)
            answer = await self._print(reply)
        except (LlmError, RetentiveError) as error:
            self.failure = error if isinstance(error, RetentiveError) else Unavailable(str(error))
            print_error(self.failure, as_json=self._as_json)
            answer = ""
        if answer:
            self._messages.append({"role": "assistant", "content": answer})
        else:
            self._messages.pop()
        await self._chat.recorder.wait_for_session(self._view, self._options.session_name)

    async def _print(self, reply: Reply) -> str:
        """Print a reply and return the text of the answer; an empty text if it is an error."""
        from retentive.cli.show import safe

        if self._as_json:
            answer = "".join([piece async for piece in _texts(reply)])
            typer.echo(json_text({"answer": answer, "context": reply.context and reply.context.to_dict()}))
            return answer
        if reply.context is not None:
            _note(_recalled(reply.context))
        answer = ""
        async for piece in _texts(reply):
            typer.echo(safe(piece), nl=False)
            sys.stdout.flush()
            answer += piece
        typer.echo()
        return answer


async def _texts(reply: Reply) -> AsyncIterator[str]:
    """Yield the text of an answer as it arrives. `Unavailable` with the model's message if it is an error."""
    from retentive.chat.sse import AnswerStream, read_answer

    if isinstance(reply.body, bytes):
        if reply.status >= 400:
            raise Unavailable(_error_message(reply.body) or f"the model answered with status {reply.status}")
        yield read_answer(reply.body).text
        return
    stream, printed = AnswerStream(), 0
    try:
        async for piece in reply.body.pieces():
            stream.feed(piece)
            text = stream.answer.text
            yield text[printed:]
            printed = len(text)
            if stream.failed:
                raise Unavailable(_error_message(piece.partition(b"data:")[2]) or "the answer was interrupted")
    finally:
        reply.body.end()


def _error_message(body: bytes) -> str | None:
    """The message of an error in OpenAI's format."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return None
    return message if isinstance(message, str) else None


def _recalled(context: PromptContext) -> str:
    """What was added to the prompt, in one line."""
    from retentive.cli.show import cut

    searched = "the whole profile" if context.project is None else f"project {context.project}"
    if not context.items:
        return f"recalled from {searched}: {context.note or 'nothing'}"
    # What the query found comes first; who the user is and the latest turns are in every prompt.
    items = sorted(context.items, key=lambda item: item.part not in ("rules", "recalled"))
    return cut(f"recalled {len(items)} from {searched}: " + " · ".join(item.text for item in items))


def _note(text: str) -> None:
    typer.echo(styled(text, dim=True), err=True)

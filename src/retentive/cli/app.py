"""The commands of the program, in the order in which `--help` lists them."""

from __future__ import annotations

import typer

from retentive.cli import backup, evaluation, facts, hook, judge, mcp, memories, recall, review, serve, store, transfer
from retentive.cli.options import CommandGroup, common_options

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: keyword and semantic search, fused, explained and tunable.",
    epilog="--store, --profile, --embedder, --config and --json can be given before or after any command.",
)
app.callback()(common_options)

app.command()(memories.remember)
app.command()(recall.recall)
app.command()(recall.explain)
app.command()(memories.get)
app.command(name="list")(memories.list_memories)
app.command()(memories.update)
app.command()(memories.forget)
app.command()(facts.supersede)
app.command()(facts.retract)
app.command()(facts.restore)
app.command()(facts.history)
app.command()(facts.sweep)
app.add_typer(review.review, name="review")
app.command(name="import")(transfer.import_memories)
app.command()(transfer.export)
app.add_typer(transfer.imports, name="imports")
app.add_typer(memories.sessions, name="sessions")
app.command()(memories.projects)
app.command()(store.status)
app.command()(store.doctor)
app.command()(backup.backup)
app.command()(store.recover)
app.command()(store.compact)
app.command()(store.reembed)
app.command()(store.copy)
app.add_typer(store.config, name="config")
app.command()(recall.samples)
app.command(name="eval")(evaluation.evaluate)
app.command()(judge.judge)
app.command()(evaluation.tune)
app.command()(transfer.watch)
app.add_typer(mcp.mcp, name="mcp")
app.add_typer(hook.hook, name="hook")
app.command()(serve.serve)
app.add_typer(serve.token, name="token")

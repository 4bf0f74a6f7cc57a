"""The program: its common options and its help. `commands` has the commands, and `options.Program` imports them."""

from __future__ import annotations

import typer

from retentive.cli.options import Program, common_options

app = typer.Typer(
    cls=Program,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: keyword and semantic search, fused, explained and tunable.\n\n"
    "--store, --profile, --embedder, --config, --json and --full can be given before or after any command.",
    epilog="retentive samples\n"
    'retentive remember "The spare key is under the blue pot" --project home\n'
    'retentive recall "where is the key?" --project home --explain',
)
app.callback()(common_options)

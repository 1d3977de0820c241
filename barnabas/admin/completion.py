"""`barnabas completion`: the script that makes a shell complete our commands, options and topic names."""

import click
from click.shell_completion import get_completion_class

from barnabas.admin.main import COMPLETION_VARIABLE, cli


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    r"""Print the completion script of SHELL.

    \b
    bash:  eval "$(barnabas completion bash)"             in ~/.bashrc
    zsh:   eval "$(barnabas completion zsh)"              in ~/.zshrc
    fish:  barnabas completion fish | source              in config.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "barnabas", COMPLETION_VARIABLE).source())

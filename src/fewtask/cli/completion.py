"""Completion of commands, flags and names in bash, zsh and fish: `fewtask --completion SHELL` prints a script.

What there is to complete is read off the commands' own `--help`, once, when the script is made: a shell that asked
Python at every TAB would wait for it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Mapping
from importlib import import_module

from fewtask.errors import unknown

FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*")
SUBCOMMANDS = {"data": ("list", "prepare", "verify", "show")}
"""Commands whose flags come after a second word."""


def completion_script(shell: str, commands: Iterable[str]) -> str:
    """The script of a shell: commands first, then words and flags of the command, or the values of a flag."""
    scripts = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
    if shell not in scripts:
        raise unknown("shell", shell, scripts)
    words = {command: [*first_words(command), *flags(command)] for command in commands}
    return scripts[shell](words, flag_values())


def flags(command: str) -> list[str]:
    """The flags that `fewtask COMMAND --help` shows."""
    found: list[str] = []
    for words in [[second, "--help"] for second in SUBCOMMANDS.get(command, ())] or [["--help"]]:
        found += FLAG.findall(_help_text(command, words))
    return sorted(set(found))


def first_words(command: str) -> list[str]:
    """What may follow a command besides flags and paths."""
    from fewtask.experiments.declared import declared_names
    from fewtask.experiments.tables import table_names
    from fewtask.presets import preset_names

    known: Mapping[str, Iterable[str]] = {
        "train": preset_names(),
        "compare": preset_names(),
        "tune": [*preset_names(), *declared_names()],
        "reproduce": [*table_names(), "all", *declared_names()],
        "example": ("table", "folder", "molecules"),
        "list": ("datasets", "methods", "presets"),
        **SUBCOMMANDS,
    }
    return sorted(known.get(command, ()))


def flag_values() -> dict[str, list[str]]:
    """Names that a flag takes, for flags of any command."""
    from fewtask.methods import METHODS

    return {"--method": list(METHODS), "--completion": ["bash", "zsh", "fish"]}


def _help_text(command: str, words: list[str]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        import_module(f"fewtask.cli.{command}").main(words)
    # Only the flags themselves, which stand first on their line: a text may name another command's.
    return "\n".join(line for line in shown.getvalue().splitlines() if re.match(r"[\s│]*-", line))


BASH = """\
# Completion of fewtask. In ~/.bashrc: source <(fewtask --completion bash)
_fewtask() {{
  local words="" i command=""
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  (( COMP_CWORD > 1 )) && command="${{COMP_WORDS[1]}}"
  case "$previous" in
{values}
    --*) [[ "$current" == -* ]] || return 0 ;;
  esac
  if [ -z "$words" ]; then
    case "$command" in
      "") words="{commands} --help --version --completion" ;;
{flags}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _fewtask fewtask
"""


def bash_script(words: Mapping[str, list[str]], values: Mapping[str, list[str]]) -> str:
    return BASH.format(
        commands=" ".join(words),
        values="\n".join(f'    {flag}) words="{" ".join(names)}" ;;' for flag, names in values.items()),
        flags="\n".join(f'      {command}) words="{" ".join(names)}" ;;' for command, names in words.items()),
    )


def zsh_script(words: Mapping[str, list[str]], values: Mapping[str, list[str]]) -> str:
    """zsh runs completions made for bash."""
    head = "# Completion of fewtask. In ~/.zshrc: source <(fewtask --completion zsh)\n"
    load = "autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n"
    return head + load + bash_script(words, values).partition("\n")[2]


def fish_script(words: Mapping[str, list[str]], values: Mapping[str, list[str]]) -> str:
    lines = [
        "# Completion of fewtask: fewtask --completion fish > ~/.config/fish/completions/fewtask.fish",
        f"complete -c fewtask -n __fish_use_subcommand -f -a '{' '.join(words)}'",
        "complete -c fewtask -n __fish_use_subcommand -l help -l version -l completion",
    ]
    for command, names in words.items():
        seen = f"complete -c fewtask -n '__fish_seen_subcommand_from {command}'"
        plain = [name for name in names if not name.startswith("--")]
        lines += [f"{seen} -a '{' '.join(plain)}'"] if plain else []
        for name in names:
            if name.startswith("--"):
                taken = f" -x -a '{' '.join(values[name])}'" if name in values else ""
                lines.append(f"{seen} -l {name[2:]}{taken}")
    return "\n".join(lines) + "\n"

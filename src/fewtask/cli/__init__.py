"""The command line: one module a command, each with `main(argv) -> exit code`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from fewtask import __version__
from fewtask.errors import FewtaskError, unknown

COMMANDS = {
    "demo": "train ProtoNet and Meta-Interpolation on rainbow digits and compare them (about 4 minutes)",
    "example": "write a small ready-made problem (table, folder of pictures, molecules) to try the commands on",
    "check": "look at your own data before training: sizes, repetitions, cells that cannot be used, easy baselines",
    "train": "train a method on a data set or on your own table or folder; continues a run that was interrupted",
    "predict": "label the rows of a new task from a few labelled ones, with a model trained on your own data",
    "evaluate": "evaluate a saved run on its test tasks",
    "compare": "compare methods, or variants of Meta-Interpolation, on a preset in one table",
    "tune": "choose a method by cross-validation over tasks, or settings from a declared grid",
    "reproduce": "make a table or figure of the paper, running what is missing",
    "report": "make a web page, and a page of results, from the ledger of finished runs",
    "explain": "draw how a learned set function mixes two tasks",
    "list": "list data sets, methods and presets",
    "data": "list, prepare, verify or show data sets",
    "bench": "measure steps, hyper-updates, sampling and evaluation against a plain transcription of the paper",
}

HELP = """\
fewtask {version}: learn to classify from a handful of examples, from a handful of related tasks.

usage: fewtask COMMAND [ARGUMENTS]      fewtask COMMAND --help explains each

commands
{commands}

first steps
  fewtask demo                                                        see what it does
  fewtask train rainbow-digits --method protonet --seed 0 --out runs/first
  fewtask evaluate runs/first

your own table or folder
  fewtask example table --out example                                 or bring your own
  fewtask check example/tasks.csv
  fewtask train example/tasks.csv --out runs/mine
  fewtask predict runs/mine --support example/support.csv --query example/query.csv

TAB completes commands, flags and names after: source <(fewtask --completion bash)      (or zsh; fish reads a file)
"""


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
        print(HELP.format(version=__version__, commands=lines))
        return 0
    if argv[0] in ("-V", "--version"):
        print(f"fewtask {__version__}")
        return 0
    try:
        if argv[0] == "--completion":
            from fewtask.cli.completion import completion_script

            print(completion_script(argv[1] if len(argv) > 1 else "bash", COMMANDS), end="")
            return 0
        if argv[0] not in COMMANDS:
            raise unknown("command", argv[0], COMMANDS)
        load_plugins(argv)
        code: int = import_module(f"fewtask.cli.{argv[0]}").main(argv[1:])
        return code
    except FewtaskError as error:
        from fewtask.cli.explained import sentence

        print(sentence(error), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("fewtask: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe has gone (`fewtask list methods | head`): nothing to say, and no traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def load_plugins(argv: list[str]) -> None:
    """Loads the scripts of --plugin before flags are read: defaults depend on what they register."""
    files = [argv[i + 1] for i, word in enumerate(argv[:-1]) if word == "--plugin"]
    files += [word.partition("=")[2] for word in argv if word.startswith("--plugin=")]
    if files:
        from fewtask.plugins import use_plugin

        for file in files:
            use_plugin(file)

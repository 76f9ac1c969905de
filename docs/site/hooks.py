"""Pages of the documentation site that MkDocs generates from the code: the reference of the command line, and
the gallery's published page.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
_EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*") if path.is_file())


def on_files(files: Files, config: Any) -> Files:
    """Add what is generated, and the examples, so that pages can link to them."""
    files.append(File.generated(config, "reference/command-line.md", content=command_line_page()))
    files.append(File.generated(config, "gallery/admissions.html", content=published_demo()))
    for path in _EXAMPLES:
        files.append(
            File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)),
        )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to examples, which lead out of docs/ in the repository, by links inside the site."""
    depth = page.file.src_uri.count("/")
    outside, inside = "../" * (depth + 1), "../" * depth
    return re.sub(rf"\]\({re.escape(outside)}examples/", f"]({inside}examples/", markdown)


def published_demo() -> bytes:
    """The demo's view as the page that `hdpview publish` writes."""
    import hdpview as hv
    from hdpview.demo import hospital_schema, hospital_table

    view = hv.build(hospital_table(), hospital_schema(), epsilon=1.0, ledger=False)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "admissions.html"
        view.publish(page)
        return page.read_bytes()


def command_line_page() -> str:
    """Every command with its help, arguments and options, from the command line itself."""
    import typer

    from hdpview.cli.main import app

    root = typer.main.get_command(app)
    lines = ["# Command line", "", _help(root), ""]
    for path, command in _commands(root, ("hdpview",)):
        lines += [f"## {' '.join(path)}", "", _help(command), "", *_parameters(command, path), ""]
    return "\n".join(lines)


def _commands(group: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """All commands of this package below a group, in the order of its help."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, command in getattr(group, "commands", {}).items():
        below = _commands(command, (*path, name))
        found += below or [((*path, name), command)]
    return found


def _help(command: Any) -> str:
    """Its help, with the example as code."""
    text = re.sub(r"\[/?bold\]", "`", (command.help or "").strip())
    text, _, example = text.partition("Example: ")
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    if example:
        paragraphs.append(f"```bash\n{' '.join(example.split())}\n```")
    return "\n\n".join(paragraphs)


def _parameters(command: Any, path: tuple[str, ...]) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and "--help" not in one.opts]
    words = [f"{one.metavar or one.name.upper()}" for one in arguments]
    lines = ["```text", " ".join([*path, *words, *(["[OPTIONS]"] if options else [])]), "```"]
    rows = [(f"`{one.metavar or one.name.upper()}`", one) for one in arguments]
    rows += [(_spelling(one), one) for one in options]
    if rows:
        lines += ["", "| | | default |", "|---|---|---|"]
        lines += [f"| {name} | {_cell(one.help)} | {_default(one)} |" for name, one in rows]
    return lines


def _spelling(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    return f"`{parameter.default}`" if parameter.default not in (None, False, [], ()) else ""

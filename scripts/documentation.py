"""Hooks of mkdocs: what the documentation site takes from elsewhere in the repository.

README.md, CONTRIBUTING.md, AGENTS.md, SECURITY.md and CHANGELOG.md become pages, llms.txt lies beside them; links to
files outside docs/ lead to copies of them; the reference of keys and commands is generated from the schema and the
parsers that the program itself uses.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from jaxrl import cli
from jaxrl.config import describe as keys
from jaxrl_envs.contract import registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "AGENTS.md": "agents.md",
}
SOURCES = "files"  # where copies of other files lie
LINK = re.compile(r"(\]\(|src=\")([^)#\"\s]+)")
BADGES = re.compile(r"^\[!\[.*/badge\.svg.*\n", re.MULTILINE)  # of the site that hosts the repository
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from the root of the repository, and all files that pages link to."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    wanted = set()
    for file in files.documentation_pages():
        text = FENCE.sub("", file.content_string)
        wanted |= {target for _, link in LINK.findall(text) if (target := _target(file.src_uri, link))}
    for target in sorted(wanted):
        if not target.startswith("docs/") and target not in PAGES and (ROOT / target).is_file():
            files.append(File.generated(config, f"{SOURCES}/{target}.txt", abs_src_path=str(ROOT / target)))
    pages = LINK.sub(
        lambda found: found[1] + re.sub(r"\.md$", ".html", _on_site("index.md", found[2])),
        (ROOT / "llms.txt").read_text(encoding="utf-8"),
    )
    files.append(File.generated(config, "llms.txt", content=pages))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links for the site, and puts what is generated in the place of its mark."""
    markdown = BADGES.sub("", markdown)
    parts = FENCE.split(markdown)  # every second one is a block of code
    parts[::2] = [LINK.sub(lambda found: found[1] + _on_site(page.file.src_uri, found[2]), part) for part in parts[::2]]
    text = re.sub(r"\[([^\]]*)\]\(-\)", r"\1", "".join(parts))
    return re.sub(r"<!-- GENERATED: (\w+) -->", lambda found: GENERATED[found[1]](), text)


def _target(page: str, link: str) -> str | None:
    """Returns the target of a link as a path from the root of the repository; None: it leads elsewhere."""
    if re.match(r"\w+:", link):
        return None
    origin = next((source for source, uri in PAGES.items() if uri == page), f"docs/{page}")
    return os.path.normpath(os.path.join(os.path.dirname(origin), link))


def _on_site(page: str, link: str) -> str:
    """Returns the same link on the site, from its page; "-": a folder, which it does not have."""
    target = _target(page, link)
    if target is None:
        return link
    if (ROOT / target).is_dir():
        return "-"
    outside = not target.startswith("docs/")
    uri = PAGES.get(target) or (f"{SOURCES}/{target}.txt" if outside else target.removeprefix("docs/"))
    return os.path.relpath(uri, os.path.dirname(page) or ".")


def _configuration() -> str:
    """Makes tables of all keys, and of the options of every registered game."""
    parts = [f"## {each.title}\n\n{_cell(each.doc)}\n\n{_table(each)}" for each in keys.sections()]
    games = ((id, each) for id in registry.registered() for each in keys.options_of(id))
    parts += [f"## {id}, {each.title}\n\n{_cell(each.doc)}\n\n{_table(each)}" for id, each in games]
    return "\n\n".join([*parts, *map(_cell, keys.mappings())])


def _table(section: keys.KeyTable) -> str:
    rows = (f"| `{name}` | {_cell(text)} | {_cell(doc)} |" for name, text, doc in section.rows)
    return "\n".join(["| key | type, default, range | meaning |", "|---|---|---|", *rows])


def _cell(text: str) -> str:
    """As text of a cell: nothing that Markdown would read."""
    return html.escape(re.sub(r"([|*_\[\]])", r"\\\1", text), quote=False)


def _commands() -> str:
    """Returns the help of every command."""
    os.environ["COLUMNS"] = "100"
    parsers = []
    for name, help in cli.commands().items():
        parser = cli.Parser(prog=f"jaxrl {name}", description=help, allow_abbrev=False)
        if name in cli.COMMANDS:
            cli.find_command(name).add_options(parser)
            parsers.append(parser)
            continue
        module = registry.game_module(name, "commands")
        for word in module.COMMANDS:
            parsers.append(cli.Parser(prog=f"jaxrl {name} {word}", allow_abbrev=False))
            module.module(word).add_options(parsers[-1])
    return "\n\n".join(f"## {each.prog}\n\n```text\n{each.format_help().rstrip()}\n```" for each in parsers)


GENERATED: dict[str, Callable[[], str]] = {"configuration": _configuration, "commands": _commands}

"""Comments, docstrings, messages and pages name the subject of a sentence: words that stand in its place stay out."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

UNCLEAR = re.compile(r"\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Ss]o many|[Aa]new|is none|are none)\b")
ALLOWED: dict[tuple[str, str], str] = {  # (file, the words as they stand there): why
    ("envs/jaxrl_envs/shared/errors.py", '"there are none"'): "what a message says of an empty list of names"
}
OPENING = re.compile(r"\W*(What|Who|It|How|Where|Which|This|These|Those|There|Every)\b")
ENTRIES = re.compile(r"(?m)^  \*{0,2}\w[\w, *]*: (?:of|in|from|for|with|what|who|how|where|which|that) .*")


def files() -> Iterator[Path]:
    """Yields all source files, and the pages of the documentation."""
    for top in ("jaxrl", "envs", "scripts", "examples", "tests"):
        for pattern in ("*.py", "*.pyx", "*.pxd"):
            yield from (ROOT / top).rglob(pattern)
    yield from (ROOT / "docs").rglob("*.md")
    yield from ROOT.glob("*.md")


def prose(path: Path) -> str:
    """The text of a file on one line; of Python only its comments and strings, without identifiers and keywords."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and UNCLEAR.search(flat(source)):  # most files need no tokens, which take long
        kinds = {"COMMENT", "STRING", "FSTRING_MIDDLE"}
        tokens = tokenize.generate_tokens(io.StringIO(source).readline)
        source = " ".join(token.string for token in tokens if tokenize.tok_name[token.type] in kinds)
    return flat(source)


def flat(text: str) -> str:
    return " ".join(text.replace("#", " ").split())


def test_sentences_name_their_subject():
    found = []
    for path in files():
        name, text = path.relative_to(ROOT).as_posix(), prose(path)
        for phrase in (phrase for file, phrase in ALLOWED if file == name):
            assert phrase in text, f"{name} no longer says {phrase!r}: remove it from the list"
            text = text.replace(phrase, "")
        if path != Path(__file__):
            starts = [match.start() for match in UNCLEAR.finditer(text)]
            found += [f"{name}: {text[max(start - 40, 0) : start + 40]}" for start in starts]
    assert found == [], "say who or what is meant: " + "\n".join(found)
    assert len(ALLOWED) <= 20


def test_docstrings_begin_with_verbs_and_nouns():
    found = []
    for path in (path for top in ("jaxrl", "envs", "examples") for path in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node) or ""
                lists = re.findall(r"(?ms)^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", text)
                openings = [text[:60]] * bool(OPENING.match(text))
                found += [f"{path.name}: {node.name}: {line}" for line in openings + ENTRIES.findall("\n".join(lists))]
    assert found == [], "a function begins with a verb, a class or an entry with a noun: " + "\n".join(found)


def test_code_is_not_prose(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('anew = nobody is None  # so\n# many\nx = "whoever"\n"""there is\nnone"""\n')
    assert UNCLEAR.findall(prose(file)) == ["so many", "whoever", "is none"]

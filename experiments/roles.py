"""Reads what each role says in texts whose speakers are labelled.

A folder holds files of two forms: ``*.tsv`` with the columns user and text, as :mod:`nightjar.models.corpora` reads
them; and ``*.txt`` or ``*.md`` in which a line that is a name alone, with ``**`` around or a colon behind, says who
speaks until the next. Stage directions in brackets or underscores, and headings, are left out. A role is a file's name
and the speaker's: the Antonios of two plays are two.
"""

from __future__ import annotations

import re
from pathlib import Path

from nightjar.models import corpora
from nightjar.wire.errors import ConfigError

SPEAKER = re.compile(r"^(?:\*\*([^*]{1,40})\*\*|([A-Z][A-Za-z' ]{0,30}):)\s*$")
DIRECTION = re.compile(r"\[[^\]]*\]|_[^_]*_|^#.*$")


def roles(folder: Path, least: int) -> dict[str, list[str]]:
    """Role -> speeches, of the roles with at least so many.

    Raises:
        ConfigError: no file, or none with such a role.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("**/*")):
        if path.suffix == ".tsv":
            found |= {user: list(said) for user, said in corpora.load(str(path), 1).users.items()}
        elif path.suffix in {".txt", ".md"}:
            text = path.read_text("utf-8", errors="replace")
            found |= {f"{path.stem}/{name}": said for name, said in speeches(text).items()}
    kept = {role: said for role, said in found.items() if len(said) >= least}
    if not kept:
        msg = (
            f"expected .tsv, .txt or .md files with labelled speakers in {folder}, one with {least} speeches; got none"
        )
        raise ConfigError(msg)
    return kept


def speeches(text: str) -> dict[str, list[str]]:
    r"""Speaker -> speeches of a play.

    >>> speeches("**ADAM** \nHe comes.\n_Enter OLIVER_\n**OLIVER**\nNow, sir!\nWhat now?\n\nAdam:\nNothing.")
    {'ADAM': ['He comes.', 'Nothing.'], 'OLIVER': ['Now, sir! What now?']}
    """
    found: dict[str, list[str]] = {}
    name, said = "", list[str]()
    for line in [*text.splitlines(), "**END**"]:
        speaker = SPEAKER.match(line)
        if speaker is None:
            said.append(DIRECTION.sub("", line).strip())
            continue
        speech = " ".join(filter(None, said))
        if name and speech:
            found.setdefault(name, []).append(speech)
        name, said = (speaker[1] or speaker[2]).strip().upper(), []
    return found

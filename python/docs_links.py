"""A hook of MkDocs: links from the pages to other files of the repository become their paths."""

from __future__ import annotations

import os
import pathlib
import re
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = pathlib.Path(__file__).parents[1]


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    folder = pathlib.Path(page.file.abs_src_path).parent

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = (folder / target.partition("#")[0]).resolve()
        if not path.exists():
            raise PluginError(f"{page.file.src_path} has a link to {target}, which is not there")
        return f"{text} (`{os.path.relpath(path, ROOT)}`)"

    return re.sub(r"\[([^]]*)\]\((\.\./[^)]*)\)", replaced, markdown)

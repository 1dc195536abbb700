"""An extension of griffe, which reads the docstrings: examples with >>> become listings."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a prompt to the next empty line: expected output never has one.
EXAMPLE = re.compile(r"^(?P<margin>[ ]*)>>> .*(?:\n(?![ ]*$).*)*", re.M)


def with_listings(docstring: str) -> str:
    return EXAMPLE.sub(lambda match: f"{match['margin']}```pycon\n{match[0]}\n{match['margin']}```", docstring)


class Listings(griffe.Extension):
    """Changes each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_listings(obj.docstring.value)

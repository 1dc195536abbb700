"""The reference of the HTTP interface of `vram serve`, from the OpenAPI document that the program serves."""

from __future__ import annotations

import json
from typing import Any

from pages import ROOT

DOCUMENT = ROOT / "src/serve/openapi.json"


def pages() -> dict[str, str]:
    """Returns the page of the paths and schemas."""
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    out = ["# HTTP API", "", document["info"].get("description", ""), ""]
    out += [f"The program serves this document as `/api/v1/openapi.json` (OpenAPI {document['openapi']}).", ""]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if isinstance(operation, dict) and "responses" in operation:
                out += operation_text(f"{method.upper()} {path}", operation)
    out += ["# Schemas", ""]
    for name, schema in document["components"]["schemas"].items():
        out += [
            f"## {name}",
            "",
            schema.get("description", ""),
            "",
            "```json",
            json.dumps(schema, indent=2, ensure_ascii=False),
            "```",
            "",
        ]
    return {"http/api.md": "\n".join(out)}


def operation_text(title: str, operation: dict[str, Any]) -> list[str]:
    out = [f"## {title}", "", operation.get("summary", ""), "", operation.get("description", ""), ""]
    if parameters := [parameter for parameter in operation.get("parameters", []) if "name" in parameter]:
        out += ["| parameter | in | meaning |", "|---|---|---|"]
        out += [f"| `{item['name']}` | {item['in']} | {cell(item.get('description', ''))} |" for item in parameters]
        out += [""]
    out += ["| answer | meaning |", "|---|---|"]
    out += [f"| {code} | {cell(answer.get('description', ''))} |" for code, answer in operation["responses"].items()]
    return [*out, ""]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

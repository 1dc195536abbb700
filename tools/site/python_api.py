"""The reference of the Python package: a page for each module that vram/__init__.py takes public names from."""

from __future__ import annotations

import ast

from pages import ROOT

PACKAGE = ROOT / "python/vram"


def public_names(module: str) -> list[str]:
    """Returns the names of the `__all__` of a module of the package ("" is the package itself)."""
    path = PACKAGE / f"{module}.py"
    if not module or not path.is_file():
        path = PACKAGE / module / "__init__.py"
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(statement.value)]
    raise ValueError(f"{path} has no __all__")


def modules() -> dict[str, list[str]]:
    """Returns the public names of the package by the module that defines them, in the order of the imports."""
    public = set(public_names(""))
    found: dict[str, list[str]] = {}
    for statement in ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom):
            names = [alias.asname or alias.name for alias in statement.names]
            found.setdefault(statement.module or "", []).extend(name for name in names if name in public)
    submodules = found.pop("vram")
    found = {module: names for module, names in found.items() if names}
    return found | {f"vram.{name}": [] for name in submodules}


def pages() -> dict[str, str]:
    """Returns the pages, first that of the package, which lists all names."""
    listed = modules()
    overview = ["# vram", "", "::: vram", "    options: {members: false, show_root_heading: false}", ""]
    found = {}
    general = [name for module, names in listed.items() if module.startswith("vram._") for name in names]
    for module, names in listed.items():
        if module.startswith("vram._"):
            continue
        page = f"python/{module.rpartition('.')[2]}.md"
        shown = [f"vram.{name}" for name in names] or [
            f"{module}.{name}" for name in public_names(module.removeprefix("vram."))
        ]
        found[page] = "\n".join([f"# {module}", "", *(f"::: {name}\n" for name in shown)])
        overview += [f"- [{module}]({page.removeprefix('python/')}): {', '.join(f'[{name}][]' for name in shown)}"]
    overview += ["", *(f"::: vram.{name}\n" for name in general)]
    return {"python/vram.md": "\n".join(overview)} | found

"""Builds Grafana's JSON: panels, their layout in a grid, variables, dashboards."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
Query = tuple[str, str]  # PromQL, legend

SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}
GRID = 24
GREEN, ORANGE, RED, BLUE, GREY = "green", "orange", "red", "blue", "#8e8e8e"


def panel(kind: str, title: str, about: str, unit: str, queries: list[Query], width: int, height: int) -> Json:
    targets = [
        {"datasource": SOURCE, "expr": expr, "legendFormat": legend, "refId": chr(ord("A") + place)}
        for place, (expr, legend) in enumerate(queries)
    ]
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "gridPos": {"w": width, "h": height, "x": 0, "y": 0},
    }


def lines(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    width: int = 12,
    minimum: float | None = 0,
    maximum: float | None = None,
    stacked: bool = False,
) -> Json:
    made = panel("timeseries", title, about, unit, list(queries), width, 8)
    custom: Json = {"lineWidth": 1, "fillOpacity": 60 if stacked else 8, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    bounds = {key: value for key, value in {"min": minimum, "max": maximum}.items() if value is not None}
    made["fieldConfig"]["defaults"].update({"custom": custom, "color": {"mode": "palette-classic"}, **bounds})
    made["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return made


def coloured(made: Json, **colours: str) -> Json:
    """Sets fixed colours by legend; an underscore in a keyword means a space."""
    for name, colour in colours.items():
        made["fieldConfig"]["overrides"].append(
            {
                "matcher": {"id": "byName", "options": name.replace("_", " ")},
                "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
            }
        )
    return made


def by_steps(*colours: tuple[float | None, str]) -> Json:
    steps = [{"value": value, "color": colour} for value, colour in colours]
    return {"color": {"mode": "thresholds"}, "thresholds": {"mode": "absolute", "steps": steps}}


def stat(title: str, about: str, unit: str, expr: str, *colours: tuple[float | None, str], width: int = 4) -> Json:
    made = panel("stat", title, about, unit, [(expr, "")], width, 4)
    made["targets"][0]["instant"] = True
    made["fieldConfig"]["defaults"].update(by_steps(*(colours or ((None, BLUE),))))
    made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value"}
    return made


def timeline(title: str, about: str, *queries: Query, width: int = 12) -> Json:
    """Values that are 0 or 1, over time."""
    made = panel("state-timeline", title, about, "none", list(queries), width, 8)
    made["fieldConfig"]["defaults"].update(by_steps((None, GREEN), (1, RED)))
    made["options"] = {"showValue": "never", "mergeValues": True, "legend": {"showLegend": False}}
    return made


def table(title: str, about: str, unit: str, *queries: Query, width: int = 24, hidden: tuple[str, ...] = ()) -> Json:
    """A row for each set of labels, a column for each query; legends name the columns."""
    made = panel("table", title, about, unit, list(queries), width, 8)
    names = {}
    for target in made["targets"]:
        target.update(instant=True, range=False, format="table")
        names[f"Value #{target['refId']}" if len(queries) > 1 else "Value"] = target.pop("legendFormat")
    left_out = dict.fromkeys(("Time", "__name__", "job", *hidden), True)
    made["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": left_out, "renameByName": names}},
    ]
    return made


def variable(name: str, label: str, query: str) -> Json:
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }


def flow(panels: list[Json]) -> list[Json]:
    """Places the panels from left to right, row by row, and numbers them."""
    x = y = height = 0
    for number, each in enumerate(panels, 1):
        place = each["gridPos"]
        if x + place["w"] > GRID:
            x, y, height = 0, y + height, 0
        place["x"], place["y"] = x, y
        x, height = x + place["w"], max(height, place["h"])
        each["id"] = number
    return panels


def dashboard(uid: str, title: str, about: str, variables: list[Json], panels: list[Json]) -> Json:
    source = {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1}
    others: Json = {"type": "dashboards", "title": "vram", "tags": ["vram"], "asDropdown": True, "includeVars": True}
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["vram", "gpu"],
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "links": [{**others, "keepTime": True}],
        "templating": {"list": [source, *variables]},
        "annotations": {"list": []},
        "panels": flow(panels),
    }

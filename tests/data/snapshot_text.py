"""What a snapshot says, line by line: computed from the Python objects with none of the reader's ideas.

The tests print the reader's Trace in the same form and compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KNOWN = {
    *("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    *("snapshot", "oom", "annotate"),
}
STATES = {
    "inactive": "inactive",
    "active_allocated": "allocated",
    "active_pending_free": "pending",
    "active_awaiting_free": "pending",
}


def snapshot_text(snapshot: Any) -> str:
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot}
    return "".join(line + "\n" for line in lines(snapshot))


def lines(snapshot: dict[str, Any]) -> Iterator[str]:
    from_profile = any("category" in e for t in snapshot.get("device_traces", []) for e in t)
    gpus = list(snapshot.get("device_traces", []))
    hosts = list(snapshot.get("host_traces", []))
    cpu = len(gpus) - 1 if from_profile else None
    if from_profile:
        hosts = [gpus.pop()]
    for kind, traces, key in (("gpu", gpus, "segments"), ("host", hosts, "host_segments")):
        state = snapshot.get("segments" if from_profile else key, [])
        by_device: dict[int, list[Any]] = {}
        for segment in state:
            is_cpu = segment["device"] == cpu
            if not from_profile or is_cpu == (kind == "host"):
                by_device.setdefault(0 if is_cpu else segment["device"], []).append(segment)
        for ordinal in range(max([len(traces) - 1, *by_device], default=-1) + 1):
            trace = traces[ordinal] if ordinal < len(traces) else []
            segments = sorted(by_device.get(ordinal, []), key=lambda s: s["address"])
            if trace or segments:
                yield f"device {kind} {ordinal} ring={int(kind == 'gpu' and ring(snapshot, ordinal, trace))}"
                yield from device_lines(snapshot, trace, segments)
    yield from annotation_lines(snapshot)
    yield from setting_lines("", snapshot.get("allocator_settings", {}))


def device_lines(snapshot: dict[str, Any], trace: list[Any], segments: list[Any]) -> Iterator[str]:
    has_pools = any("pool_id" in e for t in snapshot.get("device_traces", []) for e in t)
    private = any(tuple(s.get("segment_pool_id", (0, 0))) != (0, 0) for s in snapshot["segments"])
    for number, entry in enumerate(trace):
        if entry["action"] == "user_defined":
            continue
        pool: Any = tuple(entry.get("pool_id", (0, 0)))
        if private and not has_pools:
            pool = deduced_pool(trace, number, segments)
        yield event_line(snapshot, entry, pool)
    for s in segments:
        pool = s.get("segment_pool_id", (0, 0))
        yield (
            f"segment {s['address']:#x} {s['total_size']} stream={s['stream']:#x} pool={pool[0]},{pool[1]} "
            f"small={int(s.get('segment_type') == 'small')} expandable={int(s.get('is_expandable', False))} "
            f"claimed={s.get('allocated_size', 0)},{s.get('active_size', 0)},{s.get('requested_size', 0)} "
            f"stack={stack(s.get('frames', []))}"
        )
        address = s["address"]
        for b in s["blocks"]:
            address = b.get("address", address)
            latest = b.get("history", [{}])[0]
            requested = b.get("requested_size", latest.get("real_size", b["size"]))
            frames = [*latest.get("cpp_frames", []), *b.get("frames", latest.get("frames", []))]
            yield f"block {address:#x} {b['size']} requested={requested} {STATES[b['state']]} stack={stack(frames)}"
            address += b["size"]


def event_line(snapshot: dict[str, Any], e: dict[str, Any], pool: Any) -> str:
    known = e["action"] in KNOWN
    compiled = e.get("compile_context", "")
    category = snapshot["categories"][e["category"]] if "category" in e else ""
    return (
        f"event {e['action'] if known else 'other'} {e.get('device_free', e.get('addr')):#x} {e['size']} "
        f"stream={e['stream']:#x} time_ns={e.get('time_us', 0) * 1000} "
        f"pool={'?' if pool is None else f'{pool[0]},{pool[1]}'} "
        f"compile={'' if compiled == 'N/A' else compiled} "
        f"user={e.get('user_metadata', '') if known else e['action']} category={category} "
        f"forward={'|'.join(text + '@:0' for text in e.get('forward_frames', []))} "
        f"stack={stack([*e.get('cpp_frames', []), *e.get('frames', [])])}"
    )


def deduced_pool(trace: list[Any], number: int, segments: list[Any]) -> Any:
    """The pool of the segment at the end, if no segment came or went at this address after this entry."""
    entry = trace[number]
    if entry["action"] in ("oom", "snapshot"):
        return (0, 0)
    if entry["action"] in ("segment_free", "segment_unmap"):
        return None
    for later in trace[number + 1 :]:
        if later["action"].startswith("segment_") and 0 <= entry["addr"] - later["addr"] < later["size"]:
            return None
    for s in segments:
        if 0 <= entry["addr"] - s["address"] < s["total_size"]:
            return s["segment_pool_id"]
    return None


def stack(frames: Any) -> str:
    texts = []
    for f in frames:
        line = f["line"] if 0 <= f["line"] < 2**32 - 1 else 0
        file = "" if f["filename"] == "none" else f["filename"]
        fx = f"{{{f['fx_node_name']} ({f['fx_node_op']} {f['fx_node_target']})}}" if "fx_node_op" in f else ""
        trace = f"{{{f['fx_original_trace']}}}" if "fx_original_trace" in f else ""
        texts.append(f"{f['name']}@{file}:{line}{fx}{trace}")
    return "|".join(texts)


def ring(snapshot: dict[str, Any], ordinal: int, trace: list[Any]) -> bool:
    settings = snapshot.get("allocator_settings", {})
    flag = settings.get("trace_alloc_overflowed", False)
    if isinstance(flag, list):
        flag = ordinal < len(flag) and flag[ordinal]
    most = settings.get("trace_alloc_max_entries", 0)
    return bool(flag) or (most != 0 and len(trace) >= most)


def annotation_lines(snapshot: dict[str, Any]) -> Iterator[str]:
    found = [(a["device"], a["name"], a["stage"], a["time_us"]) for a in snapshot.get("external_annotations", [])]
    for device, trace in enumerate(snapshot.get("device_traces", [])):
        for e in trace:
            if e["action"] == "user_defined":
                found.append((device, e["frames"][0]["filename"], e["frames"][0]["name"], e["time_us"]))
    for device, name, stage, time_us in sorted(found):
        yield f"annotation {stage} device={device} time_ns={time_us * 1000} {name}"


def setting_lines(prefix: str, settings: dict[str, Any]) -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from setting_lines(f"{prefix}{key}.", value)
        else:
            yield f"setting {prefix}{key}={value}"

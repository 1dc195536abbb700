"""Makes the snapshots the reader is tested with. Run it from anywhere; it always writes the same bytes.

    python3 tests/data/make_snapshots.py

snapshots/<version>.p<protocol>.pickle   every version in every pickle protocol, and as C++ writes it (.ts)
snapshot_texts/<version>.txt             what each of them says (snapshot_text.py)
snapshot_texts/demo.txt                  counts and sums of the recordings in demo/
pickles/nested.p<protocol>.pickle        plain data of every kind, nested at random; nested.txt is its repr
"""

from __future__ import annotations

import lzma
import pickle
import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

from snapshot_text import snapshot_text
from snapshot_versions import VERSIONS
from torchscript_pickler import TorchScriptPickler

HERE = Path(__file__).resolve().parent
TORCHSCRIPT = ("v1.13", "v2.1", "v2.8", "v2.12", "list")


def main() -> None:
    for name in ("snapshots", "snapshot_texts", "pickles"):
        (HERE / name).mkdir(exist_ok=True)
    for version, make in VERSIONS.items():
        snapshot = make()
        for protocol in (2, 3, 4, 5):
            data = pickle.dumps(snapshot, protocol)
            (HERE / f"snapshots/{version}.p{protocol}.pickle").write_bytes(data)
        if version in TORCHSCRIPT:
            (HERE / f"snapshots/{version}.ts.pickle").write_bytes(TorchScriptPickler().dumps(snapshot))
        (HERE / f"snapshot_texts/{version}.txt").write_text(snapshot_text(snapshot))
    make_nested()
    (HERE / "snapshot_texts/demo.txt").write_text("".join(map(demo_text, sorted(HERE.glob("../../demo/*.xz")))))


def make_nested() -> None:
    value = nested(random.Random(7), 4)
    for protocol in (2, 3, 4, 5):
        (HERE / f"pickles/nested.p{protocol}.pickle").write_bytes(pickle.dumps(value, protocol))
    (HERE / "pickles/nested.txt").write_text(plain_repr(value) + "\n", errors="surrogatepass")


def nested(random: random.Random, depth: int) -> Any:
    shared: list[Any] = [[], {}, ["shared", 1], {"k": ["v"]}, (1, 2)]

    def make(depth: int) -> Any:
        kind = random.randrange(10) if depth else random.randrange(5)
        if kind == 0:
            return random.choice([None, True, False, 1.5, -0.0, 1e300])
        if kind == 1:
            magnitude = random.choice([1 << 8, 1 << 16, 1 << 31, 1 << 47, 1 << 55, 1 << 63, 1 << 70])
            return random.randrange(-magnitude, magnitude)
        if kind == 2:
            return random.choice(["", "a", "naïve", "层", "x" * 300, "\udce9", "tab\there"])
        if kind == 3:
            return random.choice(shared)
        if kind == 4:
            return random.choice([2**62, -(2**62), 2**54, -(2**54), -(2**54) - 1, 2**63, -(2**63)])
        count = random.choice([0, 1, 2, 3, 5])
        if kind < 7:
            return [make(depth - 1) for _ in range(count)]
        if kind < 9:
            return {f"{random.randrange(99)}": make(depth - 1) for _ in range(count)}
        return tuple(make(depth - 1) for _ in range(count))

    return [make(depth) for _ in range(400)]


def plain_repr(value: Any) -> str:
    """repr() in words that C++ prints alike: no escapes in texts, floats by their bits, integers beyond 64 bits by their sign."""
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float):
        return "f" + struct.pack(">d", value).hex()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return "-huge" if value < 0 else "huge"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{plain_repr(k)}: {plain_repr(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(plain_repr, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(plain_repr, value)) + ")"
    return str(value)


def demo_text(path: Path) -> str:
    snapshot = pickle.loads(lzma.decompress(path.read_bytes()))
    trace = snapshot["device_traces"][0]
    blocks = [b for s in snapshot["segments"] for b in s["blocks"]]
    sums = {
        "addresses": sum(e.get("device_free", e.get("addr")) for e in trace) % 2**64,
        "times_us": sum(e["time_us"] for e in trace) % 2**64,
        "frames": sum(len(e.get("frames", [])) for e in trace),
        "lines": sum(f["line"] for e in trace for f in e.get("frames", [])),
        "segments": len(snapshot["segments"]),
        "segment_bytes": sum(s["total_size"] for s in snapshot["segments"]),
        "blocks": len(blocks),
        "block_bytes": sum(b["size"] for b in blocks),
        "requested_bytes": sum(b["requested_size"] for b in blocks),
        "allocated_blocks": sum(b["state"] == "active_allocated" for b in blocks),
        "annotations": len(snapshot["external_annotations"]),
    }
    bytes_of: Counter[str] = Counter()
    for entry in trace:
        bytes_of[entry["action"]] += entry["size"]
    counts = Counter(entry["action"] for entry in trace)
    for action in sorted(counts):
        sums[action] = counts[action]
        sums[f"{action}.bytes"] = bytes_of[action]
    return f"{path.name}\n" + "".join(f"  {name}={value}\n" for name, value in sums.items())


if __name__ == "__main__":
    main()

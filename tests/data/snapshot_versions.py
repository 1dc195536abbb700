"""The same small training run as each version of PyTorch would have written it: one function a version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiny_allocator import MIB, Entry, Frame, Segment, TinyAllocator

Snapshot = dict[str, Any] | list[Any]

SIDE_STREAM = 0x5581_2000
POOL = (0, 3)


def frame(name: str, filename: str, line: int) -> Frame:
    return {"name": name, "filename": filename, "line": line}


MAIN = frame("<module>", "/work/train.py", 80)
STEP = frame("step", "/work/train.py", 42)
MODULE = frame("_call_impl", "/env/site-packages/torch/nn/modules/module.py", 1790)
STACKS = {
    "forward": [frame("forward", "/work/model.py", 12), MODULE, STEP, MAIN],
    "backward": [frame("backward", "/env/site-packages/torch/_tensor.py", 581), STEP, MAIN],
    "setup": [frame("__init__", "/work/model.py", 5), MAIN],
    "size": [frame("size", "", 7), MAIN],  # a function whose name is also a key
    "none": [],
}
CPP = [frame("torch::unwind::unwind()", "??", 0), frame("at::native::empty", "libtorch_cpu.so", 0)]


def run(device: int = 0, expandable: bool = False, private: bool = False) -> TinyAllocator:
    a = TinyAllocator(device, expandable)
    weights = [a.alloc(size, STACKS["setup"]) for size in (4096, 3 * MIB, 100, 30 * MIB)]
    for step in range(3):
        held = [a.alloc(size, STACKS["forward"]) for size in (700, 5 * MIB, 11 * MIB + step * MIB, 1 * MIB)]
        side = a.alloc(2 * MIB + 1, STACKS["forward"], stream=SIDE_STREAM)
        if private:
            held.append(a.alloc(6 * MIB, STACKS["forward"], pool=POOL))
        gradient = a.alloc(3 * MIB, STACKS["backward"])
        a.free(side, STACKS["backward"], complete=False)
        for address in reversed(held):
            a.free(address, STACKS["none"])
        if step < 2:
            a.complete(side, STACKS["size"])
            a.free(gradient, STACKS["size"])
        if step == 1:
            a.empty_cache(STACKS["none"])
    a.free(weights[2], STACKS["none"])
    a.marker("oom", 90 * MIB, STACKS["forward"], address=17 * MIB)
    a.marker("snapshot", 0, STACKS["none"])
    return a


def entries(a: TinyAllocator, *left_out: str) -> list[Entry]:
    return [{key: value for key, value in entry.items() if key not in left_out} for entry in a.entries]


def old_segments(a: TinyAllocator) -> list[dict[str, Any]]:
    """Up to 2.0: blocks without address and stack, with a history."""
    return [
        {
            **totals(a, s),
            "blocks": [
                {"size": b.size, "state": b.state, **({"history": b.tenants} if b.tenants else {})} for b in s.blocks
            ],
        }
        for s in sorted(a.segments, key=lambda s: s.address)
    ]


def totals(a: TinyAllocator, s: Segment) -> dict[str, Any]:
    active = [b for b in s.blocks if b.state != "inactive"]
    return {
        "device": a.device,
        "address": s.address,
        "total_size": s.size,
        "allocated_size": sum(b.size for b in active if b.state == "active_allocated"),
        "active_size": sum(b.size for b in active),
        "stream": s.stream,
        "segment_type": "small" if s.small else "large",
    }


def segments(*allocators: TinyAllocator) -> list[dict[str, Any]]:
    """From 2.1 on."""
    return [
        {
            **totals(a, s),
            "requested_size": sum(b.requested for b in s.blocks if b.state != "inactive"),
            "segment_pool_id": s.pool,
            "is_expandable": s.expandable,
            "frames": s.frames,
            "blocks": [
                {
                    "address": b.address,
                    "size": b.size,
                    "requested_size": b.requested,
                    "state": b.state,
                    "frames": b.frames,
                }
                for b in s.blocks
            ],
        }
        for a in allocators
        for s in sorted(a.segments, key=lambda s: s.address)
    ]


def settings(**more: Any) -> dict[str, Any]:
    return {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": False,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "roundup_power2_divisions": {"1": 0, "2": 0, "32768": 4},
        **more,
    }


def scopes(a: TinyAllocator) -> list[dict[str, Any]]:
    middle = a.entries[len(a.entries) // 2]["time_us"]
    return [
        {"stage": "START", "name": "step", "device": a.device, "time_us": a.entries[0]["time_us"] - 1},
        {"stage": "START", "name": "Optimizer.step#SGD.step", "device": a.device, "time_us": middle},
        {"stage": "END", "name": "Optimizer.step#SGD.step", "device": a.device, "time_us": middle + 5},
        {"stage": "END", "name": "step", "device": a.device, "time_us": a.entries[-1]["time_us"]},
    ]


def v1_13() -> Snapshot:
    a = run()
    return {"segments": old_segments(a), "device_traces": [entries(a, "time_us", "pool_id")]}


def v2_0() -> Snapshot:
    a = run()
    trace = [{**entry, "cpp_frames": CPP} for entry in entries(a, "time_us", "pool_id")]
    state = old_segments(a)
    for segment in state:
        for block in segment["blocks"]:
            if "history" in block:
                block["history"] = [{**tenant, "cpp_frames": CPP} for tenant in block["history"]]
    return {"segments": state, "device_traces": [trace, []]}


def v2_1() -> Snapshot:
    a = run(expandable=True)
    return {"segments": segments(a), "device_traces": [entries(a, "time_us", "pool_id")]}


def v2_2() -> Snapshot:
    a, b = run(private=True), run(device=2)
    return {
        "segments": segments(a, b),
        "device_traces": [entries(a, "pool_id"), [], entries(b, "pool_id", "frames")],
        "allocator_settings": settings(max_split_size=2**64 - 1),
    }


def v2_5() -> Snapshot:
    """Annotations among the entries; the context of free events left out."""
    a, b = run(), run(device=1)
    traces = [entries(a, "pool_id"), entries(b, "pool_id")]
    for trace, name in zip(traces, ("epoch", "epoch of rank 1"), strict=True):
        for at, stage in ((0, "START"), (len(trace), "END")):
            time_us = trace[max(at - 1, 0)]["time_us"]
            frames = [frame(stage, name, 0)]
            marker = {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "time_us": time_us, "frames": frames}
            trace.insert(at, marker)
    return {
        "segments": segments(a, b),
        "device_traces": traces,
        "allocator_settings": settings(),
        "external_annotations": scopes(a),
    }


def v2_8() -> Snapshot:
    a = run()
    trace = entries(a, "pool_id")
    for number, entry in enumerate(trace):
        entry["compile_context"] = "0/1" if number % 5 == 0 else "N/A"
    return {
        "segments": segments(a),
        "device_traces": [trace],
        "allocator_settings": settings(),
        "external_annotations": scopes(a),
    }


def v2_10() -> Snapshot:
    snapshot = v2_8()
    assert isinstance(snapshot, dict)
    compiled = {
        **frame("call", "/tmp/torchinductor/ab/cab.py", 2**64 - 1),
        "fx_node_op": "call_function",
        "fx_node_name": "relu",
        "fx_node_target": "torch.relu",
        "fx_node_info": "",
        "fx_original_trace": "/work/model.py:13, in forward",
    }
    for number, entry in enumerate(snapshot["device_traces"][0]):
        entry["user_metadata"] = "tagged" if number % 7 == 0 else ""
        if number % 5 == 0 and entry["frames"]:
            entry["frames"] = [compiled, *entry["frames"]]
    snapshot["allocator_settings"]["graph_capture_record_stream_reuse"] = False
    return snapshot


def v2_11() -> Snapshot:
    """include_traces=False."""
    snapshot = v2_10()
    assert isinstance(snapshot, dict)
    return {**snapshot, "device_traces": [[]], "external_annotations": []}


def v2_12() -> Snapshot:
    a, b = run(private=True), run(device=1)
    traces = [entries(a), entries(b)]
    for trace in traces:
        for entry in trace:
            entry |= {"compile_context": "N/A", "user_metadata": ""}
    for entry in traces[1]:
        entry["pool_id"] = list(entry["pool_id"])
    return {
        "segments": segments(a, b),
        "device_traces": traces,
        "allocator_settings": settings(
            trace_alloc_max_entries=len(traces[1]) + 1000, trace_alloc_overflowed=[False, True]
        ),
        "external_annotations": scopes(b),
    }


def main() -> Snapshot:
    """Keys in another order, host memory, annotate, forward stacks, and things nobody knows yet."""
    a, host = run(private=True), run()
    trace = entries(a)
    for number, entry in enumerate(trace):
        entry |= {"compile_context": "N/A", "user_metadata": ""}
        if number % 3 == 0:
            entry["forward_frames"] = ["model.py:12 forward", "train.py:42 step"]
        if number == 9:
            entry["brand_new_key"] = [1, {"a": None}]
    last = trace[-1]
    trace.append({**last, "action": "annotate", "addr": trace[1]["addr"], "size": 512, "user_metadata": "weights"})
    trace.append({**last, "action": "workspace_snapshot"})
    return {
        "host_traces": [entries(host)],
        "device_traces": [trace],
        "external_annotations": scopes(a),
        "allocator_settings": settings(trace_alloc_max_entries=len(trace), trace_alloc_overflowed=False),
        "host_segments": segments(host),
        "segments": segments(a),
        "invented_later": {"x": (1.5, True, 2**70, -(2**63))},
    }


def profile() -> Snapshot:
    """torch.cuda._memory_viz._profile_to_snapshot: one more list, for the CPU; no addresses in blocks."""
    gpu, cpu = run(), run(device=1)
    traces = []
    for a in (gpu, cpu):
        kept = [
            e for e in entries(a, "time_us", "pool_id") if e["action"] in ("alloc", "free_requested", "free_completed")
        ]
        for number, entry in enumerate(kept):
            if entry["action"] == "alloc":
                entry["category"] = number % 3
            entry["stream"] = 0
            entry["frames"] = tuple(entry["frames"] or [frame("python", "none", 0)])
        traces.append(kept)
    state = []
    for a in (gpu, cpu):
        for s in a.segments:
            blocks: list[dict[str, Any]] = []
            for b in s.blocks:
                used = {"requested_size": b.requested, "frames": tuple(b.frames)} if b.state != "inactive" else {}
                blocks.append({"size": b.size, "state": b.state.replace("pending", "awaiting"), **used})
            state.append(
                {"device": a.device, "address": s.address, "total_size": s.size, "stream": 0, "blocks": blocks}
            )
    return {"device_traces": traces, "segments": state, "categories": ["parameter", "activation", "gradient"]}


def segment_list() -> Snapshot:
    """Before _snapshot() returned a dictionary: the bare list of segments."""
    return old_segments(run())


VERSIONS: dict[str, Callable[[], Snapshot]] = {
    "v1.13": v1_13,
    "v2.0": v2_0,
    "v2.1": v2_1,
    "v2.2": v2_2,
    "v2.5": v2_5,
    "v2.8": v2_8,
    "v2.10": v2_10,
    "v2.11": v2_11,
    "v2.12": v2_12,
    "main": main,
    "profile": profile,
    "list": segment_list,
}

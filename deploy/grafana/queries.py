"""PromQL that several dashboards use: selections, joins, variables."""

from __future__ import annotations

from panels import Query, variable

NODE = 'instance=~"$instance"'
GPU = NODE + ', uuid=~"$uuid"'
INSTANCE = variable("instance", "Node", "label_values(vram_build_info, instance)")
UUID = variable("uuid", "GPU", f"label_values(vram_gpu_info{{{NODE}}}, uuid)")
RANGE = "[$__rate_interval]"
# Seconds until the memory is full at the growth rate of the last half hour; at most a week.
TIME_TO_FULL = (
    "clamp_max(vram_gpu_memory_free_bytes{%s} / clamp_min(-deriv(vram_gpu_memory_free_bytes{%s}[30m]), 1), 604800)"
)
OPT_IN = " Needs vram serve --process-series N."


def of_gpu(metric: str) -> str:
    return f"{metric}{{{GPU}}}"


def traffic(name: str) -> str:
    """Bytes per second, from a counter or, for drivers without one, as reported."""
    return f"rate({of_gpu(name + '_total')}{RANGE}) or {of_gpu(name + '_per_second')}"


def with_name(expr: str) -> str:
    """Adds the number and the name of the GPU as labels."""
    return f"{expr} * on (instance, uuid) group_left (index, name) vram_gpu_info"


def with_process(expr: str) -> str:
    """Adds the description of the process as labels."""
    facts = "user, command, container, namespace, pod, slurm_job"
    return f"{expr} * on (instance, pid) group_left ({facts}) vram_process_info"


def of_process(metric: str) -> Query:
    return with_process(of_gpu(metric)), "{{pid}} {{command}} {{user}}"

"""The dashboards of the fleet and of one node."""

from __future__ import annotations

from panels import GREEN, ORANGE, RED, Json, dashboard, lines, stat, table, timeline
from queries import INSTANCE, NODE, RANGE, TIME_TO_FULL, with_name


def fleet_sums(used: str, total: str) -> list[Json]:
    return [
        stat("GPUs", "GPUs that the exporters found, in any state.", "none", f"sum(vram_exporter_devices{{{NODE}}})"),
        stat(
            "GPUs with errors",
            "GPUs for which the driver returns an error.",
            "none",
            f"count(vram_gpu_up{{{NODE}}} == 0) or vector(0)",
            (None, GREEN),
            (1, RED),
        ),
        stat(
            "Memory used", "Share of all GPUs' memory that programs use.", "percentunit", f"sum({used}) / sum({total})"
        ),
        stat(
            "Cached by allocators",
            "Reserved but not allocated: the most that processes with a status page could give back.",
            "bytes",
            f"sum(vram_gpu_allocator_cached_bytes{{{NODE}}}) or vector(0)",
        ),
        stat(
            "Unattributed",
            "Memory used by no process that the drivers list.",
            "bytes",
            f"sum(clamp_min(vram_gpu_memory_unattributed_bytes{{{NODE}}}, 0))",
        ),
        stat(
            "Alerts",
            "Firing alerts of vram-alerts.yml.",
            "none",
            'count(ALERTS{alertname=~"Vram.*", alertstate="firing"}) or vector(0)',
            (None, GREEN),
            (1, ORANGE),
        ),
    ]


def fleet() -> Json:
    used, total = f"vram_gpu_memory_used_bytes{{{NODE}}}", f"vram_gpu_memory_total_bytes{{{NODE}}}"
    panels = [
        *fleet_sums(used, total),
        lines(
            "Memory used, by node",
            "Share of a node's GPU memory that programs use.",
            "percentunit",
            (f"sum by (instance) ({used}) / sum by (instance) ({total})", "{{instance}}"),
            maximum=1,
        ),
        lines(
            "Utilization, by node",
            "Mean over a node's GPUs of the share of time in which any kernel ran.",
            "percentunit",
            (f"avg by (instance) (vram_gpu_utilization_ratio{{{NODE}}})", "{{instance}}"),
            maximum=1,
        ),
        lines(
            "Memory held idle",
            "Memory used on GPUs on which no kernel ran for an hour.",
            "bytes",
            (
                f"sum by (instance) ({used} * on (instance, uuid) (max_over_time(vram_gpu_utilization_ratio[1h]) == bool 0))",
                "{{instance}}",
            ),
        ),
        lines(
            "Power, by node",
            "Power drawn by a node's GPUs.",
            "watt",
            (f"sum by (instance) (vram_gpu_power_watts{{{NODE}}})", "{{instance}}"),
        ),
        table(
            "Fullest GPUs",
            "The 50 GPUs with the most used memory, and their free memory.",
            "bytes",
            (f"topk(50, {with_name(used)})", "used"),
            (with_name(f"vram_gpu_memory_free_bytes{{{NODE}}}"), "free"),
        ),
        table(
            "Xids in the last day",
            "Faults that drivers reported. Programs usually cause 13, 31, 43 and 45; 48, 63, 64, 74, 79, 94 and 95 are hardware faults.",
            "dateTimeFromNow",
            (f"vram_gpu_xid_last_timestamp_seconds{{{NODE}}} > time() - 86400", "last"),
            width=12,
        ),
        table(
            "Errors of GPUs",
            "The driver's messages.",
            "none",
            (f"vram_gpu_error_info{{{NODE}}}", "has error"),
            width=12,
        ),
    ]
    return dashboard(
        "vram-fleet", "vram / fleet", "The GPUs of all nodes, and which need attention.", [INSTANCE], panels
    )


def node_health() -> list[Json]:
    return [
        timeline(
            "Throttling", "By reason; red: throttled.", (f"vram_gpu_throttle_active{{{NODE}}}", "{{uuid}} {{reason}}")
        ),
        timeline(
            "Health",
            "Red: a bad memory row waits for a reset, a row could not be replaced, or the driver requests an action.",
            (f"vram_gpu_row_remap_pending{{{NODE}}}", "{{uuid}} row pending"),
            (f"vram_gpu_row_remap_failed{{{NODE}}}", "{{uuid}} row failed"),
            (f'vram_gpu_recovery_action{{{NODE}, action!="none"}}', "{{uuid}} {{action}}"),
        ),
        lines(
            "The exporter's samples",
            "Duration of a sample, and time between samples.",
            "s",
            (f"vram_exporter_sample_duration_seconds{{{NODE}}}", "{{instance}} duration"),
            (f"vram_exporter_sample_period_seconds{{{NODE}}}", "{{instance}} period"),
        ),
        lines(
            "Failed sources",
            "Samples per second in which a source could not be read.",
            "ops",
            (f"rate(vram_exporter_source_failures_total{{{NODE}}}{RANGE})", "{{instance}} {{source}}"),
        ),
    ]


def node() -> Json:
    def each(metric: str) -> tuple[str, str]:
        return with_name(f"{metric}{{{NODE}}}"), "{{instance}} GPU {{index}}"

    panels = [
        lines(
            "Memory used",
            "Memory that programs use, including their contexts, without what the driver reserves.",
            "bytes",
            each("vram_gpu_memory_used_bytes"),
        ),
        lines("Memory free", "Memory that can still be allocated.", "bytes", each("vram_gpu_memory_free_bytes")),
        lines(
            "Time to full",
            "At the growth rate of the last 30 minutes; at most a week is shown.",
            "s",
            (with_name(TIME_TO_FULL % (NODE, NODE)), "{{instance}} GPU {{index}}"),
        ),
        lines(
            "Unattributed",
            "Memory used by no process that the driver lists; below 0 if processes share memory.",
            "bytes",
            each("vram_gpu_memory_unattributed_bytes"),
            minimum=None,
        ),
        lines(
            "Utilization",
            "Share of time in which any kernel ran.",
            "percentunit",
            each("vram_gpu_utilization_ratio"),
            maximum=1,
        ),
        lines(
            "Memory busy",
            "Share of time in which memory was accessed.",
            "percentunit",
            each("vram_gpu_memory_busy_ratio"),
            maximum=1,
        ),
        lines(
            "Memory bandwidth",
            "Share of the peak bandwidth (NVIDIA, Hopper and newer).",
            "percentunit",
            each("vram_gpu_memory_bandwidth_ratio"),
            maximum=1,
        ),
        lines("Temperature", "Temperature of the chip.", "celsius", each("vram_gpu_temperature_celsius")),
        lines("Power", "Power drawn.", "watt", each("vram_gpu_power_watts")),
        *node_health(),
    ]
    return dashboard("vram-node", "vram / node", "The GPUs of one node next to each other.", [INSTANCE], panels)

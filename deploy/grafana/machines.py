"""The dashboards of the fleet and of one node."""

from __future__ import annotations

from panels import GREEN, ORANGE, RED, Json, dashboard, lines, stat, table, timeline
from questions import INSTANCE, NODE, RANGE, TIME_TO_FULL, with_name


def fleet_sums(used: str, total: str) -> list[Json]:
    return [
        stat(
            "GPUs", "That the exporters found, whatever their state.", "none", f"sum(vram_exporter_devices{{{NODE}}})"
        ),
        stat(
            "GPUs in trouble",
            "The driver gives an error for them.",
            "none",
            f"count(vram_gpu_up{{{NODE}}} == 0) or vector(0)",
            (None, GREEN),
            (1, RED),
        ),
        stat("Memory used", "By programs, of all GPUs' memory.", "percentunit", f"sum({used}) / sum({total})"),
        stat(
            "Cached by allocators",
            "In no tensor: what a cleaning could give back at most, of processes that say so.",
            "bytes",
            f"sum(vram_gpu_allocator_cached_bytes{{{NODE}}}) or vector(0)",
        ),
        stat(
            "Unattributed",
            "Used by nobody whom the drivers name.",
            "bytes",
            f"sum(clamp_min(vram_gpu_memory_unattributed_bytes{{{NODE}}}, 0))",
        ),
        stat(
            "Alerts",
            "Firing now, of vram-alerts.yml.",
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
            "Share of the memory of a node's GPUs that programs use.",
            "percentunit",
            (f"sum by (instance) ({used}) / sum by (instance) ({total})", "{{instance}}"),
            most=1,
        ),
        lines(
            "Utilization, by node",
            "Mean over a node's GPUs of the share of time in which any kernel ran.",
            "percentunit",
            (f"avg by (instance) (vram_gpu_utilization_ratio{{{NODE}}})", "{{instance}}"),
            most=1,
        ),
        lines(
            "Held and idle",
            "Memory that is used on GPUs where nothing has run for an hour.",
            "bytes",
            (
                f"sum by (instance) ({used} * on (instance, uuid) (max_over_time(vram_gpu_utilization_ratio[1h]) == bool 0))",
                "{{instance}}",
            ),
        ),
        lines(
            "Power, by node",
            "Drawn by a node's GPUs.",
            "watt",
            (f"sum by (instance) (vram_gpu_power_watts{{{NODE}}})", "{{instance}}"),
        ),
        table(
            "GPUs, the fullest first",
            "At most 50, with what is free on them.",
            "bytes",
            (f"topk(50, {with_name(used)})", "used"),
            (with_name(f"vram_gpu_memory_free_bytes{{{NODE}}}"), "free"),
        ),
        table(
            "Xids in the last day",
            "Faults that drivers told of. 13, 31, 43 and 45 are mostly programs' own; 48, 63, 64, 74, 79, 94, 95 are the hardware's.",
            "dateTimeFromNow",
            (f"vram_gpu_xid_last_timestamp_seconds{{{NODE}}} > time() - 86400", "last"),
            width=12,
        ),
        table(
            "GPUs in trouble",
            "With the driver's words.",
            "none",
            (f"vram_gpu_trouble_info{{{NODE}}}", "in trouble"),
            width=12,
        ),
    ]
    return dashboard("vram-fleet", "vram / fleet", "All nodes' GPUs and who needs attention.", [INSTANCE], panels)


def node_health() -> list[Json]:
    return [
        timeline(
            "Clocks held down", "By reason; red: now.", (f"vram_gpu_throttle_active{{{NODE}}}", "{{uuid}} {{reason}}")
        ),
        timeline(
            "Health",
            "Red: a row of the memory waits for a reset, could not be replaced, or the driver asks for something.",
            (f"vram_gpu_row_remap_pending{{{NODE}}}", "{{uuid}} row pending"),
            (f"vram_gpu_row_remap_failed{{{NODE}}}", "{{uuid}} row failed"),
            (f'vram_gpu_recovery_action{{{NODE}, action!="none"}}', "{{uuid}} {{action}}"),
        ),
        lines(
            "The exporter's looks",
            "How long one takes and how far they are apart.",
            "s",
            (f"vram_exporter_look_duration_seconds{{{NODE}}}", "{{instance}} takes"),
            (f"vram_exporter_look_period_seconds{{{NODE}}}", "{{instance}} period"),
        ),
        lines(
            "Sources that failed",
            "Looks a second at which a source could not be asked.",
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
            "By programs, with their contexts; not what the driver reserves.",
            "bytes",
            each("vram_gpu_memory_used_bytes"),
        ),
        lines("Memory free", "What can still be allocated: the headroom.", "bytes", each("vram_gpu_memory_free_bytes")),
        lines(
            "Time to full",
            "If memory grows on as in the last 30 minutes; a week stands for never.",
            "s",
            (with_name(TIME_TO_FULL % (NODE, NODE)), "{{instance}} GPU {{index}}"),
        ),
        lines(
            "Unattributed",
            "Used by nobody whom the driver names; below 0 where processes share memory.",
            "bytes",
            each("vram_gpu_memory_unattributed_bytes"),
            least=None,
        ),
        lines(
            "Utilization",
            "Share of time in which any kernel ran.",
            "percentunit",
            each("vram_gpu_utilization_ratio"),
            most=1,
        ),
        lines(
            "Memory busy",
            "Share of time in which memory was read or written.",
            "percentunit",
            each("vram_gpu_memory_busy_ratio"),
            most=1,
        ),
        lines(
            "Memory bandwidth",
            "Share of the bytes that could have been read and written. NVIDIA's, Hopper and newer.",
            "percentunit",
            each("vram_gpu_memory_bandwidth_ratio"),
            most=1,
        ),
        lines("Temperature", "Of the chip.", "celsius", each("vram_gpu_temperature_celsius")),
        lines("Power", "Drawn.", "watt", each("vram_gpu_power_watts")),
        *node_health(),
    ]
    return dashboard("vram-node", "vram / node", "The GPUs of one node side by side.", [INSTANCE], panels)

"""The dashboards of one GPU, and of processes and pods."""

from __future__ import annotations

from panels import BLUE, GREEN, GREY, ORANGE, RED, Json, coloured, dashboard, lines, stat, table, timeline
from queries import GPU, INSTANCE, NODE, OPT_IN, RANGE, TIME_TO_FULL, UUID, of_gpu, of_process, traffic, with_process


def gpu_figures() -> list[Json]:
    return [
        stat(
            "Free memory",
            "Memory that can still be allocated.",
            "bytes",
            f"sum({of_gpu('vram_gpu_memory_free_bytes')})",
        ),
        stat(
            "Time to full",
            "At the growth rate of the last 30 minutes; at most a week is shown.",
            "s",
            f"min({TIME_TO_FULL % (GPU, GPU)})",
            (None, RED),
            (3600, ORANGE),
            (86400, GREEN),
        ),
        stat(
            "Hidden processes",
            "Memory of processes that the driver lists and the kernel does not know.",
            "bytes",
            f"sum({of_gpu('vram_gpu_hidden_process_memory_bytes')})",
            (None, GREEN),
            (1 << 28, ORANGE),
        ),
        stat("Processes", "Number of processes that the driver lists.", "none", f"sum({of_gpu('vram_gpu_processes')})"),
        stat(
            "Unaccounted",
            "Total minus used, reserved and free memory: 0 if the driver's figures add up.",
            "bytes",
            f"sum(abs({of_gpu('vram_gpu_memory_unaccounted_bytes')}))",
            (None, GREEN),
            (1 << 26, ORANGE),
        ),
        stat(
            "BAR1 used",
            "Used part of the memory that the host can address.",
            "bytes",
            f"sum({of_gpu('vram_gpu_bar1_used_bytes')})",
        ),
    ]


def gpu_memory() -> list[Json]:
    used, loose = of_gpu("vram_gpu_memory_used_bytes"), of_gpu("vram_gpu_memory_unattributed_bytes")
    tensors, cached = of_gpu("vram_gpu_allocator_allocated_bytes"), of_gpu("vram_gpu_allocator_cached_bytes")
    return [
        coloured(
            lines(
                "Memory of the device",
                "The sum is the total. Unattributed: used by no process that the driver lists. Reserved: by the driver for itself.",
                "bytes",
                (f"sum({used}) - sum(clamp_min({loose}, 0))", "processes"),
                (f"sum(clamp_min({loose}, 0))", "unattributed"),
                (f"sum({of_gpu('vram_gpu_memory_reserved_bytes')})", "reserved by the driver"),
                (f"sum({of_gpu('vram_gpu_memory_free_bytes')})", "free"),
                stacked=True,
            ),
            processes=BLUE,
            unattributed=ORANGE,
            reserved_by_the_driver=GREY,
            free="transparent",
        ),
        coloured(
            lines(
                "Use of the memory",
                "Memory in tensors, cached by allocators, and other memory: contexts, libraries, and processes without a status page.",
                "bytes",
                (f"sum({tensors})", "allocated"),
                (f"sum({cached})", "cached"),
                (f"clamp_min(sum({used}) - sum({tensors}) - sum({cached}), 0)", "other"),
                stacked=True,
            ),
            allocated=BLUE,
            cached=GREEN,
            other=GREY,
        ),
        *gpu_figures(),
    ]


def gpu_sensors() -> list[Json]:
    return [
        lines(
            "Power",
            "Power drawn, and its limit.",
            "watt",
            (of_gpu("vram_gpu_power_watts"), "{{uuid}}"),
            (of_gpu("vram_gpu_power_limit_watts"), "{{uuid}} limit"),
        ),
        lines(
            "Temperature",
            "Temperature of the chip and of the memory.",
            "celsius",
            (of_gpu("vram_gpu_temperature_celsius"), "{{uuid}} chip"),
            (of_gpu("vram_gpu_memory_temperature_celsius"), "{{uuid}} memory"),
        ),
        lines(
            "Clocks",
            "Clock rates of the cores and of the memory.",
            "hertz",
            (of_gpu("vram_gpu_core_clock_hertz"), "{{uuid}} cores"),
            (of_gpu("vram_gpu_memory_clock_hertz"), "{{uuid}} memory"),
        ),
    ]


def gpu() -> Json:
    panels = [
        *gpu_memory(),
        lines(
            "MIG instances",
            "Memory used in each GPU instance; its compute instances share it.",
            "bytes",
            (of_gpu("vram_gpu_mig_memory_used_bytes"), "{{uuid}} instance {{gi}}"),
            (of_gpu("vram_gpu_mig_memory_total_bytes"), "{{uuid}} instance {{gi}} total"),
        ),
        lines(
            "Busy",
            "Share of time in which any kernel ran, share of time in which memory was accessed, and share of the peak bandwidth.",
            "percentunit",
            (of_gpu("vram_gpu_utilization_ratio"), "{{uuid}} kernels"),
            (of_gpu("vram_gpu_memory_busy_ratio"), "{{uuid}} memory"),
            (of_gpu("vram_gpu_memory_bandwidth_ratio"), "{{uuid}} bandwidth"),
            maximum=1,
        ),
        *gpu_sensors(),
        timeline(
            "Throttling", "By reason; red: throttled.", (of_gpu("vram_gpu_throttle_active"), "{{uuid}} {{reason}}")
        ),
        lines(
            "PCIe and NVLink",
            "Bytes per second.",
            "Bps",
            (traffic("vram_gpu_pcie_sent_bytes"), "{{uuid}} PCIe sent"),
            (traffic("vram_gpu_pcie_received_bytes"), "{{uuid}} PCIe received"),
            (traffic("vram_gpu_nvlink_sent_bytes"), "{{uuid}} NVLink sent"),
            (traffic("vram_gpu_nvlink_received_bytes"), "{{uuid}} NVLink received"),
        ),
        lines(
            "Memory errors and replaced rows",
            "Errors since the driver was loaded; rows in the GPU's lifetime.",
            "none",
            (of_gpu("vram_gpu_ecc_corrected_total"), "{{uuid}} corrected"),
            (of_gpu("vram_gpu_ecc_uncorrected_total"), "{{uuid}} uncorrected"),
            (of_gpu("vram_gpu_remapped_rows_total"), "{{uuid}} rows, {{cause}}"),
        ),
        table("Identity", "As the driver reports it.", "none", (of_gpu("vram_gpu_info"), "present"), width=12),
        table("Xids", "Since the exporter started.", "none", (of_gpu("vram_gpu_xid_errors_total"), "times"), width=12),
    ]
    return dashboard("vram-gpu", "vram / GPU", "One GPU: its memory, load and health.", [INSTANCE, UUID], panels)


def process_pace() -> list[Json]:
    return [
        lines(
            "Step",
            "Duration of the last training step." + OPT_IN,
            "s",
            (with_process(f"vram_process_step_seconds{{{NODE}}}"), "{{pid}} {{command}} {{user}}"),
        ),
        lines(
            "Steps per second",
            "0: no progress." + OPT_IN,
            "ops",
            (with_process(f"rate(vram_process_steps_total{{{NODE}}}{RANGE})"), "{{pid}} {{command}} {{user}}"),
        ),
        lines(
            "Busy",
            "Share of time in which kernels of the process ran." + OPT_IN,
            "percentunit",
            of_process("vram_process_utilization_ratio"),
            maximum=1,
        ),
    ]


def processes() -> Json:
    pods = f"sum by (namespace, pod, pod_uid) ({of_gpu('vram_pod_memory_used_bytes')})"
    panels = [
        lines(
            "Memory by process",
            "The driver's figure: all memory of a process. Processes without their own series are summed as others."
            + OPT_IN,
            "bytes",
            of_process("vram_process_memory_used_bytes"),
            (f"sum({of_gpu('vram_gpu_other_process_memory_bytes')})", "others"),
            (f"sum(clamp_min({of_gpu('vram_gpu_memory_unattributed_bytes')}, 0))", "unattributed"),
            stacked=True,
        ),
        lines(
            "Memory by pod",
            "Sum over the pod's processes, by control group; pods that share a GPU each have their own figure.",
            "bytes",
            (pods, "{{namespace}}/{{pod}}"),
            stacked=True,
        ),
        lines(
            "Allocated",
            "Memory in tensors, as the process reports it." + OPT_IN,
            "bytes",
            of_process("vram_process_allocated_bytes"),
        ),
        lines(
            "Reserved by its allocator",
            "Memory that the process's allocator took from the driver." + OPT_IN,
            "bytes",
            of_process("vram_process_reserved_bytes"),
        ),
        lines(
            "Cached",
            "Reserved but not allocated: memory that the process could give back." + OPT_IN,
            "bytes",
            of_process("vram_process_cached_bytes"),
        ),
        lines("Peak allocated", "Maximum so far." + OPT_IN, "bytes", of_process("vram_process_allocated_peak_bytes")),
        *process_pace(),
        table("Pods", "Memory used on all GPUs.", "bytes", (pods, "used"), width=12),
        table(
            "Processes",
            "Ordered by memory, largest first." + OPT_IN,
            "bytes",
            (f"sort_desc({with_process(of_gpu('vram_process_memory_used_bytes'))})", "used"),
        ),
    ]
    return dashboard(
        "vram-processes", "vram / processes and pods", "Memory by process and pod.", [INSTANCE, UUID], panels
    )

"""The dashboards of one GPU, and of processes and pods."""

from __future__ import annotations

from panels import BLUE, GREEN, GREY, ORANGE, RED, Json, coloured, dashboard, lines, stat, table, timeline
from questions import GPU, INSTANCE, NODE, OPT_IN, RANGE, TIME_TO_FULL, UUID, of_gpu, of_process, traffic, with_process


def gpu_figures() -> list[Json]:
    return [
        stat("Headroom", "Free now.", "bytes", f"sum({of_gpu('vram_gpu_memory_free_bytes')})"),
        stat(
            "Time to full",
            "If memory grows on as in the last 30 minutes; a week stands for never.",
            "s",
            f"min({TIME_TO_FULL % (GPU, GPU)})",
            (None, RED),
            (3600, ORANGE),
            (86400, GREEN),
        ),
        stat(
            "Of processes that are not there",
            "Memory of processes that the driver names and the kernel does not know.",
            "bytes",
            f"sum({of_gpu('vram_gpu_hidden_process_memory_bytes')})",
            (None, GREEN),
            (1 << 28, ORANGE),
        ),
        stat("Processes", "That the driver names.", "none", f"sum({of_gpu('vram_gpu_processes')})"),
        stat(
            "Does not add up",
            "Total less used, reserved and free.",
            "bytes",
            f"sum(abs({of_gpu('vram_gpu_memory_unaccounted_bytes')}))",
            (None, GREEN),
            (1 << 26, ORANGE),
        ),
        stat("BAR1 used", "Of what the host can address.", "bytes", f"sum({of_gpu('vram_gpu_bar1_used_bytes')})"),
    ]


def gpu_memory() -> list[Json]:
    used, loose = of_gpu("vram_gpu_memory_used_bytes"), of_gpu("vram_gpu_memory_unattributed_bytes")
    tensors, cached = of_gpu("vram_gpu_allocator_allocated_bytes"), of_gpu("vram_gpu_allocator_cached_bytes")
    return [
        coloured(
            lines(
                "Memory of the device",
                "Adds up to the total. Unattributed: used by nobody whom the driver names. Reserved: the driver's own.",
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
                "What processes make of it",
                "Tensors, what allocators cache, and the rest: contexts, libraries, and processes that say nothing.",
                "bytes",
                (f"sum({tensors})", "in tensors"),
                (f"sum({cached})", "cached"),
                (f"clamp_min(sum({used}) - sum({tensors}) - sum({cached}), 0)", "the rest"),
                stacked=True,
            ),
            in_tensors=BLUE,
            cached=GREEN,
            the_rest=GREY,
        ),
        *gpu_figures(),
    ]


def gpu_sensors() -> list[Json]:
    return [
        lines(
            "Power",
            "Drawn, and what it may draw.",
            "watt",
            (of_gpu("vram_gpu_power_watts"), "{{uuid}}"),
            (of_gpu("vram_gpu_power_limit_watts"), "{{uuid}} limit"),
        ),
        lines(
            "Temperature",
            "Of the chip and of the memory.",
            "celsius",
            (of_gpu("vram_gpu_temperature_celsius"), "{{uuid}} chip"),
            (of_gpu("vram_gpu_memory_temperature_celsius"), "{{uuid}} memory"),
        ),
        lines(
            "Clocks",
            "Of the cores and of the memory.",
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
            "Share of time in which any kernel ran and in which memory was read or written, and of the bytes that could have been.",
            "percentunit",
            (of_gpu("vram_gpu_utilization_ratio"), "{{uuid}} kernels"),
            (of_gpu("vram_gpu_memory_busy_ratio"), "{{uuid}} memory"),
            (of_gpu("vram_gpu_memory_bandwidth_ratio"), "{{uuid}} bandwidth"),
            most=1,
        ),
        *gpu_sensors(),
        timeline(
            "Clocks held down", "By reason; red: now.", (of_gpu("vram_gpu_throttle_active"), "{{uuid}} {{reason}}")
        ),
        lines(
            "PCIe and NVLink",
            "Bytes a second.",
            "Bps",
            (traffic("vram_gpu_pcie_sent_bytes"), "{{uuid}} PCIe sent"),
            (traffic("vram_gpu_pcie_received_bytes"), "{{uuid}} PCIe received"),
            (traffic("vram_gpu_nvlink_sent_bytes"), "{{uuid}} NVLink sent"),
            (traffic("vram_gpu_nvlink_received_bytes"), "{{uuid}} NVLink received"),
        ),
        lines(
            "Memory errors and replaced rows",
            "Since the driver was loaded; rows in the GPU's life.",
            "none",
            (of_gpu("vram_gpu_ecc_corrected_total"), "{{uuid}} corrected"),
            (of_gpu("vram_gpu_ecc_uncorrected_total"), "{{uuid}} uncorrected"),
            (of_gpu("vram_gpu_remapped_rows_total"), "{{uuid}} rows, {{cause}}"),
        ),
        table("What it is", "As the driver says.", "none", (of_gpu("vram_gpu_info"), "is there"), width=12),
        table("Xids", "Since the exporter watches.", "none", (of_gpu("vram_gpu_xid_errors_total"), "times"), width=12),
    ]
    return dashboard(
        "vram-gpu", "vram / GPU", "One GPU: where its memory is, and how it is doing.", [INSTANCE, UUID], panels
    )


def process_pace() -> list[Json]:
    return [
        lines(
            "Step",
            "How long the last training step took." + OPT_IN,
            "s",
            (with_process(f"vram_process_step_seconds{{{NODE}}}"), "{{pid}} {{command}} {{user}}"),
        ),
        lines(
            "Steps a second",
            "0: it stands still." + OPT_IN,
            "ops",
            (with_process(f"rate(vram_process_steps_total{{{NODE}}}{RANGE})"), "{{pid}} {{command}} {{user}}"),
        ),
        lines(
            "Busy",
            "Share of time in which its kernels ran." + OPT_IN,
            "percentunit",
            of_process("vram_process_utilization_ratio"),
            most=1,
        ),
    ]


def processes() -> Json:
    pods = f"sum by (namespace, pod, pod_uid) ({of_gpu('vram_pod_memory_used_bytes')})"
    panels = [
        lines(
            "Memory by process",
            "The driver's figure: everything that a process has there. The last ones together are others." + OPT_IN,
            "bytes",
            of_process("vram_process_memory_used_bytes"),
            (f"sum({of_gpu('vram_gpu_other_process_memory_bytes')})", "others"),
            (f"sum(clamp_min({of_gpu('vram_gpu_memory_unattributed_bytes')}, 0))", "unattributed"),
            stacked=True,
        ),
        lines(
            "Memory by pod",
            "Of the pod's processes, by their control groups: where pods share a GPU each has its own.",
            "bytes",
            (pods, "{{namespace}}/{{pod}}"),
            stacked=True,
        ),
        lines("In tensors", "As the process says." + OPT_IN, "bytes", of_process("vram_process_allocated_bytes")),
        lines(
            "Reserved by its allocator",
            "Taken from the driver." + OPT_IN,
            "bytes",
            of_process("vram_process_reserved_bytes"),
        ),
        lines(
            "Cached",
            "Reserved and in no tensor: what a cleaning could give back." + OPT_IN,
            "bytes",
            of_process("vram_process_cached_bytes"),
        ),
        lines("Peak in tensors", "The most so far." + OPT_IN, "bytes", of_process("vram_process_allocated_peak_bytes")),
        *process_pace(),
        table("Pods", "Memory used on all GPUs.", "bytes", (pods, "used"), width=12),
        table(
            "Processes",
            "The largest first." + OPT_IN,
            "bytes",
            (f"sort_desc({with_process(of_gpu('vram_process_memory_used_bytes'))})", "used"),
        ),
    ]
    return dashboard(
        "vram-processes", "vram / processes and pods", "Who has the memory, and what for.", [INSTANCE, UUID], panels
    )

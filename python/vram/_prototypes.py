"""The functions, structs and constants of include/vram/*.h. Written by tools/prototypes.py; do not edit."""

# size: every function and struct of the headers

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

OK = 0
OUT_OF_MEMORY = 1
INVALID_VALUE = 2
NOT_SUPPORTED = 3
NO_DRIVER = 4
DRIVER_FAILED = 5
FORKED = 6
FILE_FAILED = 7
BACKING_AUTO = 0
BACKING_VIRTUAL = 1
BACKING_SEGMENTS = 2
STACKS_NONE = 0
STACKS_PYTHON = 1
STACKS_NATIVE = 2
MARK_OTHER = 0
MARK_COLLECTIVE = 1
MARK_COPY_TO_DEVICE = 2
MARK_COPY_TO_HOST = 3
EVENT_ALLOC = 0
EVENT_FOUND = 1
EVENT_FREE = 2
EVENT_FREE_REQUESTED = 3
EVENT_FREE_COMPLETED = 4
EVENT_SEGMENT_ALLOC = 5
EVENT_SEGMENT_FREE = 6
EVENT_SEGMENT_MAP = 7
EVENT_SEGMENT_UNMAP = 8
EVENT_SEGMENT_FOUND = 9
EVENT_OOM = 10
EVENT_SNAPSHOT = 11
EVENT_HELD_SEGMENT = 12
EVENT_HELD_BLOCK = 13
EVENT_HELD_PENDING = 14
EVENT_HELD_FREE = 15
REPORT_OK = 0
REPORT_OUT_OF_MEMORY = 1
REPORT_INVALID_VALUE = 2
REPORT_NO_FILE = 3
REPORT_FILE_FAILED = 4
REPORT_NO_RECORDING = 5
REPORT_TOO_LARGE = 6
REPORT_FAILED = 7
UNKNOWN = 18446744073709551615
PROCESS_COMPUTE = 1
PROCESS_GRAPHICS = 2
NO_INSTANCE = 4294967295
BOARD_DEVICES = 16
SEGMENT_SMALL = 1
SEGMENT_EXPANDABLE = 2
SEGMENT_PRIVATE = 4
BLOCK_FREE = 0
BLOCK_ALLOCATED = 1
BLOCK_HELD = 2
VENDOR_NVIDIA = 0
VENDOR_AMD = 1
VENDOR_INTEL = 2
OWNER_ALIVE = 0
OWNER_DEAD = 1
OWNER_ELSEWHERE = 2


class ArrowSchema(Structure):
    """Struct ``ArrowSchema``."""

    _fields_ = [
        ("format", c_char_p),
        ("name", c_char_p),
        ("metadata", c_char_p),
        ("flags", c_int64),
        ("n_children", c_int64),
        ("children", POINTER(c_void_p)),
        ("dictionary", c_void_p),
        ("release", CFUNCTYPE(None, c_void_p)),
        ("private_data", c_void_p),
    ]


class ArrowArray(Structure):
    """Struct ``ArrowArray``."""

    _fields_ = [
        ("length", c_int64),
        ("null_count", c_int64),
        ("offset", c_int64),
        ("n_buffers", c_int64),
        ("n_children", c_int64),
        ("buffers", POINTER(c_void_p)),
        ("children", POINTER(c_void_p)),
        ("dictionary", c_void_p),
        ("release", CFUNCTYPE(None, c_void_p)),
        ("private_data", c_void_p),
    ]


class ArrowArrayStream(Structure):
    """Struct ``ArrowArrayStream``."""

    _fields_ = [
        ("get_schema", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("get_next", CFUNCTYPE(c_int, c_void_p, c_void_p)),
        ("get_last_error", CFUNCTYPE(c_char_p, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p)),
        ("private_data", c_void_p),
    ]


class PoolOptions(Structure):
    """Struct ``vram_pool_options``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("backing", c_int),
        ("reserved", c_uint32),
        ("limit_bytes", c_uint64),
        ("handle_bytes", c_uint64),
    ]


class BlockInfo(Structure):
    """Struct ``vram_block_info``."""

    _fields_ = [
        ("address", c_void_p),
        ("size_bytes", c_uint64),
        ("requested_bytes", c_uint64),
        ("stream", c_void_p),
    ]


class Stat(Structure):
    """Struct ``vram_stat``."""

    _fields_ = [
        ("current", c_uint64),
        ("peak", c_uint64),
        ("allocated", c_uint64),
        ("freed", c_uint64),
    ]


class Stats(Structure):
    """Struct ``vram_stats``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("allocation", Stat),
        ("allocated_bytes", Stat),
        ("active_bytes", Stat),
        ("requested_bytes", Stat),
        ("reserved_bytes", Stat),
        ("num_alloc_retries", c_uint64),
        ("num_ooms", c_uint64),
        ("num_device_alloc", c_uint64),
        ("num_device_free", c_uint64),
        ("limit_bytes", c_uint64),
        ("stitches", c_uint64),
        ("stitch_reuses", c_uint64),
        ("stream_waits", c_uint64),
        ("slow_requests", c_uint64),
        ("driver_calls", c_uint64),
        ("driver_ns", c_uint64),
    ]


class Part(Structure):
    """Struct ``vram_part``."""

    _fields_ = [
        ("address", c_uint64),
        ("size_bytes", c_uint64),
        ("requested_bytes", c_uint64),
        ("stream", c_void_p),
        ("is_live", c_int),
        ("is_held", c_int),
    ]


class RecordOptions(Structure):
    """Struct ``vram_record_options``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("stacks", c_int),
        ("is_lazy", c_uint32),
        ("is_named_by_rank", c_uint32),
        ("replaces_any", c_uint32),
        ("limit_bytes", c_uint64),
    ]


class RecordCounts(Structure):
    """Struct ``vram_record_counts``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("events", c_uint64),
        ("lost", c_uint64),
        ("file_bytes", c_uint64),
    ]


class Mark(Structure):
    """Struct ``vram_mark``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("kind", c_int),
        ("device", c_int),
        ("size_bytes", c_uint64),
        ("duration_ns", c_uint64),
        ("name", c_char_p),
        ("group", c_char_p),
    ]


class Event(Structure):
    """Struct ``vram_event``."""

    _fields_ = [
        ("kind", c_int),
        ("device", c_int),
        ("address", c_uint64),
        ("size_bytes", c_uint64),
        ("stream", c_void_p),
        ("stack", c_uint32),
    ]


class TorchStream(Structure):
    """Struct ``vram_torch_stream``."""

    _fields_ = [
        ("device", c_uint16),
        ("number", c_int64),
    ]


class FlightOptions(Structure):
    """Struct ``vram_flight_options``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("stacks", c_int),
        ("max_files", c_uint32),
        ("steps", c_uint64),
        ("duration_ns", c_uint64),
        ("max_bytes", c_uint64),
        ("ignores_signals", c_uint32),
        ("on_signal", c_int),
        ("growth_bytes", c_uint64),
        ("unused_bytes", c_uint64),
    ]


class ReportOptions(Structure):
    """Struct ``vram_report_options``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("max_bytes", c_uint64),
    ]


class DeviceInfo(Structure):
    """Struct ``vram_device_info``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("total_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("busy_percent", c_uint64),
        ("memory_busy_percent", c_uint64),
        ("process_count", c_uint64),
        ("name", c_char * 96),
        ("uuid", c_char * 96),
        ("error", c_char * 96),
        ("pci_id", c_char * 32),
        ("vendor", c_int),
        ("is_asleep", c_uint32),
        ("host_total_bytes", c_uint64),
        ("host_used_bytes", c_uint64),
    ]


class ProcessInfo(Structure):
    """Struct ``vram_process_info``."""

    _fields_ = [
        ("pid", c_uint32),
        ("kinds", c_uint32),
        ("used_bytes", c_uint64),
        ("host_bytes", c_uint64),
        ("gpu_instance", c_uint32),
        ("compute_instance", c_uint32),
    ]


class BoardDevice(Structure):
    """Struct ``vram_board_device``."""

    _fields_ = [
        ("device", c_uint64),
        ("allocated_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("num_alloc_retries", c_uint64),
        ("num_ooms", c_uint64),
        ("num_device_alloc", c_uint64),
        ("num_device_free", c_uint64),
    ]


class BoardFigures(Structure):
    """Struct ``vram_board_figures``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("step", c_uint64),
        ("step_ns", c_uint64),
        ("scope", c_char_p),
        ("devices", POINTER(BoardDevice)),
        ("device_count", c_size_t),
        ("device_bytes", c_size_t),
    ]


class BoardTrimRequest(Structure):
    """Struct ``vram_board_trim_request``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("number", c_uint64),
        ("device", c_uint64),
        ("bytes", c_uint64),
    ]


class BoardSegment(Structure):
    """Struct ``vram_board_segment``."""

    _fields_ = [
        ("device", c_uint64),
        ("address", c_uint64),
        ("size_bytes", c_uint64),
        ("stream", c_uint64),
        ("kinds", c_uint32),
        ("block_count", c_uint32),
    ]


class BoardBlock(Structure):
    """Struct ``vram_board_block``."""

    _fields_ = [
        ("size_bytes", c_uint64),
        ("requested_bytes", c_uint64),
        ("state", c_uint64),
    ]


class BoardList(Structure):
    """Struct ``vram_board_list``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("segments", POINTER(BoardSegment)),
        ("segment_count", c_size_t),
        ("segment_bytes", c_size_t),
        ("blocks", POINTER(BoardBlock)),
        ("block_count", c_size_t),
        ("block_bytes", c_size_t),
    ]


class BoardPage(Structure):
    """Struct ``vram_board_page``."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("pid", c_uint32),
        ("owner", c_int),
        ("posted_ns", c_uint64),
        ("step", c_uint64),
        ("step_ns", c_uint64),
        ("device_count", c_uint64),
        ("devices", BoardDevice * 16),
        ("scope", c_char * 64),
        ("command", c_char * 216),
    ]


# The type of the result, and those of the parameters.
PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "vram_version": (c_char_p, []),
    "vram_status_text": (c_char_p, [c_int]),
    "vram_pool_open": (c_int, [c_int, POINTER(PoolOptions), POINTER(c_void_p)]),
    "vram_pool_close": (c_int, [c_void_p]),
    "vram_last_error": (c_char_p, []),
    "vram_alloc": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_void_p)]),
    "vram_free": (c_int, [c_void_p, c_void_p]),
    "vram_record_stream": (c_int, [c_void_p, c_void_p, c_void_p]),
    "vram_forget_stream": (c_int, [c_void_p, c_void_p]),
    "vram_find_block": (c_int, [c_void_p, c_void_p, POINTER(BlockInfo)]),
    "vram_owns": (c_int, [c_void_p]),
    "vram_trim": (c_size_t, [c_void_p, c_size_t]),
    "vram_limit": (c_int, [c_void_p, c_uint64]),
    "vram_enable_peer": (c_int, [c_void_p, c_int]),
    "vram_begin_capture": (c_int, [c_void_p]),
    "vram_end_capture": (c_int, [c_void_p]),
    "vram_add_reclaim_hook": (c_int, [CFUNCTYPE(c_int, c_void_p, c_int, c_size_t), c_void_p]),
    "vram_remove_reclaim_hook": (c_int, [CFUNCTYPE(c_int, c_void_p, c_int, c_size_t), c_void_p]),
    "vram_explain_oom": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "vram_get_stats": (c_int, [c_void_p, POINTER(Stats)]),
    "vram_reset_peaks": (c_int, [c_void_p]),
    "vram_reset_sums": (c_int, [c_void_p]),
    "vram_visit": (c_size_t, [c_void_p, CFUNCTYPE(None, c_void_p, POINTER(Part)), c_void_p]),
    "vram_validate": (c_int, [c_void_p, c_char_p, c_size_t]),
    "vram_record_start": (c_int, [c_char_p, POINTER(RecordOptions)]),
    "vram_record_start_as_told": (c_int, []),
    "vram_record_stop": (c_int, []),
    "vram_is_recording": (c_int, []),
    "vram_get_record_counts": (c_int, [POINTER(RecordCounts)]),
    "vram_record_path": (c_size_t, [c_char_p, c_size_t]),
    "vram_scope_begin": (None, [c_char_p]),
    "vram_scope_end": (None, []),
    "vram_step": (None, []),
    "vram_record_time": (None, [c_uint64]),
    "vram_name": (None, [c_int, c_void_p, c_size_t, c_char_p, c_char_p]),
    "vram_record_figure": (None, [c_int, c_char_p, c_uint64]),
    "vram_record_mark": (None, [POINTER(Mark)]),
    "vram_record_about": (None, [c_char_p, c_char_p]),
    "vram_record_setting": (None, [c_char_p, c_char_p]),
    "vram_record_event": (None, [POINTER(Event)]),
    "vram_record_claim": (None, []),
    "vram_record_is_claimed": (c_int, []),
    "vram_capture_stack": (c_uint32, []),
    "vram_try_capture_stack": (c_uint32, []),
    "vram_python_ends": (None, []),
    "vram_torch_default_stream": (TorchStream, [c_void_p, c_uint16]),
    "vram_torch_same_stream": (TorchStream, [c_void_p, TorchStream]),
    "vram_segments_open": (c_void_p, []),
    "vram_segments_place": (c_uint64, [c_void_p, c_uint64]),
    "vram_segments_remove": (None, [c_void_p, c_uint64]),
    "vram_segments_close": (None, [c_void_p]),
    "vram_flight_start": (c_int, [c_char_p, POINTER(FlightOptions)]),
    "vram_flight_stop": (c_int, []),
    "vram_flight_rest": (c_int, []),
    "vram_flight_is_on": (c_int, []),
    "vram_flight_dump": (c_int, [c_char_p, c_size_t]),
    "vram_flight_settle": (None, []),
    "vram_sampler_open": (c_int, [c_char_p, POINTER(c_void_p)]),
    "vram_sampler_missing": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "vram_sampler_close": (c_int, [c_void_p]),
    "vram_sampler_device_count": (c_uint32, [c_void_p]),
    "vram_sampler_read_device": (
        c_int,
        [c_void_p, c_uint32, POINTER(DeviceInfo), POINTER(ProcessInfo), POINTER(c_size_t)],
    ),
    "vram_count_loaded_libraries": (c_uint64, []),
    "vram_board_open": (c_int, []),
    "vram_board_close": (None, []),
    "vram_board_post": (c_int, [POINTER(BoardFigures)]),
    "vram_board_request": (c_int, [POINTER(BoardTrimRequest)]),
    "vram_board_answer": (None, [c_uint64, c_uint64]),
    "vram_board_segments_request": (c_uint64, []),
    "vram_board_answer_segments": (c_int, [c_uint64, POINTER(BoardList)]),
    "vram_board_read": (c_int, [c_uint32, POINTER(BoardPage)]),
}
REPORT_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "vram_report_version": (c_char_p, []),
    "vram_report_last_error": (c_char_p, []),
    "vram_report_open": (c_int, [c_char_p, POINTER(ReportOptions), POINTER(c_void_p)]),
    "vram_report_close": (None, [c_void_p]),
    "vram_report_json": (c_int, [c_void_p, c_size_t, POINTER(c_char_p)]),
    "vram_report_state_json": (c_int, [c_void_p, c_size_t, c_char_p, c_size_t, POINTER(c_char_p)]),
    "vram_report_free_text": (None, [c_char_p]),
    "vram_report_table_name": (c_char_p, [c_size_t]),
    "vram_report_table": (c_int, [c_void_p, c_char_p, c_void_p]),
}

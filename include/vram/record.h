/* vram: recording GPU memory events, as a C library (libvram.so).
 *
 *     vram_record_options options = {.struct_bytes = sizeof options, .stacks = VRAM_STACKS_PYTHON};
 *     vram_record_start("run.vtrace", &options);
 *     vram_scope_begin("forward"); … vram_scope_end();
 *     vram_step();
 *     vram_record_stop();
 *
 * A process makes one recording at a time. Pools (vram.h) are recorded automatically; another
 * allocator reports its events with vram_record_event(). The file (.vtrace) is only appended to: if
 * the process is killed, it contains everything up to about 200 ms before. Every function may be
 * called from any thread, and returns quickly without effect while nothing is recorded. The rules
 * of vram.h about failures apply. */
#ifndef VRAM_RECORD_H
#define VRAM_RECORD_H

#include <vram/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vram_stacks {
  VRAM_STACKS_NONE = 0,
  /* CPython 3.9 or newer in this process; holds the GIL while it walks the stack. */
  VRAM_STACKS_PYTHON = 1,
  /* Takes about 1 us for each frame. */
  VRAM_STACKS_NATIVE = 2
} vram_stacks;

/* Set struct_bytes to sizeof(vram_record_options); leave other fields 0 for their defaults. */
typedef struct vram_record_options {
  size_t struct_bytes;
  vram_stacks stacks;
  /* 0: creates the file immediately. It replaces a recording or report with this name, unless
   * another process is writing it. Children of fork() are not recorded.
   * 1: creates the file with the first event. If the name is taken, adds the pid to it
   * (run.4711.vtrace, or run.4711-2.vtrace if that exists too). Each child of fork() is recorded in
   * a file of its own. */
  uint32_t is_lazy;
  /* 1: if the process is one of several ranks (RANK and WORLD_SIZE, or the variables of MPI or
   * Slurm), adds the rank to the name: run.rank0.vtrace. */
  uint32_t is_named_by_rank;
  /* 1, if is_lazy is 0: replaces a file with this name even if vram did not write it. */
  uint32_t replaces_any;
  /* Maximum size of the recording on disk; the oldest events are dropped (run.old.vtrace has the
   * older part of what is kept). At least 1 MiB; 0: no limit. */
  uint64_t limit_bytes;
} vram_record_options;

/* Starts a recording. A pipe or a device is written in place and supports no limit.
 * VRAM_INVALID_VALUE: a recording is running already, or invalid options. VRAM_FILE_FAILED: the
 * file cannot be created, is being written by another recording, or was not written by vram; or the
 * system refuses to start a thread. vram_last_error() has the details. */
VRAM_API vram_status vram_record_start(const char* path, const vram_record_options* options);
/* Starts the recording that the environment requests (`vram run --record` sets VRAM_RECORD to the
 * file, VRAM_FLIGHT a folder for a flight recorder: flight.h); it lasts until the process ends. Has
 * no effect if the environment requests none, or if a recording is running. Opening a pool calls
 * this function. Fails as vram_record_start() does. */
VRAM_API vram_status vram_record_start_as_told(void);
/* Stops the recording and waits until the file contains all events. Returns VRAM_OK if nothing is
 * recorded.
 * VRAM_FILE_FAILED: the file could not be written from some moment on (it contains everything
 * before that), or the disk accepted nothing for 5 s; vram_last_error() has the details. */
VRAM_API vram_status vram_record_stop(void);
/* Returns 1 while a recording is running, and 0 otherwise, including after a failure such as a full
 * disk. Stop a failed recording too: vram_record_stop() reports the reason. */
VRAM_API int vram_is_recording(void);

typedef struct vram_record_counts {
  size_t struct_bytes; /* set by the caller to sizeof(vram_record_counts) */
  uint64_t events;     /* written */
  uint64_t lost;       /* not written: the disk was too slow, hung, or was full */
  uint64_t file_bytes; /* written, including files that were deleted since */
} vram_record_counts;

/* Reads the counts of the current recording, or of the last one. VRAM_INVALID_VALUE: struct_bytes
 * matches no version of this library. */
VRAM_API vram_status vram_get_record_counts(vram_record_counts* counts);
/* Writes the path of the recording: at most `capacity` bytes, the last of which is 0. Returns the
 * length of the whole path, or 0 if there is no file yet. */
VRAM_API size_t vram_record_path(char* path, size_t capacity);

/* Begins and ends a named scope of the calling thread. Scopes nest, up to 64 deep; deeper ones
 * count as part of the 64th. A thread without an open scope uses the scope of the thread that
 * opened the first scope of the process, as autograd's threads need. Scopes are also tracked while
 * nothing is recorded. */
VRAM_API void vram_scope_begin(const char* name);
VRAM_API void vram_scope_end(void);
/* Ends the current training step and begins the next. Steps are numbered from 0. */
VRAM_API void vram_step(void);
/* States the time, in ns since 1970: until the recording stops, what happens next happens at this
 * time, and the clock is no longer read. For programs that simulate others. 0 has no effect. */
VRAM_API void vram_record_time(uint64_t unix_ns);
/* Names the memory at an address: "layers.7.mlp.weight", with a category ("parameter", "gradient",
 * "optimizer state", "activation", …). The name applies to the block that contains the address, for
 * the block's whole life. */
VRAM_API void vram_name(int device, const void* address, size_t bytes, const char* name,
                        const char* category);
/* Records a figure of a device that was read now: "device.used_bytes". It holds until the next one
 * of that name. docs/vtrace.md lists the names that reports know. device: CUDA's number. */
VRAM_API void vram_record_figure(int device, const char* name, uint64_t value);

typedef enum vram_mark_kind {
  VRAM_MARK_OTHER = 0,
  VRAM_MARK_COLLECTIVE = 1,
  VRAM_MARK_COPY_TO_DEVICE = 2,
  VRAM_MARK_COPY_TO_HOST = 3
} vram_mark_kind;

typedef struct vram_mark {
  size_t struct_bytes; /* set by the caller to sizeof(vram_mark) */
  vram_mark_kind kind;
  int device; /* -1: none */
  uint64_t size_bytes;
  uint64_t duration_ns; /* of the call on the host, which ends now */
  const char* name;     /* "all_reduce" */
  const char* group;    /* of the processes that take part; NULL: none */
} vram_mark;

/* Records a collective or a copy, when its call ends. It does not begin a lazy recording. Has no
 * effect if struct_bytes matches no version of this library. */
VRAM_API void vram_record_mark(const vram_mark* mark);
/* Stores a fact about the program in the recording: "torch.version", "2.11.0". */
VRAM_API void vram_record_about(const char* key, const char* value);
/* Stores a setting of an allocator other than vram's, with PyTorch's name ("expandable_segments",
 * "True"). Reports need the settings to determine block sizes. */
VRAM_API void vram_record_setting(const char* key, const char* value);

/* ---------------------------------------------------------------------------- other allocators */

typedef enum vram_event_kind {
  VRAM_EVENT_ALLOC = 0,          /* report it after the allocation */
  VRAM_EVENT_FOUND = 1,          /* a block that existed before the recording */
  VRAM_EVENT_FREE = 2,           /* report it before the free, which completes immediately */
  VRAM_EVENT_FREE_REQUESTED = 3, /* freed, but streams use the block until FREE_COMPLETED */
  VRAM_EVENT_FREE_COMPLETED = 4,
  VRAM_EVENT_SEGMENT_ALLOC = 5, /* the allocator got memory from the device */
  VRAM_EVENT_SEGMENT_FREE = 6,  /* the allocator returned it */
  VRAM_EVENT_SEGMENT_MAP = 7,   /* the same for pages of a virtual address range */
  VRAM_EVENT_SEGMENT_UNMAP = 8,
  VRAM_EVENT_SEGMENT_FOUND = 9, /* pages that existed before the recording */
  VRAM_EVENT_OOM = 10, /* a request of size_bytes failed; address: free bytes of the device */
  VRAM_EVENT_SNAPSHOT = 11,
  /* At the end, if the allocator can list its memory: each segment, followed by its parts by
   * address, including free ones. Reports check the events against them. They are not written if
   * later events of the device follow, or if a pool of vram uses the device. */
  VRAM_EVENT_HELD_SEGMENT = 12,
  VRAM_EVENT_HELD_BLOCK = 13,
  VRAM_EVENT_HELD_PENDING = 14, /* freed, but not completed */
  VRAM_EVENT_HELD_FREE = 15
} vram_event_kind;

typedef struct vram_event {
  vram_event_kind kind;
  int device;
  uint64_t address;
  uint64_t size_bytes; /* may be 0 for frees, and for segments that are freed completely */
  vram_stream stream;
  uint32_t stack; /* of vram_capture_stack() or vram_try_capture_stack(), or 0 */
} vram_event;

/* Records an event. You may hold the allocator's lock, so that events are in its order. May wait
 * for the thread that writes them; if the disk hangs, for at most 0.2 s over all threads. */
VRAM_API void vram_record_event(const vram_event* event);
/* States that an allocator of this process reports what it takes from the driver. From then on, and
 * until the process ends, the driver calls themselves (which programs under `vram run --record`
 * report) are not recorded. Opening a pool has the same effect. */
VRAM_API void vram_record_claim(void);
VRAM_API int vram_record_is_claimed(void);
/* Captures the calling thread's stack, of the recorded kind; returns 0 if there is none. Hold no
 * lock that a thread running Python code might wait for. */
VRAM_API uint32_t vram_capture_stack(void);
/* Captures the stack as vram_capture_stack() does, but the caller may hold any lock: it waits for
 * the GIL for at most 10 ms. Captures the native stack if it does not get the GIL, or if the
 * process runs no Python; returns 0 in a thread of a Python program that runs no Python code. */
VRAM_API uint32_t vram_try_capture_stack(void);
/* Call it when Python is about to end (atexit), without the GIL: waits for threads that are
 * capturing a stack, for at most 5 s. Afterwards, threads without the GIL capture no Python stacks,
 * because the interpreter would end a thread that waits for the GIL. The Python package calls it.
 */
VRAM_API void vram_python_ends(void);
/* The dry runs of the Python package put these two into PyTorch's device guard, where a build for
 * CUDA sees no GPU: getStream(), which answers with the default stream (0) of a device, and
 * exchangeStream(), which changes nothing. Callbacks of ctypes cannot return structs. */
typedef struct vram_torch_stream {
  uint16_t device; /* c10::Device: type and index, a byte each */
  int64_t number;
} vram_torch_stream;
VRAM_API vram_torch_stream vram_torch_default_stream(const void* guard, uint16_t device);
VRAM_API vram_torch_stream vram_torch_same_stream(const void* guard, vram_torch_stream stream);
/* Where the driver would place the segments of a process (cudaMalloc): the model that replays have,
 * for dry runs, whose segments lie nowhere. For one thread at a time. vram_segments_open() returns
 * NULL if there is no memory; vram_segments_place() an address, 0 if there is no room;
 * vram_segments_remove() takes an address that it returned. */
typedef struct vram_segments vram_segments;
VRAM_API vram_segments* vram_segments_open(void);
VRAM_API uint64_t vram_segments_place(vram_segments* segments, uint64_t size_bytes);
VRAM_API void vram_segments_remove(vram_segments* segments, uint64_t address);
VRAM_API void vram_segments_close(vram_segments* segments);

#ifdef __cplusplus
}
#endif

#endif

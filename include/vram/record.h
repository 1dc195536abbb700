/* vram: recording what happens to GPU memory while it happens, as a C library (libvram.so).
 *
 *     vram_record_options options = {.struct_bytes = sizeof options, .stacks = VRAM_STACKS_PYTHON};
 *     vram_record_start("run.vtrace", &options);
 *     vram_scope_begin("forward"); … vram_scope_end();
 *     vram_step();
 *     vram_record_stop();
 *
 * One recording a process. Pools (vram.h) are recorded by themselves; another allocator says what
 * it does with vram_record_event(). The file (.vtrace) only grows: what happened up to about 200 ms
 * before the process was killed is in it. Any function may be called from any thread, also while
 * nothing is recorded: it then does nothing, quickly. The rules of vram.h about failures hold here,
 * too. */
#ifndef VRAM_RECORD_H
#define VRAM_RECORD_H

#include <vram/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vram_stacks {
  VRAM_STACKS_NONE = 0,
  VRAM_STACKS_PYTHON =
      1, /* CPython 3.9 or newer in this process; takes its lock (the GIL) for the walk */
  VRAM_STACKS_NATIVE = 2 /* about 1 us a frame */
} vram_stacks;

/* Set struct_bytes to sizeof(vram_record_options) and what is not to be chosen to 0. */
typedef struct vram_record_options {
  size_t struct_bytes;
  vram_stacks stacks;
  /* 1: the file is made when something is recorded, a process that finds its name taken adds its
   * number to it (run.4711.vtrace, or run.4711-2.vtrace where there is one), and children of fork()
   * record, too, each into its own file. 0: the file is made at once, in place of a recording or a
   * report of that name that nobody is writing, and children do not record. */
  uint32_t is_lazy;
  /* 1: a rank of several (RANK and WORLD_SIZE, or what MPI and Slurm set) adds its number to the
   * name: run.rank0.vtrace. */
  uint32_t is_named_by_rank;
  /* 1, where is_lazy is 0: a file of that name is replaced even if vram did not write it. */
  uint32_t replaces_any;
  /* What the recording may take on the disk: what is older goes (run.old.vtrace has the older part
   * of what stays). At least 1 MiB; 0: no limit. */
  uint64_t limit_bytes;
} vram_record_options;

/* VRAM_INVALID_VALUE: something is recorded already, or such options can't be. VRAM_FILE_FAILED: no
 * such file can be made, another recording is writing it, it is a file that vram did not write, or
 * the system grants no thread. A pipe or a device is written in place, and takes no limit.
 * vram_last_error() says why in words. */
VRAM_API vram_status vram_record_start(const char* path, const vram_record_options* options);
/* Starts what the environment asks for (as `vram run --record` sets it: VRAM_RECORD names the
 * file), until the process ends. Does nothing where it asks for nothing, or something is recorded
 * already. Opening a pool calls it. As vram_record_start(). */
VRAM_API vram_status vram_record_start_as_told(void);
/* Waits until all that was recorded is in the file. VRAM_FILE_FAILED: from some moment on it could
 * not be written (what came before is in the file), or the disk has taken nothing for 5 s;
 * vram_last_error() says why. Where nothing is
 * recorded: VRAM_OK. */
VRAM_API vram_status vram_record_stop(void);
/* 1: something is recorded. 0 as well from the moment on at which a recording has failed (the disk
 * is full): it is to be stopped all the same, and vram_record_stop() says why. */
VRAM_API int vram_is_recording(void);

typedef struct vram_record_counts {
  size_t struct_bytes; /* set by the caller to sizeof(vram_record_counts) */
  uint64_t events;     /* written */
  uint64_t lost;       /* given up, as the disk was too slow, hung or was full */
  uint64_t file_bytes; /* written, files that have gone since included */
} vram_record_counts;

/* Of the recording that runs, or the last one. VRAM_INVALID_VALUE: struct_bytes is of no version of
 * this library. */
VRAM_API vram_status vram_get_record_counts(vram_record_counts* counts);
/* The file that is written, at most `capacity` bytes of it, the last one 0; answers the length of
 * all. 0: none is yet. */
VRAM_API size_t vram_record_path(char* path, size_t capacity);

/* A named region of the calling thread. Regions nest; ones deeper than 64 count for the one around
 * them. A thread that has none open is taken to work for the thread that opened the first one of
 * the process (autograd's threads do). Scopes are kept while nothing is recorded, too. */
VRAM_API void vram_scope_begin(const char* name);
VRAM_API void vram_scope_end(void);
/* A step of training begins, and the one before ends; steps are counted from 0. */
VRAM_API void vram_step(void);
/* The memory from the address on is called so: "layers.7.mlp.weight", of a category: "parameter",
 * "gradient", "optimizer state", "activation", … It counts for the block that lies there, for all
 * of its life. */
VRAM_API void vram_name(int device, const void* address, size_t bytes, const char* name,
                        const char* category);
/* A fact about the program for whoever reads the recording: "torch.version", "2.11.0". */
VRAM_API void vram_record_about(const char* key, const char* value);
/* How an allocator other than vram's was set up, by PyTorch's names ("expandable_segments",
 * "True"): reports need it to tell how large blocks were. */
VRAM_API void vram_record_setting(const char* key, const char* value);

/* ------------------------------------------------------------------------------- other allocators
 */

typedef enum vram_event_kind {
  VRAM_EVENT_ALLOC = 0,          /* said after it was granted */
  VRAM_EVENT_FOUND = 1,          /* a block that was there before the recording */
  VRAM_EVENT_FREE = 2,           /* said before it is done; done at once */
  VRAM_EVENT_FREE_REQUESTED = 3, /* no longer allocated, but streams use it until it is completed */
  VRAM_EVENT_FREE_COMPLETED = 4,
  VRAM_EVENT_SEGMENT_ALLOC = 5, /* the allocator got memory from the device ... */
  VRAM_EVENT_SEGMENT_FREE = 6,  /* ... and gave it back */
  VRAM_EVENT_SEGMENT_MAP = 7,   /* or pages of it */
  VRAM_EVENT_SEGMENT_UNMAP = 8,
  VRAM_EVENT_SEGMENT_FOUND = 9, /* pages that were there before the recording */
  VRAM_EVENT_OOM = 10,          /* size_bytes failed; address: the bytes that the device had free */
  VRAM_EVENT_SNAPSHOT = 11,
  /* Last of all, if the allocator can say what it holds then: each segment, followed by its parts
   * in order of address, free ones too. Reports check the events against it. Left out of the
   * recording where events of the device come later, or a pool of vram's is on it. */
  VRAM_EVENT_HELD_SEGMENT = 12,
  VRAM_EVENT_HELD_BLOCK = 13,
  VRAM_EVENT_HELD_PENDING = 14, /* its free was requested, and is not completed */
  VRAM_EVENT_HELD_FREE = 15
} vram_event_kind;

typedef struct vram_event {
  vram_event_kind kind;
  int device;
  uint64_t address;
  uint64_t size_bytes; /* 0 will do for frees, and for segments that go as a whole */
  vram_stream stream;
  uint32_t stack; /* of vram_capture_stack() or vram_try_capture_stack(), or 0 */
} vram_event;

/* May be called with the allocator's lock held, so that events come in its order; may then wait for
 * the thread that writes them; for a disk that hangs, all threads together at most 0.2 s. */
VRAM_API void vram_record_event(const vram_event* event);
/* An allocator of this process says from now on what it takes from the driver: what the driver
 * itself is called for is no longer recorded (programs under `vram run --record` have a tap there).
 * Opening a pool claims, too. For good. */
VRAM_API void vram_record_claim(void);
VRAM_API int vram_record_is_claimed(void);
/* The stack of the calling thread, of the kind that is recorded; 0: none. The caller may hold no
 * lock that a thread which runs Python code might wait for. */
VRAM_API uint32_t vram_capture_stack(void);
/* As vram_capture_stack(), for callers that may hold any lock: waits at most 10 ms for the GIL. Captures the native stack where
 * it does not get it, or the thread runs no Python. */
VRAM_API uint32_t vram_try_capture_stack(void);
/* To be called when Python is about to end (atexit), without the GIL: waits for the threads that capture a stack, at most 5 s.
 * Threads without the GIL capture no Python stacks afterwards: the interpreter would end a thread that waits for the GIL,
 * wherever it is. The Python package calls it. */
VRAM_API void vram_python_ends(void);

#ifdef __cplusplus
}
#endif

#endif

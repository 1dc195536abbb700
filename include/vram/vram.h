/* vram: an allocator for GPU memory, as a C library (libvram.so).
 *
 *     vram_pool* pool;
 *     if (vram_pool_open(0, NULL, &pool) != VRAM_OK) …;
 *     void* block;
 *     if (vram_alloc(pool, bytes, stream, &block) != VRAM_OK)
 *       vram_explain_oom(pool, text, sizeof text);
 *     vram_free(pool, block);
 *
 * Rules for all functions:
 *   - Sizes are bytes. Devices have CUDA's numbers. A stream is a CUstream or cudaStream_t; NULL is
 *     the legacy default stream. Blocks are device memory, aligned to 512 bytes.
 *   - The per-thread default stream (CU_STREAM_PER_THREAD, cudaStreamPerThread, the handle 2) is
 *     refused with VRAM_NOT_SUPPORTED: its handle means another stream in each thread, so a pool
 *     cannot order its work. Programs compiled with --default-stream per-thread must not pass
 *     their default stream as NULL either.
 *   - Unless its comment says otherwise, a function may be called from any thread at any time and
 *     needs no current CUDA context. Calls about the same block must be ordered by the caller.
 *   - Every failure is a vram_status. A function that fails throws nothing, prints nothing, and
 *     changes nothing. If a required pointer is NULL or the pool is closed, functions return
 *     VRAM_INVALID_VALUE, or 0 if they return a number.
 *   - The library opens the GPU driver in the first vram_pool_open(), not when it is loaded.
 *   - A child of fork() has no pools, just as it has no CUDA: every call returns VRAM_FORKED, or 0
 *     if it returns a number. The parent is not affected.
 *   - Pools are stream-ordered: a freed block is available to its own stream immediately, and to
 *     other streams after the work queued by then has finished. A stream must outlive its use, or
 *     be passed to vram_forget_stream() before it is destroyed.
 *   - During the capture of a CUDA graph, every function but vram_pool_close() may be called from
 *     any thread; it adds nothing to the graph. If other threads use the pool meanwhile, announce
 *     the capture with vram_begin_capture(). Memory that the captured stream uses or frees becomes
 *     available to other streams after the capture ends.
 */
#ifndef VRAM_VRAM_H
#define VRAM_VRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_API __attribute__((visibility("default")))

typedef struct vram_pool vram_pool;
typedef void* vram_stream;

typedef enum vram_status {
  VRAM_OK = 0,
  VRAM_OUT_OF_MEMORY = 1, /* see vram_explain_oom() */
  VRAM_INVALID_VALUE = 2, /* an invalid argument */
  VRAM_NOT_SUPPORTED = 3, /* not supported by this device or driver */
  VRAM_NO_DRIVER = 4,     /* no driver, or no such device */
  VRAM_DRIVER_FAILED = 5, /* the device failed; do not rely on later results from it */
  VRAM_FORKED = 6,        /* this process is a fork of the process that opened the pool */
  VRAM_FILE_FAILED = 7    /* a file could not be created or written */
} vram_status;

/* Returns the library's version, such as "1.2.3". The text is valid while the library is loaded. */
VRAM_API const char* vram_version(void);
/* Returns the meaning of a status, in English. The text is valid while the library is loaded. */
VRAM_API const char* vram_status_text(vram_status status);

/* ------------------------------------------------------------------------------------------------
 * pools */

typedef enum vram_backing {
  VRAM_BACKING_AUTO = 0,    /* virtual memory management where the device has it, else segments */
  VRAM_BACKING_VIRTUAL = 1, /* cuMemCreate, cuMemMap */
  VRAM_BACKING_SEGMENTS = 2 /* cuMemAlloc: for devices without virtual memory management */
} vram_backing;

/* Options of a pool. Set struct_bytes to sizeof(vram_pool_options); leave other fields 0 for their
 * defaults. */
typedef struct vram_pool_options {
  size_t struct_bytes;
  vram_backing backing;
  uint32_t reserved; /* 0 */
  /* Maximum of the reserved memory; 0: only the device limits it. */
  uint64_t limit_bytes;
  /* Size of one piece of physical memory, a multiple of 2 MiB; a large request may use pieces up to
   * twice as large. 0: 20 MiB. */
  uint64_t handle_bytes;
} vram_pool_options;

/* Opens the pool of a device. If it is open already, returns the same pool and ignores `options`.
 * Retains the device's primary context. Each open needs one close.
 *
 * options: NULL for the defaults.
 * VRAM_NO_DRIVER: there is no CUDA driver, or no device with this number.
 * VRAM_INVALID_VALUE: invalid options. VRAM_NOT_SUPPORTED: the device does not support the backing.
 * vram_last_error() has the details. */
VRAM_API vram_status vram_pool_open(int device, const vram_pool_options* options, vram_pool** pool);
/* Closes the pool. The last close waits for the device and returns all of its memory, which makes
 * live blocks invalid; no other call may use the pool at the same time.
 * VRAM_INVALID_VALUE: the pool is closed already. */
VRAM_API vram_status vram_pool_close(vram_pool* pool);
/* Returns the error message of the last failed call on this thread, as one line: of
 * vram_pool_open(), of a function that refused a stream, or of a function of status.h or record.h.
 * Returns "" if the last of these calls succeeded. */
VRAM_API const char* vram_last_error(void);

/* -----------------------------------------------------------------------------------------------
 * blocks */

/* Allocates a block of at least `bytes` bytes, which may be 0, for work in the stream.
 * VRAM_OUT_OF_MEMORY: nothing helped, including the reclaim hooks; *block is NULL. */
VRAM_API vram_status vram_alloc(vram_pool* pool, size_t bytes, vram_stream stream, void** block);
/* Frees a block; NULL has no effect. Work that is queued in the block's stream, and in streams
 * passed to vram_record_stream(), may continue to use it. VRAM_INVALID_VALUE: not the beginning of
 * a live block of this pool. */
VRAM_API vram_status vram_free(vram_pool* pool, void* block);
/* States that another stream, of any device, uses the block: after vram_free(), the block is not
 * reused before the work queued in that stream by then has finished.
 * VRAM_INVALID_VALUE: not the beginning of a live block of this pool. */
VRAM_API vram_status vram_record_stream(vram_pool* pool, void* block, vram_stream stream);
/* Call this before you destroy a stream, after the last work was queued in it. The pool records one
 * last event in the stream and does not use it afterwards. Waits for nothing; may be called during
 * a capture. */
VRAM_API vram_status vram_forget_stream(vram_pool* pool, vram_stream stream);

typedef struct vram_block_info {
  void* address;
  uint64_t size_bytes;      /* rounded up, as allocated */
  uint64_t requested_bytes; /* as requested */
  vram_stream stream;
} vram_block_info;

/* Finds the live block that contains the address. VRAM_INVALID_VALUE: there is none. */
VRAM_API vram_status vram_find_block(vram_pool* pool, const void* address, vram_block_info* info);
/* Returns 1 if the address is in memory of any open pool, in a live block or not, else 0. Takes
 * no lock, except while a pool with VRAM_BACKING_SEGMENTS is open. */
VRAM_API int vram_owns(const void* address);

/* ------------------------------------------------------------------------------------- memory and
 * limits */

/* Returns unused memory to the device: at least `bytes` bytes if possible (SIZE_MAX: all of it).
 * Waits for the streams that use the pool's memory. Returns the number of bytes. */
VRAM_API size_t vram_trim(vram_pool* pool, size_t bytes);
/* Sets the maximum of the reserved memory (0: no limit). Memory beyond a lower limit stays reserved
 * until vram_trim(). */
VRAM_API vram_status vram_limit(vram_pool* pool, uint64_t bytes);
/* Lets another device read and write this pool's memory, including memory reserved later.
 * VRAM_NOT_SUPPORTED: the two devices cannot access each other's memory. */
VRAM_API vram_status vram_enable_peer(vram_pool* pool, int device);

/* Tells the pool that a CUDA graph is being captured in this process. Calls nest: the capture has
 * ended after as many ends as begins, and the pool records no event in any stream before.
 * Otherwise, a thread that frees a block could record an event in the captured stream at the moment
 * in which another thread begins or ends the capture, and the driver does not survive that.
 *
 * Call begin before the capture begins and end after it ends, for all pools of the process.
 * Meanwhile, freed memory is available to its own stream, and to other streams if earlier events
 * show that its work has finished. From the first begin on, graphs may be launched at any time:
 * where a stream would wait for memory freed by another stream, the host waits instead. If graphs
 * were captured before the pool was opened, call both functions once. */
VRAM_API vram_status vram_begin_capture(vram_pool* pool);
VRAM_API vram_status vram_end_capture(vram_pool* pool);

/* Called when a request cannot be served, before it fails, with no lock held. Frees memory that its
 * owner can spare, in any pool or elsewhere, and returns 1 if it may have freed something: the
 * request is then tried once more. It may call any function of this library but vram_pool_close().
 */
typedef int (*vram_reclaim_fn)(void* user, int device, size_t bytes);
/* Adds a hook; hooks are called in the order in which they were added. VRAM_OUT_OF_MEMORY: there
 * are 8 hooks already. VRAM_INVALID_VALUE: the hook is NULL; for remove: it was not added. */
VRAM_API vram_status vram_add_reclaim_hook(vram_reclaim_fn hook, void* user);
VRAM_API vram_status vram_remove_reclaim_hook(vram_reclaim_fn hook, void* user);

/* Writes why the pool's last request failed: the requested size, the free memory and why it was not
 * suitable, the block sizes that hold most of the memory, the processes that use the device, the
 * recording that names the blocks' owners, and what would help. Writes at most `capacity` bytes,
 * the last of which is 0. Returns the length of the whole text, or 0 if no request has failed.
 * Allocates no memory. */
VRAM_API size_t vram_explain_oom(vram_pool* pool, char* text, size_t capacity);

/* ------------------------------------------------------------------------------------------------
 * figures */

/* As in torch.cuda.memory_stats(): the current value, its peak, and the sums of its increases and
 * decreases. */
typedef struct vram_stat {
  uint64_t current;
  uint64_t peak;
  uint64_t allocated;
  uint64_t freed;
} vram_stat;

/* Names and meanings are those of torch.cuda.memory_stats(); figures that PyTorch does not have are
 * at the end. Peaks are exact while threads take turns. While threads compete, a peak between two
 * readings of the pool may be missed. */
typedef struct vram_stats {
  size_t struct_bytes; /* set by the caller to sizeof(vram_stats) */
  vram_stat allocation;
  vram_stat allocated_bytes;
  vram_stat active_bytes;
  vram_stat requested_bytes;
  vram_stat reserved_bytes;
  uint64_t num_alloc_retries;
  uint64_t num_ooms;
  uint64_t num_device_alloc;
  uint64_t num_device_free;
  uint64_t limit_bytes;   /* 0: no limit */
  uint64_t stitches;      /* free pieces mapped as one range */
  uint64_t stitch_reuses; /* requests served from a range that was mapped already */
  uint64_t stream_waits;  /* a stream had to wait for memory of another stream */
  uint64_t slow_requests; /* not served by a free block immediately */
  uint64_t driver_calls;  /* for memory: create, map, set_access, unmap, release */
  uint64_t driver_ns;     /* time spent in them */
} vram_stats;

/* VRAM_INVALID_VALUE: struct_bytes matches no version of this library. */
VRAM_API vram_status vram_get_stats(vram_pool* pool, vram_stats* stats);
/* vram_reset_peaks() sets peaks to the current values; vram_reset_sums() sets sums to 0. */
VRAM_API vram_status vram_reset_peaks(vram_pool* pool);
VRAM_API vram_status vram_reset_sums(vram_pool* pool);

/* A part of the pool's reserved memory: a block, or free memory between blocks. */
typedef struct vram_part {
  uint64_t address; /* in the pool; a block that is mapped elsewhere has several parts */
  uint64_t size_bytes;
  uint64_t requested_bytes; /* 0 for free memory, and for all but a block's first part */
  vram_stream stream;
  int is_live; /* part of a block whose work has not finished */
  int is_held; /* freed, but work of other streams still uses it */
} vram_part;

/* Calls `visit` for each current part, by address, with no lock held. Returns the number of parts.
 */
VRAM_API size_t vram_visit(vram_pool* pool, void (*visit)(void* user, const vram_part* part),
                           void* user);
/* Checks the pool's invariants. Returns 1 if all hold; else 0, and writes the violation to `text`.
 * For tests: visits all of the pool's memory. */
VRAM_API int vram_validate(vram_pool* pool, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif

/* vram: an allocator for GPU memory, as a C library (libvram.so).
 *
 *     vram_pool* pool;
 *     if (vram_pool_open(0, NULL, &pool) != VRAM_OK) …;
 *     void* block;
 *     if (vram_alloc(pool, bytes, stream, &block) != VRAM_OK) … vram_explain_oom(pool, text, sizeof text);
 *     vram_free(pool, block);
 *
 * Rules for all functions:
 *   - Sizes are bytes, devices are numbered as CUDA numbers them, a stream is a CUstream or cudaStream_t (NULL is the
 *     legacy default stream). Blocks are device memory, aligned to 512 bytes.
 *   - The per-thread default stream (CU_STREAM_PER_THREAD, cudaStreamPerThread, the handle 2) is refused with
 *     VRAM_NOT_SUPPORTED: the handle names another stream in each thread, so a pool can't order its work. A program that
 *     is compiled with --default-stream per-thread must not pass its default stream as NULL either.
 *   - Any function may be called from any thread at any time, and none needs a current CUDA context, unless it says
 *     otherwise. Of two calls about one block, one must happen before the other.
 *   - Every failure is a vram_status; nothing is thrown, printed, or changed by a call that fails. A NULL where something
 *     is expected, and a pool that was closed as often as it was opened, are answered with VRAM_INVALID_VALUE (or 0, where
 *     a function answers a number; functions without an answer do nothing).
 *   - The GPU's driver is opened at the first vram_pool_open(), not when the library is loaded.
 *   - After fork() the child has no pools, as it has no CUDA: every call there answers VRAM_FORKED (or 0, where a
 *     function answers a number). The parent goes on undisturbed.
 *   - A pool's memory is stream-ordered: a freed block serves its own stream at once, and other streams when the work
 *     queued by then is done. Streams must outlive their use, or be forgotten (vram_forget_stream) first.
 *   - While a CUDA graph is captured, any function but vram_pool_close() may be called, in any thread: nothing is added to
 *     the graph. Where other threads call anything then, the pool must know of the capture (vram_begin_capture). What the
 *     captured stream uses or has freed serves other streams once the capture has ended.
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
  VRAM_OUT_OF_MEMORY = 1, /* vram_explain_oom() says why */
  VRAM_INVALID_VALUE = 2, /* an argument that no correct program passes */
  VRAM_NOT_SUPPORTED = 3, /* by this device or driver */
  VRAM_NO_DRIVER = 4,     /* no driver or no such device on this machine */
  VRAM_DRIVER_FAILED = 5, /* the device failed; nothing later on it can be trusted */
  VRAM_FORKED = 6,        /* this process is a fork of the one that opened the pool */
  VRAM_FILE_FAILED = 7,   /* a file could not be made or written */
  VRAM_NOT_READY = 8      /* a CUDA graph is being captured: call again when the capture has ended */
} vram_status;

/* The library's version, as "1.2.3"; the text lives as long as the library. */
VRAM_API const char* vram_version(void);
/* What a status means, in English; the text lives as long as the library. */
VRAM_API const char* vram_status_text(vram_status status);

/* ------------------------------------------------------------------------------------------------ pools */

typedef enum vram_backing {
  VRAM_BACKING_AUTO = 0,    /* virtual memory management where the device has it, else segments */
  VRAM_BACKING_VIRTUAL = 1, /* cuMemCreate, cuMemMap */
  VRAM_BACKING_SEGMENTS = 2 /* cuMemAlloc: for devices without virtual memory management */
} vram_backing;

/* What a pool is opened with. Set struct_bytes to sizeof(vram_pool_options) and what is not to be chosen to 0. */
typedef struct vram_pool_options {
  size_t struct_bytes;
  vram_backing backing;
  uint32_t reserved;     /* 0 */
  uint64_t limit_bytes;  /* at most so much is reserved; 0: no limit but the device */
  uint64_t handle_bytes; /* a piece of physical memory, of a large request up to two in one; n * 2 MiB; 0: 20 MiB */
} vram_pool_options;

/* Opens the pool of a device, or, when it is open, the same one again; options count the first time only (NULL: all
 * defaults). Retains the device's primary context. Every open takes one close.
 * VRAM_NO_DRIVER: no CUDA driver, or no device of that number; vram_last_error() says what was looked for.
 * VRAM_INVALID_VALUE: options no pool can have. VRAM_NOT_SUPPORTED: the backing that was asked for. */
VRAM_API vram_status vram_pool_open(int device, const vram_pool_options* options, vram_pool** pool);
/* The last close waits for the device and gives all of its memory back; blocks that live become invalid. No other call
 * about this pool may run beside the last one. VRAM_INVALID_VALUE: it is closed already. */
VRAM_API vram_status vram_pool_close(vram_pool* pool);
/* Why the last function of this thread failed that says here why (vram_pool_open(), those that refuse a stream, those of
 * look.h and record.h), in one line; "" if it did not. */
VRAM_API const char* vram_last_error(void);

/* ----------------------------------------------------------------------------------------------- blocks */

/* A block of at least so many bytes (of 0 bytes, too, there is one) for work in the stream.
 * VRAM_OUT_OF_MEMORY after everything was tried, the reclaim hook included; *block is then NULL. */
VRAM_API vram_status vram_alloc(vram_pool* pool, size_t bytes, vram_stream stream, void** block);
/* Frees a block; NULL is none. Work that is queued in its stream, and in streams named by vram_record_stream(), may go
 * on using it. VRAM_INVALID_VALUE: not the beginning of a live block of this pool. */
VRAM_API vram_status vram_free(vram_pool* pool, void* block);
/* Another stream uses the block: once freed, it waits for what that stream has queued by then.
 * VRAM_INVALID_VALUE: not the beginning of a live block of this pool. */
VRAM_API vram_status vram_record_stream(vram_pool* pool, void* block, vram_stream stream);
/* The stream is about to be destroyed, with all queued that ever will be: the pool records its last event there and does
 * not name the stream any more. Waits for nothing, may be called during a capture. */
VRAM_API vram_status vram_forget_stream(vram_pool* pool, vram_stream stream);

typedef struct vram_block_info {
  void* address;
  uint64_t size_bytes;      /* rounded, as it is held */
  uint64_t requested_bytes; /* as asked for */
  vram_stream stream;
} vram_block_info;

/* The live block that holds the address. VRAM_INVALID_VALUE: none does. */
VRAM_API vram_status vram_find_block(vram_pool* pool, const void* address, vram_block_info* info);
/* 1 if the address lies in memory of any open pool, whether in a live block or not, else 0. Takes no lock unless a pool
 * of segments is open. */
VRAM_API int vram_owns(const void* address);

/* ------------------------------------------------------------------------------------- memory and limits */

/* Gives memory that nothing uses back to the device, so many bytes if it can (SIZE_MAX: all it can). Waits for the
 * streams that use the pool's memory. Answers how many bytes it was. */
VRAM_API size_t vram_trim(vram_pool* pool, size_t bytes);
/* From now on at most so many bytes are reserved (0: no limit); what is more already stays until it is trimmed. */
VRAM_API vram_status vram_limit(vram_pool* pool, uint64_t bytes);
/* Lets another device read and write this pool's memory, now and as it grows.
 * VRAM_NOT_SUPPORTED: the two can't reach each other. */
VRAM_API vram_status vram_enable_peer(vram_pool* pool, int device);

/* A CUDA graph is being captured in this process: until as many ends as begins, the pool records no event in any stream.
 * Otherwise a thread that frees a block could record one in the captured stream just as another thread begins or ends
 * the capture, which the driver does not survive. Begin before the capture does and end after it, in all pools of the
 * process. Meanwhile freed memory serves its own stream, and other streams as far as earlier events show that it is done.
 * From the first begin on, graphs may be launched at any time: where a stream would have waited for memory that another
 * stream freed, the host waits. If graphs were captured before the pool was opened, call both functions once. */
VRAM_API vram_status vram_begin_capture(vram_pool* pool);
VRAM_API vram_status vram_end_capture(vram_pool* pool);

/* Called when a request can't be served, before it fails, with no lock held: frees what its owner can spare, in any
 * pool or beside them, and answers 1 if it may have freed something: the request is then tried again, once. It may call
 * any function of this library but vram_pool_close(). */
typedef int (*vram_reclaim_fn)(void* user, int device, size_t bytes);
/* NULL: none. VRAM_OUT_OF_MEMORY: there are 8 already. Hooks are called in the order in which they were added. */
VRAM_API vram_status vram_add_reclaim_hook(vram_reclaim_fn hook, void* user);
VRAM_API vram_status vram_remove_reclaim_hook(vram_reclaim_fn hook, void* user);

/* Writes why the pool's last request failed: what was asked, what is free and why it can't serve, which sizes of block
 * hold most, who holds the device, which recording says whose the blocks are, and what would help. At most `capacity` bytes, the last one 0. Answers the length that the whole text has; 0 if no
 * request failed. Allocates nothing. */
VRAM_API size_t vram_explain_oom(vram_pool* pool, char* text, size_t capacity);

/* ------------------------------------------------------------------------------------------------ figures */

/* As torch.cuda.memory_stats() has them: the value now, its peak, and the sums of its increases and decreases. */
typedef struct vram_stat {
  uint64_t current;
  uint64_t peak;
  uint64_t allocated;
  uint64_t freed;
} vram_stat;

/* Names and meanings are those of torch.cuda.memory_stats(); what that has no name for stands at the end. Peaks are
 * exact while threads take turns; while they compete, one that was passed between two looks may be missed. */
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
  uint64_t limit_bytes;   /* 0: none */
  uint64_t stitches;      /* free pieces mapped as one range */
  uint64_t stitch_reuses; /* requests served by one that was mapped already */
  uint64_t stream_waits;  /* a stream was made to wait for memory of another */
  uint64_t slow_requests; /* not served by a free block at once */
  uint64_t driver_calls;  /* for memory: create, map, set_access, unmap, release */
  uint64_t driver_ns;     /* time spent in them */
} vram_stats;

/* VRAM_INVALID_VALUE: struct_bytes is of no version of this library. */
VRAM_API vram_status vram_get_stats(vram_pool* pool, vram_stats* stats);
/* Peaks become what is current; sums become 0. */
VRAM_API vram_status vram_reset_peaks(vram_pool* pool);
VRAM_API vram_status vram_reset_sums(vram_pool* pool);

/* A part of the pool's reserved memory: a block, or free memory between blocks. */
typedef struct vram_part {
  uint64_t address; /* its home; a block shown elsewhere has several parts */
  uint64_t size_bytes;
  uint64_t requested_bytes; /* 0 where it is free, and in all but the first part of a block */
  vram_stream stream;
  int is_live; /* a block's, until its work is done */
  int is_held; /* live, but freed: work of other streams still uses it */
} vram_part;

/* Calls visit for each part that there is now, in order of address, with no lock held. Answers how many there were. */
VRAM_API size_t vram_visit(vram_pool* pool, void (*visit)(void* user, const vram_part* part), void* user);
/* 1 if everything that must hold within the pool does, else 0 and what does not as text. For tests: walks over all. */
VRAM_API int vram_validate(vram_pool* pool, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif

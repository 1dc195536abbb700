/* vram: the state of this machine's GPUs and their processes, and the status page on which a
 * process publishes its own figures; C functions of libvram.so.
 *
 *     vram_sampler* sampler;
 *     if (vram_sampler_open(NULL, &sampler) != VRAM_OK) … vram_last_error();
 *     vram_device_info info = {.struct_bytes = sizeof info};
 *     for (uint32_t i = 0; i < vram_sampler_device_count(sampler); ++i)
 *       vram_sampler_read_device(sampler, i, &info, NULL, NULL);
 *     vram_sampler_close(sampler);
 *
 * The rules of vram/vram.h apply. An unknown figure is VRAM_UNKNOWN, never 0: the driver or its
 * version does not report it, or this process may not read it.
 */
#ifndef VRAM_STATUS_H
#define VRAM_STATUS_H

#include <vram/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_UNKNOWN UINT64_MAX

/* ---------------------------------------------------------------------------------- devices and
 * processes */

typedef struct vram_sampler vram_sampler;

/* Opens what reports about this machine's devices: NVIDIA's management library (NVML), and for
 * AMD's and Intel's devices the kernel's files, with AMD's library for what these do not have.
 * NVIDIA's driver stays loaded until the last close. May be called from any thread.
 *
 * library: the file of NVML; NULL: the environment variable VRAM_NVML, else libnvidia-ml.so.1.
 * VRAM_NO_DRIVER: no such library, or no driver, and no device of AMD or Intel.
 * VRAM_NOT_SUPPORTED: the library is not NVML, or does not start, and there is no device of AMD or
 * Intel. VRAM_INVALID_VALUE: sampler is NULL. vram_last_error() has the details. */
VRAM_API vram_status vram_sampler_open(const char* library, vram_sampler** sampler);
/* Writes why NVIDIA's devices are missing, if there is an NVML that does not start or does not list
 * them: at most `capacity` bytes, the last of which is 0. Returns the length of the whole text, or
 * 0 if nothing is known to be missing. */
VRAM_API size_t vram_sampler_missing(vram_sampler* sampler, char* text, size_t capacity);
/* Closes it. No other call may use it at the same time. VRAM_INVALID_VALUE: sampler is NULL.
 * VRAM_FORKED: this process is a fork of the process that opened it; there is nothing to close. */
VRAM_API vram_status vram_sampler_close(vram_sampler* sampler);
/* Returns the number of devices, including those that this process may not access; 0 in a fork of
 * the process that opened it. NVIDIA's devices come first, those that NVML listed when it was
 * opened, with its numbers. May be called from any thread. */
VRAM_API uint32_t vram_sampler_device_count(vram_sampler* sampler);

typedef enum vram_vendor {
  VRAM_VENDOR_NVIDIA = 0,
  VRAM_VENDOR_AMD = 1,
  VRAM_VENDOR_INTEL = 2
} vram_vendor;

/* Sizes are bytes or VRAM_UNKNOWN. If all four are known, total = used + reserved + free. If the
 * driver's own memory (reserved) is unknown, it is part of used. */
typedef struct vram_device_info {
  /* Set it to sizeof(vram_device_info); it also determines the version of vram_process_info. */
  size_t struct_bytes;
  uint64_t total_bytes;
  uint64_t used_bytes;
  uint64_t free_bytes;
  uint64_t reserved_bytes;
  /* Share of the driver's last sample period in which a kernel ran, or VRAM_UNKNOWN. */
  uint64_t busy_percent;
  /* The same for reading or writing memory: neither occupancy nor bandwidth. */
  uint64_t memory_busy_percent;
  /* Length of the whole process list; VRAM_UNKNOWN: the driver does not report it. */
  uint64_t process_count;
  /* Texts; "": unknown. */
  char name[96];
  char uuid[96];
  /* Why the device reports no figures, such as "GPU is lost (15)"; "": no error. */
  char error[96];
  char pci_id[32]; /* "0000:19:00.0" */
  vram_vendor vendor;
  uint32_t is_asleep; /* 1: powered down; nothing else was read, so as not to wake it */
  /* Host memory that the device may use as its own (AMD's GTT). */
  uint64_t host_total_bytes;
  uint64_t host_used_bytes;
} vram_device_info;

#define VRAM_PROCESS_COMPUTE 1u
#define VRAM_PROCESS_GRAPHICS 2u
#define VRAM_NO_INSTANCE UINT32_MAX

typedef struct vram_process_info {
  uint32_t pid; /* in the host's pid namespace: a container may have no such process */
  uint32_t kinds;
  uint64_t used_bytes;       /* or VRAM_UNKNOWN */
  uint64_t host_bytes;       /* of the host's memory that the device uses, or VRAM_UNKNOWN */
  uint32_t gpu_instance;     /* with MIG; else VRAM_NO_INSTANCE */
  uint32_t compute_instance; /* with MIG; else VRAM_NO_INSTANCE */
} vram_process_info;

/* Reads a device, and its processes sorted by pid. A device that fails is no error: it has a text
 * in `error` and no figures. Processes of other users on AMD's and Intel's devices are listed
 * only if they compute on AMD's, or if this process may trace them. May be called from any thread;
 * waits no longer than the driver's own calls.
 *
 * processes, capacity: writes at most *capacity processes and sets *capacity to their number; both
 * may be NULL.
 * VRAM_INVALID_VALUE: struct_bytes matches no version of this library. VRAM_FORKED: as for
 * vram_sampler_close(). */
VRAM_API vram_status vram_sampler_read_device(vram_sampler* sampler, uint32_t index,
                                              vram_device_info* info, vram_process_info* processes,
                                              size_t* capacity);

/* Returns how many libraries this process has loaded since its start, including those that it has
 * unloaded: until the number changes, no other library (such as CUDA's driver) can have come. Takes
 * less than a microsecond, while a search takes far longer. May be called from any thread. */
VRAM_API uint64_t vram_count_loaded_libraries(void);

/* ------------------------------------------------------------------------------ the status page */

/* A process publishes its figures on a status page: a file with mode 0600, named by its pid, in a
 * folder of shared memory with mode 0700: /dev/shm/vram-<uid>, or the folder in the environment
 * variable VRAM_BOARD, or, if neither is available, $XDG_RUNTIME_DIR/vram. `vram top` reads the
 * pages; `vram free` uses them to ask processes to release memory. */

#define VRAM_BOARD_DEVICES 16

/* Sizes are bytes or VRAM_UNKNOWN. Later versions have more members at the end. */
typedef struct vram_board_device {
  uint64_t device;
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_bytes;   /* of allocated_bytes, as the process counts it */
  uint64_t cached_bytes; /* what a trim would release */
  /* Counts since the process started, or VRAM_UNKNOWN: */
  uint64_t num_alloc_retries; /* requests that the driver refused, repeated without a cache */
  uint64_t num_ooms;          /* requests that failed */
  uint64_t num_device_alloc;  /* requests of the allocator to the driver, for memory */
  uint64_t num_device_free;   /* and to take memory back */
} vram_board_device;

typedef struct vram_board_figures {
  size_t struct_bytes; /* sizeof(vram_board_figures) */
  uint64_t step;       /* completed steps, or VRAM_UNKNOWN */
  uint64_t step_ns;    /* duration of the last step, or VRAM_UNKNOWN */
  /* What the process is doing, truncated to 63 bytes; NULL: unknown. */
  const char* scope;
  const vram_board_device* devices; /* the first 16 are posted */
  size_t device_count;
  size_t device_bytes; /* sizeof(vram_board_device); not used without devices */
} vram_board_figures;

/* Creates this process's page; calling it again has no effect. The page is removed by
 * vram_board_close() and at a normal end of the process. A page that a killed process leaves behind
 * is recognized as that of a dead process. May be called from any thread.
 * VRAM_NOT_SUPPORTED: the folder or the page cannot be created, or is accessible to other users;
 * vram_last_error() has the details. */
VRAM_API vram_status vram_board_open(void);
/* Removes the page; later posts have no effect. May be called from any thread. */
VRAM_API void vram_board_close(void);
/* Replaces all posted figures. Has no effect if no page is open, or while another thread posts.
 * Takes no lock and makes no system call, except for the first call in a fork of a process with a
 * page, which creates the fork's own page. May be called from any thread. VRAM_INVALID_VALUE:
 * struct_bytes or device_bytes matches no version of this library. */
VRAM_API vram_status vram_board_post(const vram_board_figures* figures);

/* A request to this process, for example by `vram free`, to return cached memory to the device. */
typedef struct vram_board_trim_request {
  size_t struct_bytes; /* set by the caller to sizeof(vram_board_trim_request) */
  uint64_t number;     /* pass it to vram_board_answer(); 0: there is no request */
  uint64_t device;     /* as posted by this process; VRAM_UNKNOWN: all */
  uint64_t bytes;      /* at least; VRAM_UNKNOWN: as much as possible */
} vram_board_trim_request;

/* Reads the newest unanswered request; number is 0 if there is none, or no page is open. A process
 * that posts calls it after each post and may release memory. If it cannot at that moment (a CUDA
 * graph is being captured), it leaves the request for later. Takes no lock and makes no system
 * call, except for the first call in a fork, as vram_board_post(). May be called from any thread;
 * two threads may receive the same request. VRAM_INVALID_VALUE: struct_bytes matches no version of
 * this library. */
VRAM_API vram_status vram_board_request(vram_board_trim_request* request);
/* Answers the request with this number: `bytes` were returned (VRAM_UNKNOWN: the amount is
 * unknown). Has no effect if no page is open. May be called from any thread. */
VRAM_API void vram_board_answer(uint64_t number, uint64_t bytes);

/* Requests to list the segments of this process's allocators, for example by the dashboard of
 * `vram serve`. */
#define VRAM_SEGMENT_SMALL 1u      /* of small requests */
#define VRAM_SEGMENT_EXPANDABLE 2u /* grows by pages */
#define VRAM_SEGMENT_PRIVATE 4u    /* of a pool that the program keeps apart, as CUDA graphs do */

typedef struct vram_board_segment {
  uint64_t device; /* as posted by this process */
  uint64_t address;
  uint64_t size_bytes; /* the sum of its blocks */
  uint64_t stream;
  uint32_t kinds;
  uint32_t block_count;
} vram_board_segment;

#define VRAM_BLOCK_FREE 0u
#define VRAM_BLOCK_ALLOCATED 1u
#define VRAM_BLOCK_HELD 2u /* freed, but work of other streams still uses it */

typedef struct vram_board_block {
  uint64_t size_bytes;
  uint64_t requested_bytes; /* at most size_bytes; 0: free, or unknown */
  uint64_t state;
} vram_board_block;

typedef struct vram_board_list {
  size_t struct_bytes; /* sizeof(vram_board_list) */
  const vram_board_segment* segments;
  size_t segment_count;
  size_t segment_bytes; /* sizeof(vram_board_segment) */
  /* Those of each segment by address, without gaps; those of the first segment first. */
  const vram_board_block* blocks;
  size_t block_count;
  size_t block_bytes; /* sizeof(vram_board_block) */
} vram_board_list;

/* Returns the number of the newest unanswered request, for vram_board_answer_segments(); 0: there
 * is none, or no page is open. From the first call on, the page states that this process answers.
 * Takes no lock and makes no system call, except for the first call in a fork, as
 * vram_board_post(). May be called from any thread; two threads may receive the same request. */
VRAM_API uint64_t vram_board_segments_request(void);
/* Answers the request with this number by a file in the folder of the page, which the requester
 * removes. The file has at most 8192 segments and 65,536 blocks; the last segments of a longer list
 * are left out and only counted. NULL: the segments cannot be listed. Has no effect if no page is
 * open. No two threads may call it at the same time.
 * VRAM_INVALID_VALUE: the sizes match no version of this library, or segments and blocks do not add
 * up. VRAM_FILE_FAILED: the file cannot be written. vram_last_error() has the details, and the
 * answer states that there is no list. */
VRAM_API vram_status vram_board_answer_segments(uint64_t number, const vram_board_list* list);

typedef enum vram_board_owner {
  VRAM_OWNER_ALIVE = 0,
  VRAM_OWNER_DEAD = 1,     /* the process ended and left its page */
  VRAM_OWNER_ELSEWHERE = 2 /* in another pid namespace (a container): state unknown */
} vram_board_owner;

/* Figures that the process has not posted are VRAM_UNKNOWN; a scope that it has not posted is "".
 */
typedef struct vram_board_page {
  size_t struct_bytes; /* set by the caller to sizeof(vram_board_page) */
  uint32_t pid;
  vram_board_owner owner;
  uint64_t posted_ns; /* CLOCK_MONOTONIC; 0: nothing posted, or no consistent copy could be read */
  uint64_t step;
  uint64_t step_ns;
  uint64_t device_count;
  vram_board_device devices[VRAM_BOARD_DEVICES];
  char scope[64];
  char command[216];
} vram_board_page;

/* Reads the page of another process of this user. The copy is consistent: it never mixes two posts.
 * Does not disturb the process. May be called from any thread.
 * VRAM_INVALID_VALUE: the process has no page, the page has another version, or struct_bytes
 * matches no version of this library; vram_last_error() has the details. */
VRAM_API vram_status vram_board_read(uint32_t pid, vram_board_page* page);

#ifdef __cplusplus
}
#endif

#endif

/* vram: what the GPUs of this machine and their processes use, and the board on which processes post what they know
 * themselves, as C functions of libvram.so.
 *
 *     vram_look* look;
 *     if (vram_look_open(NULL, &look) != VRAM_OK) … vram_last_error();
 *     vram_device_info info = {.struct_bytes = sizeof info};
 *     for (uint32_t i = 0; i < vram_look_device_count(look); ++i) vram_look_device(look, i, &info, NULL, NULL);
 *     vram_look_close(look);
 *
 * The rules of vram/vram.h hold here too. Unknown is not zero: a figure that the driver, its version or a permission
 * withholds is VRAM_UNKNOWN.
 */
#ifndef VRAM_LOOK_H
#define VRAM_LOOK_H

#include <vram/vram.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_UNKNOWN UINT64_MAX

/* ---------------------------------------------------------------------------------- devices and processes */

typedef struct vram_look vram_look;

/* Opens NVIDIA's management library: `library` names the file; NULL: the one that the environment variable VRAM_NVML
 * names, else libnvidia-ml.so.1. The driver can't be unloaded until the last close. Any thread.
 * VRAM_NO_DRIVER: no such library, or no driver; VRAM_NOT_SUPPORTED: it is not NVML, or does not start;
 * VRAM_INVALID_VALUE: look is NULL. vram_last_error() says why. */
VRAM_API vram_status vram_look_open(const char* library, vram_look** look);
/* No other call about it may run beside this one. VRAM_INVALID_VALUE: NULL. VRAM_FORKED: this process is a fork of the
 * one that opened it, and has nothing to close. */
VRAM_API vram_status vram_look_close(vram_look* look);
/* How many devices there are, those included that this process may not look at; 0 if the driver
 * does not say, and in a fork of the process that opened it. Any thread; waits no longer than the
 * driver's own call. */
VRAM_API uint32_t vram_look_device_count(vram_look* look);

/* Bytes, or VRAM_UNKNOWN. Where all four are known, total = used + reserved + free; where reserved
 * (the driver's own) is not, it is part of used. */
typedef struct vram_device_info {
  size_t struct_bytes; /* set by the caller to sizeof(vram_device_info); says the version of
                          vram_process_info, too */
  uint64_t total_bytes;
  uint64_t used_bytes;
  uint64_t free_bytes;
  uint64_t reserved_bytes;
  uint64_t busy_percent; /* of the time of the driver's last sample, in which a kernel ran; or
                            VRAM_UNKNOWN */
  uint64_t memory_busy_percent; /* in which memory was read or written: neither occupancy nor
                                   bandwidth */
  uint64_t process_count; /* of the list below, all of it; VRAM_UNKNOWN: the driver does not say */
  char name[96];          /* "": unknown, as for the texts below */
  char uuid[96];
  char trouble[96]; /* why the device says nothing, as "GPU is lost (15)"; "": nothing is wrong */
} vram_device_info;

#define VRAM_PROCESS_COMPUTE 1u
#define VRAM_PROCESS_GRAPHICS 2u

typedef struct vram_process_info {
  uint32_t pid; /* the host's: within a container there may be no such process */
  uint32_t kinds;
  uint64_t used_bytes;       /* or VRAM_UNKNOWN */
  uint32_t gpu_instance;     /* of MIG; UINT32_MAX: none */
  uint32_t compute_instance; /* of MIG; UINT32_MAX: none */
} vram_process_info;

/* A device now, and its processes by pid: as many as there are, but at most *capacity, which becomes how many were
 * written (both may be NULL: none). A device that fails is no error: it has a trouble and no figures. Any thread; waits
 * no longer than the driver's own calls.
 * VRAM_INVALID_VALUE: struct_bytes is of no version of this library. VRAM_FORKED: as for vram_look_close(). */
VRAM_API vram_status vram_look_device(vram_look* look, uint32_t index, vram_device_info* info,
                                      vram_process_info* processes, size_t* capacity);

/* ---------------------------------------------------------------------------------------------- the board */

/* The board is a folder of shared memory, /dev/shm/vram-<uid> (the environment variable VRAM_BOARD
 * names another; where that can't be had, $XDG_RUNTIME_DIR/vram), mode 0700, in which each process that posts has a page, mode 0600, named by its
 * pid. `vram top` reads it, `vram free` asks there for memory. */

#define VRAM_BOARD_DEVICES 16

/* Bytes, or VRAM_UNKNOWN. */
typedef struct vram_board_device {
  uint64_t device;
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
  uint64_t peak_bytes;   /* of allocated_bytes, as the process counts it */
  uint64_t cached_bytes; /* what a trim would give back */
} vram_board_device;

typedef struct vram_board_figures {
  size_t struct_bytes; /* sizeof(vram_board_figures) */
  uint64_t step;       /* how many are done; or VRAM_UNKNOWN */
  uint64_t step_ns;    /* how long the last one took; or VRAM_UNKNOWN */
  const char* scope; /* what the process is doing, cut off after 63 bytes; NULL: it does not say */
  const vram_board_device* devices; /* the first 16 are posted */
  size_t device_count;
} vram_board_figures;

/* Makes this process's page; nothing happens if there is one. It is removed by vram_board_close() and when the process
 * ends in an orderly way; what another leaves is seen to be of a dead process. Any thread.
 * VRAM_NOT_SUPPORTED: the folder or the page can't be made, or is not this user's alone; vram_last_error() says why. */
VRAM_API vram_status vram_board_open(void);
/* Removes the page; nothing is posted any more. Any thread. */
VRAM_API void vram_board_close(void);
/* Posts the figures, all of them, in place of those posted before. Nothing happens where no page is open, and where
 * another thread is posting: its figures are as new. Takes no lock and makes no call of the kernel, but for the first call
 * in a fork of a process that had a page: it makes the fork's own. Any thread.
 * VRAM_INVALID_VALUE: struct_bytes is of no version of this library. */
VRAM_API vram_status vram_board_post(const vram_board_figures* figures);

/* What somebody asks of this process, as `vram free` does: to give memory that it only caches back
 * to the device. */
typedef struct vram_board_wish {
  size_t struct_bytes; /* set by the caller to sizeof(vram_board_wish) */
  uint64_t number;     /* to answer with; 0: nobody asks */
  uint64_t device;     /* as this process posts it; VRAM_UNKNOWN: all */
  uint64_t bytes;      /* at least; VRAM_UNKNOWN: all that it can */
} vram_board_wish;

/* The newest request that was not answered; none where no page is open. A process that posts asks
 * this whenever it posts and may give memory back; while it may not (a graph is being captured) it
 * leaves the request for later. Takes no lock and makes no call of the kernel, but for the first
 * call in a fork, as vram_board_post(). Any thread; two threads may be told of the same request.
 * VRAM_INVALID_VALUE: struct_bytes is of no version of this library. */
VRAM_API vram_status vram_board_request(vram_board_wish* wish);
/* So many bytes came back by the request of that number; VRAM_UNKNOWN: nobody can tell. Nothing
 * happens where no page is open. Any thread. */
VRAM_API void vram_board_answer(uint64_t number, uint64_t bytes);

typedef enum vram_board_owner {
  VRAM_OWNER_ALIVE = 0,
  VRAM_OWNER_DEAD = 1,     /* it left its page behind */
  VRAM_OWNER_ELSEWHERE = 2 /* in another pid namespace (a container): not to be known from here */
} vram_board_owner;

/* Figures are VRAM_UNKNOWN, and scope is "", where the process has not posted them. */
typedef struct vram_board_page {
  size_t struct_bytes; /* set by the caller to sizeof(vram_board_page) */
  uint32_t pid;
  vram_board_owner owner;
  uint64_t posted_ns; /* CLOCK_MONOTONIC; 0: nothing was posted, or nothing whole could be read */
  uint64_t step;
  uint64_t step_ns;
  uint64_t device_count;
  vram_board_device devices[VRAM_BOARD_DEVICES];
  char scope[64];
  char command[216];
} vram_board_page;

/* The page of a process of this user, as a whole: never parts of two postings. Does not disturb the process. Any thread.
 * VRAM_INVALID_VALUE: no page of that process, none of this version, or struct_bytes of no version of this library;
 * vram_last_error() says which. */
VRAM_API vram_status vram_board_read(uint32_t pid, vram_board_page* page);

#ifdef __cplusplus
}
#endif

#endif

/* vram: a flight recorder, as a part of the C library (libvram.so).
 *
 *     vram_flight_start("flights", NULL);
 *     … the program runs; a request for memory fails: flights/flight.4711.oom.vtrace …
 *     vram_flight_stop();
 *
 * Retains the last steps (vram_step()) or minutes of the recording that vram_record_start() would
 * make, in two small files of the folder, and writes a complete recording when a request for memory
 * fails, before a crash or SIGTERM takes effect, and on request. Such a file begins with the memory
 * that was alive at its first moment, so its figures are exact. A process that ends by itself
 * leaves only these files. One that is killed (SIGKILL) also leaves flight.<pid>.vtrace, which
 * lacks at most the last 200 ms. It is a recording: a process has one or the other. Children of
 * fork() have none. The rules of vram.h about failures apply. */
#ifndef VRAM_FLIGHT_H
#define VRAM_FLIGHT_H

#include <vram/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set struct_bytes to sizeof(vram_flight_options); leave other fields 0 for their defaults. */
typedef struct vram_flight_options {
  size_t struct_bytes;
  vram_stacks stacks;
  /* How many files it keeps, besides those that it retains the last steps in; 0: 4. Beyond that,
   * the oldest one is removed. */
  uint32_t max_files;
  /* It retains at least so many steps or ns, whichever is reached first, and at most twice as many,
   * as far as max_bytes allows. 0: 100 steps, 10 minutes. */
  uint64_t steps;
  uint64_t duration_ns;
  /* The most that the two files take, at least 3 MiB; 0: 24 MiB. With its tables, a flight recorder
   * takes at most 64 MiB. */
  uint64_t max_bytes;
  /* 1: installs no handlers for SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and SIGTERM. The handlers
   * wait for the file for at most 3 s, and then do what was to be done before. */
  uint32_t ignores_signals;
  /* A signal that requests a file, such as SIGUSR2; 0: none. After vram_flight_stop() it has the
   * effect that it had before vram_flight_start(). */
  int on_signal;
  /* It also writes a file when the memory that is alive at the ends of steps has grown steadily by
   * so many bytes, and when the allocator takes memory from the device although so many bytes of
   * what it holds are unused, and more than the request needs. After a file, the next one needs
   * twice as many bytes. 0: 64 MiB and 512 MiB; UINT64_MAX: never. */
  uint64_t growth_bytes;
  uint64_t unused_bytes;
} vram_flight_options;

/* Starts the flight recorder. The folder is created if it does not exist. Also opens this process's
 * status page, so that `vram record --pid` can request a file.
 * VRAM_INVALID_VALUE: a recording is running, or invalid options. VRAM_FILE_FAILED: the folder or
 * the files cannot be created. vram_last_error() has the details. */
VRAM_API vram_status vram_flight_start(const char* folder, const vram_flight_options* options);
/* Stops it, and removes what it retains. Returns VRAM_OK if none runs. VRAM_FILE_FAILED: it had
 * stopped early, for example because the disk was full; vram_last_error() has the reason. */
VRAM_API vram_status vram_flight_stop(void);
/* Stops it as vram_flight_stop() does, for the time of a recording: until vram_flight_start() or
 * vram_flight_stop() is called, the signal of on_signal has no effect instead of its default one,
 * which ends most programs. */
VRAM_API vram_status vram_flight_rest(void);
VRAM_API int vram_flight_is_on(void);
/* Writes what is retained to a file of its own, and its path to `path`: at most `capacity` bytes,
 * the last of which is 0. Waits at most 3 s. VRAM_INVALID_VALUE: no flight recorder runs.
 * VRAM_FILE_FAILED: the file could not be written; vram_last_error() has the reason. */
VRAM_API vram_status vram_flight_dump(char* path, size_t capacity);
/* Waits, for at most 3 s, for the file of a failed request for memory that this thread has reported
 * (VRAM_EVENT_OOM). An allocator calls it after it has released its lock, before it returns the
 * failure. Costs a few ns if there is none. */
VRAM_API void vram_flight_settle(void);

#ifdef __cplusplus
}
#endif

#endif

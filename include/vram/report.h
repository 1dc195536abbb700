/* vram: recordings of GPU memory and their reports, as C functions of libvram_report.so.
 *
 *     vram_report* report;
 *     if (vram_report_open("run.vtrace", NULL, &report) != VRAM_REPORT_OK)
 *       … vram_report_last_error();
 *     char* text;
 *     if (vram_report_json(report, 50, &text) == VRAM_REPORT_OK) …;
 *     vram_report_free_text(text);
 *     struct ArrowArrayStream stream;
 *     if (vram_report_table(report, "allocations", &stream) == VRAM_REPORT_OK) …;
 *     stream.release(&stream);
 *     vram_report_close(report);
 *
 * The library is separate from libvram.so, which training processes load and which therefore
 * contains no reader. Rules for all functions:
 *   - A report never changes. Any thread may call any function at any time, several at once on one
 *     report, but none with a report while or after vram_report_close() closes it.
 *   - Every failure is a vram_report_status, and vram_report_last_error() is its message. A
 *     function that fails throws nothing, prints nothing, and sets its results to NULL.
 *   - A recording is data: nothing in a file is executed.
 *   - Sizes are bytes, and times are nanoseconds since the recording's first event. In a recording
 *     without a clock every time is the number of an event (docs/json.md).
 */
#ifndef VRAM_REPORT_H
#define VRAM_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <vram/arrow.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_REPORT_API __attribute__((visibility("default")))

typedef enum vram_report_status {
  VRAM_REPORT_OK = 0,
  VRAM_REPORT_OUT_OF_MEMORY = 1, /* of the host */
  VRAM_REPORT_INVALID_VALUE = 2, /* an invalid argument, or a moment that the recording lacks */
  VRAM_REPORT_NO_FILE = 3,       /* there is no such file */
  VRAM_REPORT_FILE_FAILED = 4,   /* the operating system does not let this process read the file */
  VRAM_REPORT_NO_RECORDING = 5,  /* the file is no recording, or damaged from its beginning on */
  VRAM_REPORT_TOO_LARGE =
      6, /* the recording is larger than max_bytes, or its stacks than 4 GiB as texts */
  VRAM_REPORT_FAILED = 7 /* anything else, such as no more threads for this process */
} vram_report_status;

/* A recording in memory, and its explanation. */
typedef struct vram_report vram_report;

/* Set `struct_bytes`; leave other fields 0 for their defaults. */
typedef struct vram_report_options {
  size_t struct_bytes; /* sizeof(vram_report_options) */
  uint64_t max_bytes;  /* of the decompressed recording; 0: 1 TiB */
} vram_report_options;

/* The version of the library, "1.2.3". */
VRAM_REPORT_API const char* vram_report_version(void);

/* Returns the error message of the last failed call on this thread: one line of UTF-8, valid until
 * the thread's next call that returns a status. */
VRAM_REPORT_API const char* vram_report_last_error(void);

/* Reads a recording, any file that `vram report` reads, and explains it. A truncated recording is
 * no error: the report covers what precedes the damage and says so.
 *
 * path: as the C library takes it; "-": standard input
 * options: NULL: the defaults
 */
VRAM_REPORT_API vram_report_status vram_report_open(const char* path,
                                                    const vram_report_options* options,
                                                    vram_report** report);

/* Closes it; NULL has no effect. Streams of its tables stay valid. */
VRAM_REPORT_API void vram_report_close(vram_report* report);

/* Returns the document that `vram report --json --top TOP` prints: vram.report/1, docs/json.md.
 *
 * top: holders listed in each breakdown; 0: all
 * text: to be freed with vram_report_free_text()
 */
VRAM_REPORT_API vram_report_status vram_report_json(const vram_report* report, size_t top,
                                                    char** text);

/* Returns the state of a device at a moment as JSON: the object `state` of vram.report/1.
 *
 * device: its index in `devices` of the report
 * at: as for `vram report --at`: 1.5s, 250ms, step:12, event:1234, peak, oom or oom:1
 */
VRAM_REPORT_API vram_report_status vram_report_state_json(const vram_report* report, size_t device,
                                                          const char* at, size_t top, char** text);

VRAM_REPORT_API void vram_report_free_text(char* text);

/* Returns the name of a table by its index: "events", "allocations", …; NULL after the last. */
VRAM_REPORT_API const char* vram_report_table_name(size_t index);

/* Starts a stream of the rows of a table; docs/load.md lists the columns. Release the
 * stream, and each array, as Arrow's specification requires. Functions of the stream return errno
 * values. */
VRAM_REPORT_API vram_report_status vram_report_table(const vram_report* report, const char* table,
                                                     struct ArrowArrayStream* stream);

#ifdef __cplusplus
}
#endif

#endif

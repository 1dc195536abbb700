/* Stands for cuDNN: it takes descriptors, prints the attributes that it gets to stderr, and has
 * three engines for each question. Like cuDNN's log, it can print to stdout as well: $PRINTS. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct descriptor {
  int kind;
  int64_t number; /* of the engine, and ten more for the others */
};

enum { engine = 2, config = 3, heuristic = 4, plan = 5, convolution = 1, tensor = 17, device = 38 };
static int64_t heuristic_mode;

size_t cudnnGetVersion(void) { return 91900; }

int cudnnCreate(void** handle) {
  const char* message = getenv("PRINTS");
  if (message && *message) {
    printf("%s\n", message);
    fflush(stdout);
  }
  *handle = getenv("PROCESSORS") ? &heuristic_mode : NULL;
  return *handle ? 0 : 1001;
}

int cudnnBackendCreateDescriptor(int kind, void** made) {
  struct descriptor* each = calloc(1, sizeof *each);
  each->kind = kind;
  *made = each;
  return 0;
}

int cudnnBackendDestroyDescriptor(void* made) {
  free(made);
  return 0;
}

int cudnnBackendSetAttribute(void* to, int name, int type, int64_t count, const void* values) {
  struct descriptor* each = to;
  if (each->kind == heuristic && name == 200) heuristic_mode = *(const int*)values;
  if (each->kind == plan && name == 401)
    each->number = (*(struct descriptor* const*)values)->number;
  if (type != 3) return 0; /* CUDNN_TYPE_INT64 */
  fprintf(stderr, "%d", name);
  for (int64_t i = 0; i < count; i++)
    fprintf(stderr, " %lld", (long long)((const int64_t*)values)[i]);
  fprintf(stderr, "\n");
  return 0;
}

int cudnnBackendFinalize(void* of) {
  const struct descriptor* each = of;
  return each->kind == plan && each->number == 1 ? 3000 : 0; /* the second engine has no plan */
}

int cudnnBackendGetAttribute(void* of, int name, int type, int64_t size, int64_t* count,
                             void* values) {
  const struct descriptor* each = of;
  (void)type;
  *count = 1;
  if (name == 202) { /* results of a heuristic */
    *count = 3;
    for (int64_t i = 0; i < size; i++)
      ((struct descriptor**)values)[i]->number = i + 10 * (heuristic_mode == 2);
  } else if (name == 300) { /* the engine of a configuration */
    ((struct descriptor**)values)[0]->number = each->number;
  } else if (name == 1303) { /* notes: the first engine uses tensor cores, the last of the others
                                converts inputs */
    *(int*)values = each->number == 12 ? 1 : 0;
    *count = each->number == 12 || each->number == 0;
  } else if (name == 402) { /* the workspace of a plan */
    *(int64_t*)values = each->number == 11 ? 0 : 1000 + each->number;
  } else if (name == 2702) {
    *count = 1 + snprintf(values, (size_t)size, "{\"deviceVer\": 900, \"multiProcessorCount\": %s}",
                          getenv("PROCESSORS"));
  }
  return 0;
}

// Writes the recording of training.hpp, for measuring whole commands on it; with a third word
// "stacks" with those:
//
//   build/release/bench/training_recording 10000000 training.vtrace
//   perf stat -e instructions:u build/release/src/vram report --json training.vtrace -o
//   /dev/null

#include "trace/vtrace/writer.hpp"
#include "training.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int count, char** words) {
  const bool has_stacks = count == 4 && std::strcmp(words[3], "stacks") == 0;
  if (count != 3 && !has_stacks) {
    std::fprintf(stderr, "usage: training_recording EVENTS OUT.vtrace [stacks]\n");
    return 2;
  }
  const uint64_t events = std::strtoull(words[1], nullptr, 10);
  const auto written =
      vram::trace::write_vtrace(vram::Training(has_stacks).record(events), words[2]);
  if (!written) std::fprintf(stderr, "error: %s\n", written.error().message.c_str());
  return written ? 0 : 1;
}

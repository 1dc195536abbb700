// Writes the recording of training.hpp without stacks, for measuring whole commands on it:
//
//   build/release/bench/training_recording 10000000 training.vtrace
//   perf stat -e instructions:u build/release/src/vram report --json training.vtrace -o
//   /dev/null

#include "trace/vtrace/writer.hpp"
#include "training.hpp"

#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: training_recording EVENTS OUT.vtrace\n");
    return 2;
  }
  const uint64_t events = std::strtoull(words[1], nullptr, 10);
  const auto written = vram::trace::write_vtrace(vram::Training(false).record(events), words[2]);
  if (!written) std::fprintf(stderr, "error: %s\n", written.error().message.c_str());
  return written ? 0 : 1;
}

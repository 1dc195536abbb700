// Encoding and decoding of .vtrace files in memory: events a second and bytes an event, on made-up
// training and, where VRAM_BENCH_TRACE names a recording, on that one.
#include "trace/open.hpp"
#include "trace/testing/synthetic_trace.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/reader.hpp"
#include "trace/vtrace/writer.hpp"

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace vram::trace {
namespace {

class MemorySink final : public VtraceSink {
 public:
  [[nodiscard]] Result<> write(std::string_view bytes) override {
    bytes_.append(bytes);
    return {};
  }
  [[nodiscard]] std::span<const uint8_t> bytes() const {
    return {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::string bytes_;
};

const Trace& recording() {
  static const Trace kTrace = [] {
    const char* path = std::getenv("VRAM_BENCH_TRACE");
    if (path == nullptr) return synthetic_trace({.events = 4'000'000});
    auto opened = open_trace(path);
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.error().message.c_str());
      std::exit(2);
    }
    return std::move(*opened);
  }();
  return kTrace;
}

void report(benchmark::State& state, size_t file_bytes) {
  const auto events = static_cast<double>(recording().events.size());
  state.counters["events/s"] = benchmark::Counter(events * static_cast<double>(state.iterations()),
                                                  benchmark::Counter::kIsRate);
  state.counters["bytes/event"] = static_cast<double>(file_bytes) / events;
}

void encode(benchmark::State& state) {
  const Trace& trace = recording();  // made before the clock runs
  size_t file_bytes = 0;
  for (auto _ : state) {
    MemorySink sink;
    if (!write_vtrace(trace, sink)) state.SkipWithError("not written");
    file_bytes = sink.bytes().size();
  }
  report(state, file_bytes);
}
BENCHMARK(encode)->Unit(benchmark::kMillisecond);

void decode(benchmark::State& state) {
  MemorySink sink;
  if (!write_vtrace(recording(), sink)) state.SkipWithError("not written");
  const MemorySource source(sink.bytes());
  for (auto _ : state) {
    auto trace = read_vtrace(source, "memory");
    if (!trace || trace->events.size() != recording().events.size())
      state.SkipWithError("not read");
  }
  report(state, sink.bytes().size());
}
BENCHMARK(decode)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace vram::trace

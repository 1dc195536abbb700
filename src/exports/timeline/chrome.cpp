// Chrome's trace event format: one JSON object for each event, in an array.
#include "base/export_marks.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/timeline/timeline.hpp"
#include "trace/export/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>

namespace vram::exports {
namespace {

using trace::append_json_string;
using trace::append_number;

// Devices are processes and tracks are their threads. The format has no groups within a process,
// and knows counters by their names.
class ChromeSink final : public TimelineSink {
 public:
  ChromeSink(ExportFile& file, int64_t begin_ns) : file_(file), begin_ns_(begin_ns) {}

  void write_head(const reports::Recording& recording) {
    std::string& out = file_.text();
    out += kChromeTraceStart;
    out += VRAM_VERSION;
    out += R"(","recording":)";
    append_json_string(out, recording.trace.origin.path);
    out += R"(,"begin_unix_ns":)";
    if (recording.trace.has_time)
      append_number(out, begin_ns_);
    else
      out += "null";
    out += R"(},"displayTimeUnit":"ns","traceEvents":[)";
  }
  void write_end() { file_.text() += "\n]}\n"; }

  void add_group(Id group, Id parent, std::string_view name) override {
    process_of_[group] = parent == 0 ? group : process_of_[parent];
    if (parent == 0) name_it("process_name", group, 0, name);
  }
  void add_counter(Id track, Id group, std::string_view name) override {
    process_of_[track] = process_of_[group];
    counter_names_[track] = name;
  }
  void add_track(Id track, Id group, std::string_view name) override {
    process_of_[track] = process_of_[group];
    name_it("thread_name", process_of_[track], track, name);
  }

  void count(Id track, int64_t time_ns, uint64_t bytes) override {
    start_event('C', track, time_ns);
    add_name(counter_names_[track]);
    file_.text() += R"(,"args":{"bytes":)";
    append_number(file_.text(), bytes);
    file_.text() += "}}";
    file_.flush_if_large();
  }
  void begin(Id track, int64_t time_ns, std::string_view name,
             std::span<const Argument> arguments) override {
    start_event('B', track, time_ns);
    add_name(name);
    finish_event(arguments);
  }
  void end(Id track, int64_t time_ns) override {
    start_event('E', track, time_ns);
    finish_event({});
  }
  void instant(Id track, int64_t time_ns, std::string_view name,
               std::span<const Argument> arguments) override {
    start_event('i', track, time_ns);
    add_name(name);
    file_.text() += R"(,"s":"t")";
    finish_event(arguments);
  }

 private:
  void separate() {
    file_.text() += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }
  void name_it(std::string_view kind, Id process, Id thread, std::string_view name) {
    separate();
    fmt::format_to(std::back_inserter(file_.text()),
                   R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":)", kind, process,
                   thread);
    append_json_string(file_.text(), name);
    file_.text() += "}}";
  }
  // Times are microseconds with three decimals.
  void start_event(char phase, Id track, int64_t time_ns) {
    separate();
    const auto since = static_cast<uint64_t>(std::max<int64_t>(time_ns - begin_ns_, 0));
    constexpr uint64_t kThousand = 1000;
    fmt::format_to(std::back_inserter(file_.text()),
                   R"({{"ph":"{}","pid":{},"tid":{},"ts":{}.{:03})", phase, process_of_[track],
                   track, since / kThousand, since % kThousand);
  }
  void add_name(std::string_view name) {
    file_.text() += R"(,"name":)";
    append_json_string(file_.text(), name);
  }
  void finish_event(std::span<const Argument> arguments) {
    std::string& out = file_.text();
    if (!arguments.empty()) {
      out += R"(,"args":)";
      char before = '{';
      for (const Argument& argument : arguments) {
        out += before;
        before = ',';
        append_json_string(out, argument.name);
        out += ':';
        if (const auto* number = std::get_if<uint64_t>(&argument.value))
          append_number(out, *number);
        else
          append_json_string(out, std::get<std::string_view>(argument.value));
      }
      out += '}';
    }
    out += '}';
    file_.flush_if_large();
  }

  ExportFile& file_;
  int64_t begin_ns_;
  bool is_first_ = true;
  std::unordered_map<Id, Id> process_of_;
  std::unordered_map<Id, std::string> counter_names_;
};

}  // namespace

Result<> write_chrome_trace(const reports::SharedRecording& recording, const std::string& path,
                            Replace replace) {
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  ChromeSink sink(file, timeline_begin_ns(*recording));
  sink.write_head(*recording);
  draw_timeline(*recording, sink);
  sink.write_end();
  return file.commit();
}

}  // namespace vram::exports

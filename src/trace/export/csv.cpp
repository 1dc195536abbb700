#include "trace/export/csv.hpp"

#include "base/own_formats.hpp"
#include "trace/export/escape.hpp"
#include "trace/export/event_rows.hpp"

namespace vram::trace {
namespace {

constexpr std::string_view kMoreColumns =
    "action,address,size_bytes,stream,pool,compile_id,user_metadata,stack,category\r\n";

void append_plain(std::string& out, std::string_view text) { out += text; }

class CsvRows {
 public:
  explicit CsvRows(const Trace& trace) : trace_(trace), frames_(trace.tables, append_plain) {}

  void operator()(std::string& out, const DeviceTrace& device, uint64_t index, const Event& event) {
    append_number(out, device.ordinal);
    out += ',';
    out += to_string(device.kind);
    out += ',';
    append_number(out, index);
    out += ',';
    if (trace_.has_time) append_number(out, event.time_ns);
    out += ',';
    out += to_string(event.kind);
    out += ',';
    append_address(out, event.address);
    out += ',';
    append_number(out, event.size_bytes);
    out += ',';
    append_number(out, trace_.tables.streams[event.stream]);
    out += ',';
    append_pool(out, event.pool);
    append_context(out, event.context);
    append_stack(out, event.stack);
    out += ',';
    append_csv_field(out, trace_.tables.strings[trace_.tables.contexts[event.context].category]);
    out += "\r\n";
  }

 private:
  void append_pool(std::string& out, PoolId pool) const {
    if (pool != kUnknownPool) {
      append_number(out, trace_.tables.pools[pool].first);
      out += ':';
      append_number(out, trace_.tables.pools[pool].second);
    }
    out += ',';
  }
  void append_context(std::string& out, ContextId id) const {
    const Context& context = trace_.tables.contexts[id];
    append_csv_field(out, trace_.tables.strings[context.compile_id]);
    out += ',';
    append_csv_field(out, trace_.tables.strings[context.user_metadata]);
    out += ',';
  }
  // Quoting depends on the whole field, so the field is kept with the stack it was made for:
  // neighbours share it.
  void append_stack(std::string& out, StackId stack) {
    if (stack != stack_) {
      std::string joined;
      for (const FrameId frame : trace_.tables.stacks[stack]) {
        if (!joined.empty()) joined += ';';
        joined += frames_[frame];
      }
      stack_field_.clear();
      append_csv_field(stack_field_, joined);
      stack_ = stack;
    }
    out += stack_field_;
  }

  const Trace& trace_;
  FrameTexts frames_;
  StackId stack_ = 0;
  std::string stack_field_;
};

}  // namespace

Result<> export_csv(const Trace& trace, const std::string& path, Replace replace) {
  const std::string head = std::string(kCsvStart).append(kMoreColumns);
  return export_rows(trace, path, replace, head, CsvRows(trace));
}

}  // namespace vram::trace

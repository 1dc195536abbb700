#include "trace/export/jsonl.hpp"

#include "base/own_formats.hpp"
#include "trace/export/escape.hpp"
#include "trace/export/event_rows.hpp"

namespace vram::trace {
namespace {

class JsonRows {
 public:
  explicit JsonRows(const Trace& trace)
      : trace_(trace), frames_(trace.tables, append_json_string) {}

  void operator()(std::string& out, const DeviceTrace& device, uint64_t index, const Event& event) {
    out += kJsonLinesStart;
    append_number(out, device.ordinal);
    out += kJsonLinesNext;
    out += to_string(device.kind);
    out += R"(","index":)";
    append_number(out, index);
    out += R"(,"time_ns":)";
    if (trace_.has_time)
      append_number(out, event.time_ns);
    else
      out += "null";
    out += R"(,"action":")";
    out += to_string(event.kind);
    out += R"(","address":")";
    append_address(out, event.address);
    out += R"(","size_bytes":)";
    append_number(out, event.size_bytes);
    out += R"(,"stream":)";
    append_number(out, trace_.tables.streams[event.stream]);
    append_pool(out, event.pool);
    append_context(out, event.context);
    append_stack(out, event.stack);
    out += "}\n";
  }

 private:
  void append_pool(std::string& out, PoolId pool) const {
    if (pool == kUnknownPool) {
      out += R"(,"pool":null)";
      return;
    }
    out += R"(,"pool":[)";
    append_number(out, trace_.tables.pools[pool].first);
    out += ',';
    append_number(out, trace_.tables.pools[pool].second);
    out += ']';
  }
  void append_context(std::string& out, ContextId id) const {
    const Context& context = trace_.tables.contexts[id];
    out += R"(,"compile_id":)";
    append_text(out, context.compile_id);
    out += R"(,"user_metadata":)";
    append_text(out, context.user_metadata);
    out += R"(,"category":)";
    append_text(out, context.category);
  }
  void append_text(std::string& out, StringId id) const {
    if (id == 0)
      out += "null";
    else
      append_json_string(out, trace_.tables.strings[id]);
  }
  void append_stack(std::string& out, StackId stack) {
    out += R"(,"stack":[)";
    bool is_first = true;
    for (const FrameId frame : trace_.tables.stacks[stack]) {
      if (!is_first) out += ',';
      out += frames_[frame];
      is_first = false;
    }
    out += ']';
  }

  const Trace& trace_;
  FrameTexts frames_;
};

}  // namespace

Result<> export_jsonl(const Trace& trace, const std::string& path, Replace replace) {
  return export_rows(trace, path, replace, "", JsonRows(trace));
}

}  // namespace vram::trace

#include "trace/export/export.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <iterator>

namespace vram::trace {

std::string frame_text(const Tables& tables, FrameId id) {
  const Frame& frame = tables.frames[id];
  std::string text = limit_bytes(tables.strings[frame.file], kMaxNameBytes);
  if (text.empty()) text = "?";
  if (frame.line != 0) {
    text += ':';
    append_number(text, frame.line);
  }
  const std::string function = limit_bytes(tables.strings[frame.function], kMaxNameBytes);
  if (!function.empty()) {
    text += ' ';
    text += function;
  }
  return text;
}

namespace {

void append_json_character(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20)
        fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
      else
        out += c;
  }
}

}  // namespace

void append_csv_field(std::string& out, std::string_view text) {
  const std::string valid = valid_utf8(text);
  // Readers may strip spaces around a bare field, and a lone empty one may vanish with its line.
  const bool is_padded = !valid.empty() && (valid.front() == ' ' || valid.back() == ' ');
  if (!is_padded && valid.find_first_of(",\"\r\n") == valid.npos) {
    out += valid;
    return;
  }
  out += '"';
  for (const char c : valid) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : valid_utf8(text)) append_json_character(out, c);
  out += '"';
}

namespace {

constexpr std::string_view kMoreColumns =
    "action,address,size_bytes,stream,pool,compile_id,user_metadata,stack,category\r\n";

void append_plain(std::string& out, std::string_view text) { out += text; }

void append_without_formulas(std::string& out, std::string_view text) {
  constexpr std::string_view kFormulas = "=+-@\t\r", kEnds = ";,\t\r\n";
  bool begins = true;
  for (const char c : text) {
    if (begins && kFormulas.find(c) != kFormulas.npos) out += '\'';
    out += c;
    begins = kEnds.find(c) != kEnds.npos;
  }
}

class CsvRows {
 public:
  CsvRows(const Trace& trace, CsvTexts texts)
      : trace_(trace),
        make_(texts == CsvTexts::kExact ? append_plain : append_without_formulas),
        frames_(trace.tables, make_) {}

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
    append_text(out, trace_.tables.contexts[event.context].category);
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
    append_text(out, context.compile_id);
    out += ',';
    append_text(out, context.user_metadata);
    out += ',';
  }
  void append_text(std::string& out, StringId id) const {
    std::string text;
    make_(text, trace_.tables.strings[id]);
    append_csv_field(out, text);
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
  FrameTexts::Make make_;
  FrameTexts frames_;
  StackId stack_ = 0;
  std::string stack_field_;
};

}  // namespace

Result<> export_csv(const Trace& trace, const std::string& path, Replace replace, CsvTexts texts) {
  const std::string head = std::string(kCsvStart).append(kMoreColumns);
  return export_rows(trace, path, replace, head, CsvRows(trace, texts));
}

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

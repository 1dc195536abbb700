#include "exports/torch/vram_part.hpp"

#include "base/text.hpp"
#include "exports/torch/end_state.hpp"
#include "trace/import/torch/keywords.hpp"
#include "trace/vtrace/frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::exports {
namespace {

namespace torch = trace::torch;
using trace::DeviceTrace;
using trace::Setting;

class VramPart {
 public:
  VramPart(const trace::Trace& trace, PickledTables& pickled)
      : trace_(trace), pickled_(pickled), out_(pickled.pickle()) {}

  void write(bool has_hosts_as_gpus) {
    out_.empty_dict();
    out_.mark();
    pickled_.keyword(torch::kVramVersion);
    out_.text(VRAM_VERSION);
    write_origin();
    write_items(torch::kVramAbout, trace_.about);
    write_devices(torch::kVramReplayedEnds,
                  [this](const DeviceTrace& device) { return !has_recorded_end(trace_, device); });
    write_devices(torch::kVramOverflowed,
                  [](const DeviceTrace& device) { return device.ring_overflowed; });
    write_devices(torch::kVramAsGpus, [&](const DeviceTrace&) { return has_hosts_as_gpus; });
    write_list(torch::kVramFigures, trace_.figures, [this](const trace::Figure& figure) {
      pickled_.text_item(torch::kVramFigure, figure.name);
      pickled_.item(torch::kDevice, figure.device);
      pickled_.time_items(figure.time_ns);
      pickled_.item(torch::kValue, figure.value);
    });
    write_list(torch::kVramMarks, trace_.marks, [this](const trace::Mark& mark) {
      pickled_.text_item(torch::kVramMark, mark.name);
      pickled_.item(torch::kMarkKindKey, static_cast<uint64_t>(mark.kind));
      pickled_.text_item(torch::kMarkGroup, mark.group);
      pickled_.item(torch::kDevice, mark.device);
      pickled_.item(torch::kSize, mark.size_bytes);
      pickled_.time_items(mark.time_ns);
      pickled_.item(torch::kDurationNs,
                    static_cast<uint64_t>(std::max<int64_t>(mark.duration_ns, 0)));
    });
    out_.set_items();
  }

 private:
  void write_items(std::string_view name, std::span<const Setting> items) {
    if (items.empty()) return;
    out_.text(name);
    out_.empty_dict();
    out_.mark();
    for (const Setting& item : items) {
      out_.text(std::string(torch::kVramItem) + valid_utf8(item.key));
      out_.text(valid_utf8(item.value));
    }
    out_.set_items();
  }

  template <typename Item, typename WriteMembers>
  void write_list(std::string_view name, const std::vector<Item>& list,
                  WriteMembers&& write_members) {
    if (list.empty()) return;
    out_.text(name);
    out_.empty_list();
    pickled_.items(list, [&](const Item& item) {
      out_.empty_dict();
      out_.mark();
      write_members(item);
      out_.set_items();
    });
  }

  template <typename Has>
  void write_devices(std::string_view name, Has&& has) {
    std::vector<Setting> found;
    for (const DeviceTrace& device : trace_.devices) {
      const char* const kind = device.kind == trace::DeviceKind::kHost ? "host" : "gpu";
      if (has(device)) found.push_back({fmt::format("{} {}", kind, device.ordinal), ""});
    }
    write_items(name, found);
  }

  void write_origin() {
    const trace::Origin& origin = trace_.origin;
    // Of several conversions, where the first began.
    const size_t from = origin.format.rfind(trace::kFormatFrom);
    const std::string format = from == origin.format.npos
                                   ? origin.format
                                   : origin.format.substr(from + trace::kFormatFrom.size());
    std::vector<Setting> items = {{std::string(torch::kVramFormat), format}};
    if (origin.truncated_at_byte)
      items.push_back(
          {std::string(torch::kVramTruncated), std::to_string(*origin.truncated_at_byte)});
    write_items(torch::kVramOrigin, items);
    items.clear();
    for (const trace::Note& note : origin.notes)
      items.push_back({note.text, std::to_string(note.count)});
    write_items(torch::kVramNotes, items);
  }

  const trace::Trace& trace_;
  PickledTables& pickled_;
  PickleWriter& out_;
};

}  // namespace

void write_vram_part(const trace::Trace& trace, trace::DeviceKind shown, PickledTables& pickled) {
  VramPart(trace, pickled).write(shown == trace::DeviceKind::kHost);
}

}  // namespace vram::exports

// A recording as a PyTorch memory snapshot: the dictionary that torch.cuda.memory._snapshot()
// returns, with what only vram knows under keys that PyTorch's programs ignore.
//
//     {'vram': …, 'segments': [{…, 'blocks': [{…}]}], 'device_traces': [[{'action': …}]],
//      'allocator_settings': {…}, 'external_annotations': [{…}]}
#include "base/export_marks.hpp"
#include "explain/history/history.hpp"
#include "explain/names/names.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/torch/end_state.hpp"
#include "exports/torch/pickle.hpp"
#include "exports/torch/pickled_tables.hpp"
#include "exports/torch/settings.hpp"
#include "exports/torch/vram_part.hpp"
#include "trace/import/torch/keywords.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::exports {
namespace {

namespace torch = trace::torch;
using enum trace::torch::Key;
using enum trace::torch::Word;
using explain::History;
using explain::Names;
using trace::Annotation;
using trace::Block;
using trace::BlockState;
using trace::Context;
using trace::DeviceKind;
using trace::DeviceTrace;
using trace::Event;
using trace::EventKind;
using trace::PoolId;
using trace::Segment;
using trace::StringId;
using trace::Tables;
using trace::Trace;
using trace::torch::Key;
using trace::torch::Word;

// What a device's events and blocks are to be written with.
struct DeviceExtras {
  std::optional<History> history;
  Names names;
};

DeviceExtras extras_of(const Trace& trace, const DeviceTrace& device) {
  DeviceExtras extras;
  const bool may_have_names = trace.tables.contexts.size() > 1;
  if (!may_have_names && has_recorded_end(trace, device)) return extras;
  extras.history = explain::replay_history(trace, device);
  if (may_have_names) extras.names = explain::find_names(trace, device, *extras.history);
  return extras;
}

Word word_of(BlockState state) {
  switch (state) {
    case BlockState::kAllocated:
      return kWordActiveAllocated;
    case BlockState::kPendingFree:
      return kWordActivePendingFree;
    case BlockState::kInactive:
      break;
  }
  return kWordInactive;
}

// Of entries without their pool, readers deduce it from the segments at the end.
bool names_pools(const Trace& trace) {
  const auto has_end = [&](const DeviceTrace& device) { return has_recorded_end(trace, device); };
  return trace.has_pools || (!std::ranges::all_of(trace.devices, has_end) &&
                             std::ranges::any_of(trace.events, &Event::pool));
}

class SnapshotWriter {
 public:
  SnapshotWriter(const Trace& trace, ExportFile& file)
      : trace_(trace),
        tables_(trace.tables),
        pickled_(trace.tables, file),
        out_(pickled_.pickle()),
        names_pools_(names_pools(trace)) {
    for (const DeviceTrace& device : trace.devices) {
      extras_.push_back(extras_of(trace, device));
      has_gpu_ = has_gpu_ || device.kind == DeviceKind::kGpu;
      has_labels_ = has_labels_ || extras_.back().names.has_labels();
    }
    for (trace::ContextId id = 0; id < tables_.contexts.size(); ++id)
      has_labels_ = has_labels_ || is_shown(tables_.contexts[id]);
    has_labels_ = has_labels_ && std::ranges::any_of(trace.events, [](const Event& event) {
                    return event.kind != EventKind::kAlloc;
                  });
  }

  void write();

 private:
  void flag_item(Key key, bool value) {
    pickled_.keyword(key);
    out_.boolean(value);
  }
  void pool_item(Key key, PoolId pool);

  void segments(DeviceKind kind);
  void segment(const DeviceTrace& device, const EndState& state, const Segment& segment);
  void block(const Block& block);
  void traces(DeviceKind kind);
  void events(size_t index);
  void entry(const Event& event, uint32_t lifetime, const Names& names);
  void action(const Event& event);
  void context(const Event& event, uint32_t lifetime, const Names& names);
  void annotations();

  // Is the event's own category one that a person gave?
  [[nodiscard]] bool is_shown(const Context& context) const {
    const std::string_view category = tables_.strings[context.category];
    return !category.empty() && category != trace::kFoundBlock && category != trace::kVramPool;
  }
  [[nodiscard]] std::string_view category_of(const Event& event, uint32_t lifetime,
                                             const Names& names);

  const Trace& trace_;
  const Tables& tables_;
  PickledTables pickled_;
  PickleWriter& out_;
  std::vector<DeviceExtras> extras_;  // by device
  bool has_gpu_ = false;
  bool has_labels_ = false;   // of blocks, and an entry without one
  bool has_unknown_ = false;  // an entry of no category is written
  bool names_pools_;
};

void SnapshotWriter::pool_item(Key key, PoolId pool) {
  pickled_.keyword(key);
  if (pool == trace::kUnknownPool) return out_.none();
  out_.unsigned_integer(tables_.pools[pool].first);
  out_.unsigned_integer(tables_.pools[pool].second);
  out_.pair();
}

// The state at the end.

void SnapshotWriter::block(const Block& block) {
  out_.empty_dict();
  out_.mark();
  pickled_.item(kAddress, block.address);
  pickled_.item(kSize, block.size_bytes);
  pickled_.item(kRequestedSize, block.requested_bytes);
  pickled_.word_item(kState, word_of(block.state));
  pickled_.keyword(kFrames);
  pickled_.frames(block.stack);
  out_.set_items();
}

void SnapshotWriter::segment(const DeviceTrace& device, const EndState& state,
                             const Segment& segment) {
  out_.empty_dict();
  out_.mark();
  pickled_.item(kDevice, uint64_t{device.ordinal});
  pickled_.item(kAddress, segment.address);
  pickled_.item(kTotalSize, segment.size_bytes);
  pickled_.item(kAllocatedSize, segment.claimed_allocated_bytes);
  pickled_.item(kActiveSize, segment.claimed_active_bytes);
  pickled_.item(kRequestedSize, segment.claimed_requested_bytes);
  pickled_.item(kStream, tables_.streams[segment.stream]);
  pickled_.word_item(kSegmentType, segment.is_small ? kWordSmall : kWordLarge);
  pool_item(kSegmentPoolId, segment.pool);
  flag_item(kIsExpandable, segment.is_expandable);
  pickled_.keyword(kFrames);
  pickled_.frames(segment.stack);
  pickled_.keyword(kBlocks);
  out_.empty_list();
  pickled_.items(state.blocks.span().subspan(segment.first_block, segment.block_count),
                 [this](const Block& each) { block(each); });
  out_.set_items();
}

void SnapshotWriter::segments(DeviceKind kind) {
  out_.empty_list();
  for (size_t i = 0; i < trace_.devices.size(); ++i) {
    const DeviceTrace& device = trace_.devices[i];
    if (device.kind != kind) continue;
    const EndState state = has_recorded_end(trace_, device)
                               ? recorded_end(device)
                               : replayed_end(trace_, device, *extras_[i].history);
    pickled_.items(state.segments, [&](const Segment& each) { segment(device, state, each); });
  }
}

// The events.

// The viewer colours blocks by it, if any entry has one. It fails if none is of this category.
std::string_view SnapshotWriter::category_of(const Event& event, uint32_t lifetime,
                                             const Names& names) {
  const Context& context = tables_.contexts[event.context];
  if (event.kind == EventKind::kAlloc) {
    if (names.label(lifetime) != 0) return explain::to_string(names.category(lifetime));
    if (is_shown(context)) return tables_.strings[context.category];
  }
  has_unknown_ = true;
  return "unknown";
}

// Unknown actions are written as they were read, except where they would be read as another.
void SnapshotWriter::action(const Event& event) {
  pickled_.keyword(kAction);
  if (event.kind != EventKind::kOther)
    return pickled_.keyword(*torch::find_keyword(trace::to_string(event.kind)));
  const StringId name = tables_.contexts[event.context].user_metadata;
  if (torch::find_keyword(tables_.strings[name]))
    out_.text(trace::to_string(event.kind));
  else
    pickled_.text(name);
}

void SnapshotWriter::context(const Event& event, uint32_t lifetime, const Names& names) {
  const Context& context = tables_.contexts[event.context];
  if (context.compile_id == 0)
    pickled_.word_item(kCompileContext, kWordNotAvailable);
  else
    pickled_.text_item(kCompileContext, context.compile_id);
  pickled_.text_item(kUserMetadata, event.kind == EventKind::kOther ? 0 : context.user_metadata);
  if (has_labels_ && (event.kind == EventKind::kAlloc || !has_unknown_)) {
    pickled_.keyword(kCategory);
    pickled_.word(category_of(event, lifetime, names));
  }
  if (context.category != 0) pickled_.text_item(kVramCategory, context.category);
  if (context.forward_stack != 0) {
    pickled_.keyword(kForwardFrames);
    pickled_.functions(context.forward_stack);
  }
}

void SnapshotWriter::entry(const Event& event, uint32_t lifetime, const Names& names) {
  out_.empty_dict();
  out_.mark();
  action(event);
  pickled_.item(event.kind == EventKind::kOom ? kDeviceFree : kAddr, event.address);
  pickled_.item(kSize, event.size_bytes);
  pickled_.item(kStream, tables_.streams[event.stream]);
  if (trace_.has_time) pickled_.time_items(event.time_ns);
  if (names_pools_) pool_item(kPoolIdKey, event.pool);
  context(event, lifetime, names);
  if (event.stack != 0) {
    pickled_.keyword(kFrames);
    pickled_.frames(event.stack);
  }
  out_.set_items();
}

void SnapshotWriter::events(size_t index) {
  const DeviceTrace& device = trace_.devices[index];
  const DeviceExtras& extras = extras_[index];
  out_.empty_list();
  uint64_t number = 0;
  pickled_.items(trace_.events_of(device), [&](const Event& event) {
    const uint64_t i = number++;
    const bool is_replayed = extras.history && i < extras.history->lifetime_of_event.size();
    const uint32_t lifetime =
        is_replayed ? extras.history->lifetime_of_event[i] : explain::kNoLifetime;
    entry(event, lifetime, extras.names);
  });
}

// A list for each device number up to the last.
void SnapshotWriter::traces(DeviceKind kind) {
  out_.empty_list();
  out_.mark();
  uint32_t next = 0;
  for (size_t i = 0; i < trace_.devices.size(); ++i) {
    const DeviceTrace& device = trace_.devices[i];
    if (device.kind != kind || device.ordinal >= torch::kMaxSnapshotDevices) continue;
    for (; next < device.ordinal; ++next) out_.empty_list();
    events(i);
    ++next;
  }
  out_.append_items();
}

void SnapshotWriter::annotations() {
  out_.empty_list();
  pickled_.items(std::span(trace_.annotations), [this](const Annotation& annotation) {
    out_.empty_dict();
    out_.mark();
    pickled_.word_item(kStage, annotation.is_begin ? kWordStart : kWordEnd);
    pickled_.text_item(kName, annotation.name);
    pickled_.item(kDevice, uint64_t{annotation.device});
    pickled_.time_items(annotation.time_ns);
    out_.set_items();
  });
}

void SnapshotWriter::write() {
  // Memory of the host alone is shown as that of a device: the viewer shows no other.
  const DeviceKind shown =
      has_gpu_ || trace_.devices.empty() ? DeviceKind::kGpu : DeviceKind::kHost;
  pickled_.begin(kSnapshotStart);
  write_vram_part(trace_, shown, pickled_);
  // So that readers have it before the entries.
  out_.set_items();
  out_.mark();
  pickled_.keyword(kSegments);
  segments(shown);
  pickled_.keyword(kDeviceTraces);
  traces(shown);
  const bool has_more = std::ranges::any_of(
      trace_.devices, [&](const DeviceTrace& device) { return device.kind != shown; });
  if (has_more) {
    pickled_.keyword(kHostSegments);
    segments(DeviceKind::kHost);
    pickled_.keyword(kHostTraces);
    traces(DeviceKind::kHost);
  }
  pickled_.keyword(kAllocatorSettings);
  write_settings(trace_.settings, out_);
  pickled_.keyword(kExternalAnnotations);
  annotations();
  out_.set_items();
  out_.stop();
}

}  // namespace

Result<> write_torch_snapshot(const Trace& trace, const std::string& path, Replace replace) {
  for (const DeviceTrace& device : trace.devices) {
    if (device.ordinal < torch::kMaxSnapshotDevices || device.event_count == 0) continue;
    return fail(Code::kUnsupported,
                "a PyTorch snapshot has a list for each device up to the last: expected device "
                "numbers below {}, found {}",
                torch::kMaxSnapshotDevices, device.ordinal);
  }
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  SnapshotWriter(trace, file).write();
  return file.commit();
}

}  // namespace vram::exports

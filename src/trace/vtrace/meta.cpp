#include "trace/vtrace/meta.hpp"

#include "base/varint.hpp"
#include "trace/vtrace/frames.hpp"

#include <algorithm>
#include <string>

namespace vram::trace {
namespace {

enum Tag : uint64_t {
  kOriginFormat = 1,
  kOriginTruncated = 2,
  kNote = 3,
  kSetting = 4,
  kAbout = 5,
  kDevice = 6,
  kRingOverflowed = 7,
};

void put_text(PodVector<uint8_t>& out, std::string_view text) {
  put_varint(out, text.size());
  out.append(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

Setting get_setting(VarintReader& body) {
  Setting setting;
  setting.key = get_text(body);
  setting.value = get_text(body);
  return setting;
}

Note get_note(VarintReader& body) {
  Note note;
  note.text = get_text(body);
  note.count = body.get();
  return note;
}

void add_device(VarintReader& body, std::vector<VtraceDevice>& devices) {
  const uint64_t kind = body.get();
  const uint64_t ordinal = body.get();
  const VtraceDevice device{.kind = static_cast<DeviceKind>(kind & 1),
                            .ordinal = static_cast<uint32_t>(ordinal)};
  const bool is_known = std::any_of(devices.begin(), devices.end(), [&](const VtraceDevice& other) {
    return other.kind == device.kind && other.ordinal == device.ordinal;
  });
  if (kind > 1 || ordinal >> 32 != 0 || is_known || devices.size() >= kMaxDevices) body.fail();
  if (!body.failed()) devices.push_back(device);
}

void read_record(uint64_t tag, VarintReader& body, Trace& trace,
                 std::vector<VtraceDevice>& devices) {
  switch (tag) {
    case kOriginFormat:
      trace.origin.format = get_text(body);
      return;
    case kOriginTruncated:
      trace.origin.truncated_at_byte = body.get();
      return;
    case kNote:
      trace.origin.notes.push_back(get_note(body));
      return;
    case kSetting:
      trace.settings.push_back(get_setting(body));
      return;
    case kAbout:
      trace.about.push_back(get_setting(body));
      return;
    case kDevice:
      add_device(body, devices);
      return;
    case kRingOverflowed: {
      const uint64_t device = body.get();
      if (device < devices.size())
        devices[device].ring_overflowed = true;
      else
        body.fail();
      return;
    }
    default:
      (void)body.take(body.left());
  }
}

}  // namespace

void MetaEncoder::put_record(uint64_t tag) {
  put_varint(content_, tag);
  put_varint(content_, body_.size());
  content_.append(body_.data(), body_.size());
  body_.truncate(0);
}

void MetaEncoder::put_origin_format(std::string_view format) {
  put_text(body_, format);
  put_record(kOriginFormat);
}

void MetaEncoder::put_origin_truncated(uint64_t at_byte) {
  put_varint(body_, at_byte);
  put_record(kOriginTruncated);
}

void MetaEncoder::put_note(const Note& note) {
  put_text(body_, note.text);
  put_varint(body_, note.count);
  put_record(kNote);
}

void MetaEncoder::put_setting(const Setting& setting) {
  put_text(body_, setting.key);
  put_text(body_, setting.value);
  put_record(kSetting);
}

void MetaEncoder::put_about(const Setting& about) {
  put_text(body_, about.key);
  put_text(body_, about.value);
  put_record(kAbout);
}

void MetaEncoder::put_device(DeviceKind kind, uint32_t ordinal) {
  put_varint(body_, static_cast<uint64_t>(kind));
  put_varint(body_, ordinal);
  put_record(kDevice);
}

void MetaEncoder::put_ring_overflowed(uint16_t device) {
  put_varint(body_, device);
  put_record(kRingOverflowed);
}

Result<> decode_meta(std::span<const uint8_t> content, Trace& trace,
                     std::vector<VtraceDevice>& devices) {
  VarintReader reader(content);
  while (reader.left() != 0) {
    const uint64_t tag = reader.get();
    VarintReader body(reader.take(reader.get()));
    if (reader.failed()) break;
    read_record(tag, body, trace, devices);
    if (!body.done()) return fail(Code::kBadInput, "a record of tag {} is damaged", tag);
  }
  if (!reader.done()) return fail(Code::kBadInput, "the records do not add up to their frame");
  return {};
}

void encode_index(std::span<const FrameHeader> frames, PodVector<uint8_t>& content) {
  content.truncate(0);
  put_varint(content, frames.size());
  uint64_t before = 0;
  for (const FrameHeader& header : frames) {
    const auto min_time = static_cast<uint64_t>(header.min_time_ns);
    const auto max_time = static_cast<uint64_t>(header.max_time_ns);
    put_varint(content, static_cast<uint64_t>(header.type));
    put_varint(content, header.flags);
    put_varint(content, header.device);
    put_varint(content, header.payload_bytes);
    put_varint(content, header.item_count);
    put_varint(content, header.first_event);
    put_signed(content, wrapping_difference(min_time, before));
    put_signed(content, wrapping_difference(max_time, min_time));
    before = min_time;
  }
}

}  // namespace vram::trace

// pprof's profile.proto, gzipped.
#include "base/export_marks.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/sites/sites.hpp"
#include "trace/profile_proto.hpp"

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace vram::exports {
namespace {

using protozero::pbf_writer;

namespace proto = trace::profile_proto;

class ProfileWriter {
 public:
  [[nodiscard]] std::string write(const reports::Recording& recording) {
    constexpr std::array kTypes = {
        std::pair("peak_space", "bytes"),   std::pair("peak_objects", "count"),
        std::pair("end_space", "bytes"),    std::pair("end_objects", "count"),
        std::pair("growth_space", "bytes"), std::pair("growth_objects", "count")};
    for (const auto& [type, unit] : kTypes) {
      pbf_writer value(profile_, proto::profile::kSampleType);
      value.add_int64(proto::value_type::kType, text(type));
      value.add_int64(proto::value_type::kUnit, text(unit));
    }
    profile_.add_int64(proto::profile::kDefaultSampleType, text(kTypes[0].first));
    if (recording.trace.has_time)
      profile_.add_int64(proto::profile::kTime, recording.report.devices.front().begin_unix_ns);
    comment(fmt::format("{}{}", kTextEnd, VRAM_VERSION));
    comment(fmt::format("recording: {}", recording.trace.origin.path));
    for (const DeviceSites& device : find_sites(recording)) {
      comment(fmt::format("{}: growth is {}", device.name, device.growth.text));
      for (const Site& site : device.sites) add_sample(recording.trace.tables, site);
    }
    for (const std::string& each : texts_) profile_.add_string(proto::profile::kText, each);
    return std::move(bytes_);
  }

 private:
  int64_t text(std::string_view of) {
    const auto [entry, is_new] =
        text_ids_.try_emplace(valid_utf8(of), static_cast<int64_t>(texts_.size()));
    if (is_new) texts_.push_back(entry->first);
    return entry->second;
  }
  void comment(std::string_view of) { profile_.add_int64(proto::profile::kComment, text(of)); }

  void add_sample(const trace::Tables& tables, const Site& site) {
    std::vector<uint64_t> locations;
    for (const explain::Frame& frame : frames_of(tables, site))
      locations.push_back(location(frame));
    const std::array<int64_t, 6> values = {site.peak.bytes, site.peak.count,   site.end.bytes,
                                           site.end.count,  site.growth.bytes, site.growth.count};
    std::vector<std::pair<int64_t, int64_t>> labels;
    for (const auto& [key, value] : site.labels) labels.emplace_back(text(key), text(value));
    pbf_writer sample(profile_, proto::profile::kSample);
    sample.add_packed_uint64(proto::sample::kLocations, locations.begin(), locations.end());
    sample.add_packed_int64(proto::sample::kValues, values.begin(), values.end());
    for (const auto& [key, value] : labels) {
      pbf_writer label(sample, proto::sample::kLabel);
      label.add_int64(proto::label::kKey, key);
      label.add_int64(proto::label::kText, value);
    }
  }

  uint64_t function(const explain::Frame& frame) {
    const int64_t name = text(frame.function);
    const int64_t file = text(frame.file);
    const auto [entry, is_new] = functions_.try_emplace({name, file}, functions_.size() + 1);
    if (is_new) {
      // Without a name of the linker: pprof would demangle that of <module> to nothing.
      pbf_writer written(profile_, proto::profile::kFunction);
      written.add_uint64(proto::function::kId, entry->second);
      written.add_int64(proto::function::kName, name);
      written.add_int64(proto::function::kFile, file);
    }
    return entry->second;
  }

  uint64_t location(const explain::Frame& frame) {
    const uint64_t in = function(frame);
    const auto [entry, is_new] = locations_.try_emplace({in, frame.line}, locations_.size() + 1);
    if (is_new) {
      pbf_writer written(profile_, proto::profile::kLocation);
      written.add_uint64(proto::location::kId, entry->second);
      pbf_writer line(written, proto::location::kLine);
      line.add_uint64(proto::line::kFunction, in);
      line.add_int64(proto::line::kNumber, frame.line);
    }
    return entry->second;
  }

  std::string bytes_;
  pbf_writer profile_{bytes_};
  std::vector<std::string> texts_ = {""};  // the first one must be empty
  std::unordered_map<std::string, int64_t> text_ids_ = {{"", 0}};
  std::map<std::pair<int64_t, int64_t>, uint64_t> functions_;
  std::map<std::pair<uint64_t, uint32_t>, uint64_t> locations_;
};

// With a comment that says who wrote the file.
Result<std::string> gzip(std::string_view bytes) {
  constexpr int kGzip = 16;  // added to the window bits
  constexpr int kMemoryLevel = 8;
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return fail(Code::kTooLarge, "compressing needs more memory than there is");
  std::string comment = std::string(kTextEnd).append(VRAM_VERSION);
  gz_header header = {};
  header.comment = reinterpret_cast<Bytef*>(comment.data());
  header.os = 3;  // Unix
  deflateSetHeader(&stream, &header);
  std::string out;
  std::array<char, size_t{64} << 10> room;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  size_t left = bytes.size();
  for (int state = Z_OK; state != Z_STREAM_END;) {
    const auto given = static_cast<uInt>(std::min<size_t>(left, UINT32_MAX));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = room.size();
    state = deflate(&stream, given == left ? Z_FINISH : Z_NO_FLUSH);
    left -= given - stream.avail_in;
    out.append(room.data(), room.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace

Result<> write_pprof(const reports::SharedRecording& recording, const std::string& path,
                     Replace replace) {
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  VRAM_TRY_ASSIGN(file.text(), gzip(ProfileWriter().write(*recording)));
  return file.commit();
}

}  // namespace vram::exports

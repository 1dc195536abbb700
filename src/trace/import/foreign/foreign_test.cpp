// size: what each reader reads, and what it refuses
#include "trace/import/foreign/foreign.hpp"

#include "trace/allocators.hpp"
#include "trace/testing/import_bytes.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace vram::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string unpacked(const std::string& name) {
  const std::string packed = test_file("foreign/" + name);
  auto source = decompressed(memory_source(bytes_of(packed))).value();
  std::string out;
  std::array<std::byte, 4096> room;
  while (const size_t count = source->read(room).value())
    out.append(reinterpret_cast<const char*>(room.data()), count);
  return out;
}

Result<Trace> import_as(ForeignForm form, std::string_view bytes) {
  const auto source = memory_source(bytes_of(bytes));
  return import_foreign(*source, form, {});
}

std::string refusal(ForeignForm form, std::string_view bytes) {
  const auto trace = import_as(form, bytes);
  return trace ? "" : trace.error().message;
}

std::vector<EventKind> kinds_of(const Trace& trace) {
  std::vector<EventKind> kinds;
  for (const Event& event : trace.events.span()) kinds.push_back(event.kind);
  return kinds;
}

std::vector<std::string> functions_of(const Trace& trace, StackId stack) {
  std::vector<std::string> names;
  for (const FrameId frame : trace.tables.stacks[stack])
    names.emplace_back(trace.tables.strings[trace.tables.frames[frame].function]);
  return names;
}

std::string profiler(std::string_view events) {
  return fmt::format(R"({{"schemaVersion":1,"baseTimeNanoseconds":1000,"traceEvents":[{}]}})",
                     events);
}

std::string memory_event(double ts, int64_t bytes, uint64_t address, int device, int type) {
  return fmt::format(
      R"({{"ph":"i","name":"[memory]","pid":1,"tid":7,"ts":{},"args":{{"Bytes":{},"Addr":{},)"
      R"("Device Id":{},"Device Type":{}}}}})",
      ts, bytes, address, device, type);
}

std::string call(std::string_view category, std::string_view name, double ts, double dur,
                 int tid = 7) {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":{},"ts":{},"dur":{}}})",
                     category, name, tid, ts, dur);
}

TEST(Foreign, FormsAreKnownByTheirFirstBytes) {
  const auto form = [](std::string_view text) { return foreign_form(bytes_of(text)); };
  EXPECT_EQ(form("Thread,Time,Acti"), ForeignForm::kRmmLog);
  EXPECT_EQ(form(" {\n    \"schemaVe"), ForeignForm::kProfilerTrace);
  EXPECT_EQ(form("{\"traceEvents\":["), ForeignForm::kProfilerTrace);
  EXPECT_EQ(form(std::string_view("\x0a\x04\x08\x01\x10\x02", 6)), ForeignForm::kHeapProfile);
  for (const std::string_view text : {"", "{", "{\"schema\": \"vram.report/1\"", "Thread",
                                      "\x80\x04", "\x0a\x30\xe2\x03\x2d\x72\x15", "{\"exporter\":"})
    EXPECT_EQ(form(text), std::nullopt) << text;
}

TEST(Profiler, AnEventHasTheCallsAroundItOnItsThread) {
  const auto trace = import_as(
      ForeignForm::kProfilerTrace,
      profiler(call("python_function", "train.py(12): step", 0, 100) + "," +
               call("cpu_op", "aten::linear", 10, 20) + "," + call("cpu_op", "aten::empty", 12, 5) +
               "," + call("cpu_op", "aten::relu", 0, 100, 8) + "," +
               memory_event(14, 512, 0x1000, 1, 1) + "," + memory_event(50, -512, 0x1000, 1, 1)));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_THAT(kinds_of(*trace), ElementsAre(EventKind::kSegmentAlloc, EventKind::kAlloc,
                                            EventKind::kFreeCompleted, EventKind::kSegmentFree));
  EXPECT_EQ(trace->devices.at(0).ordinal, 1U);
  EXPECT_EQ(trace->events[1].time_ns, 15'000);
  EXPECT_EQ(trace->events[1].size_bytes, 512U);
  EXPECT_THAT(functions_of(*trace, trace->events[1].stack), ElementsAre("aten::linear", "step"));
  EXPECT_THAT(functions_of(*trace, trace->events[2].stack), ElementsAre("step"));
  const Frame& line = trace->tables.frames[trace->tables.stacks[trace->events[2].stack][0]];
  EXPECT_EQ(trace->tables.strings[line.file], "train.py");
  EXPECT_EQ(line.line, 12U);
  EXPECT_EQ(trace->settings.at(0).value, kUnknownAllocator);
}

TEST(Profiler, HostMemoryIsLeftOutWhereADeviceWasProfiled) {
  const auto both = import_as(
      ForeignForm::kProfilerTrace,
      profiler(memory_event(1, 64, 0x40, -1, 0) + "," + memory_event(2, 512, 0x1000, 0, 1)));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->devices.size(), 1U);
  EXPECT_EQ(both->devices[0].kind, DeviceKind::kGpu);
  EXPECT_EQ(both->origin.notes.at(0).count, 1U);
  const auto host =
      import_as(ForeignForm::kProfilerTrace, profiler(memory_event(1, 64, 0x40, -1, 0)));
  ASSERT_TRUE(host);
  EXPECT_EQ(host->devices.at(0).kind, DeviceKind::kHost);
}

TEST(Profiler, SaysWhatIsMissing) {
  EXPECT_THAT(refusal(ForeignForm::kProfilerTrace, profiler(call("cpu_op", "aten::mm", 0, 1))),
              HasSubstr("profile_memory=True"));
  EXPECT_THAT(refusal(ForeignForm::kProfilerTrace, R"({"schemaVersion":1})"),
              HasSubstr("without \"traceEvents\""));
  EXPECT_THAT(refusal(ForeignForm::kProfilerTrace, R"({"schemaVersion":1,])"),
              HasSubstr("an error at byte"));
  const std::string huge = R"({"schemaVersion":")" + std::string((size_t{16} << 20) + 10, 'x');
  EXPECT_THAT(refusal(ForeignForm::kProfilerTrace, huge), HasSubstr("texts of at most 16 MiB"));
}

TEST(Profiler, ImpossibleNumbersAreLeftOutAndCounted) {
  const auto trace = import_as(
      ForeignForm::kProfilerTrace,
      profiler(memory_event(1e300, 512, 0x1000, 0, 1) + "," + memory_event(1, 0, 0x1000, 0, 1) +
               "," + memory_event(1, INT64_MIN, 0x1000, 0, 1) + "," +
               memory_event(1, 512, 0x1000, 1 << 30, 1) + "," +
               memory_event(1, 512, 0x1000, 0, 1)));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 2U);
  EXPECT_TRUE(
      std::ranges::any_of(trace->origin.notes, [](const Note& note) { return note.count == 4; }));
}

TEST(Profiler, NestingIsLimited) {
  std::string events;
  for (int i = 0; i < 3000; ++i) events += call("cpu_op", fmt::format("op{}", i), i, 9000) + ",";
  const auto trace = import_as(ForeignForm::kProfilerTrace,
                               profiler(events + memory_event(5000, 512, 0x1000, 0, 1)));
  ASSERT_TRUE(trace);
  const auto functions = functions_of(*trace, trace->events[0].stack);
  EXPECT_EQ(functions.size(), 256U);
  EXPECT_EQ(functions.front(), "op2999");
}

TEST(Rmm, RowsBecomeEvents) {
  const auto trace = import_as(ForeignForm::kRmmLog, unpacked("rmm.csv"));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->events.size(), 11U);
  EXPECT_EQ(trace->events[8].kind, EventKind::kOom);
  EXPECT_EQ(trace->events[8].size_bytes, 9'000'000'000U);
  EXPECT_EQ(trace->events[3].size_bytes, 1000U);
  EXPECT_EQ(trace->tables.streams[trace->events[3].stream], 0x7f8a'3800'1020U);
  // 0.1 s after midnight.
  EXPECT_EQ(trace->events[6].time_ns - trace->events[0].time_ns, 258'039'000);
  EXPECT_FALSE(trace->origin.truncated_at_byte);
}

TEST(Rmm, ALineCutShortMakesATruncatedRecording) {
  const std::string log = unpacked("rmm.csv");
  const auto trace = import_as(ForeignForm::kRmmLog, log.substr(0, log.size() - 1));
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->events.size(), 9U);
  EXPECT_TRUE(trace->origin.truncated_at_byte);
}

TEST(Rmm, TimesOfOtherVersionsAreRead) {
  const auto trace = import_as(ForeignForm::kRmmLog,
                               "Thread,Time,Action,Pointer,Size,Stream\n"
                               "1,1634567890.25,allocate,0x1000,512,0\n"
                               "1,1634567891,free,0x1000,512,0\n");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->events[0].time_ns, 1'634'567'890'250'000'000);
  EXPECT_EQ(trace->events[3].time_ns, 1'634'567'891'000'000'000);
  const auto older = import_as(ForeignForm::kRmmLog,
                               "Thread,Time,Action,Pointer,Size,Stream\n"
                               "1,00:00:01:000250,allocate,0x1000,512,0x0\n");
  ASSERT_TRUE(older) << older.error().message;
  EXPECT_EQ(older->events[0].time_ns, 1'000'250'000);
}

TEST(Rmm, SaysWhereALineIsWrong) {
  const auto with = [](std::string_view row) {
    return refusal(ForeignForm::kRmmLog,
                   fmt::format("Thread,Time,Action,Pointer,Size,Stream\n{}\n", row));
  };
  EXPECT_THAT(with("1,00:00:01.0,allocate,0x1000,512"),
              HasSubstr("line 2: expected 6 columns, found 5"));
  EXPECT_THAT(with("1,noon,allocate,0x1000,512,0"), HasSubstr("a time such as 15:47:02.841961"));
  EXPECT_THAT(with("1,99999999999999,allocate,0x1000,512,0"), HasSubstr("a time such as"));
  for (const char* time : {"24:00:00.0", "00:60:00.0", "00:00:61.0", "99:99:99"})
    EXPECT_THAT(
        with(fmt::format("1,{},allocate,0x1000,512,0", time)),
        HasSubstr(fmt::format("expected a time such as 15:47:02.841961, found '{}'", time)));
  EXPECT_THAT(with("1,00:00:01.0,resize,0x1000,512,0"), HasSubstr("found 'resize'"));
  EXPECT_THAT(with("1,00:00:01.0,allocate,here,512,0"), HasSubstr("an address"));
  EXPECT_THAT(with("1,00:00:01.0,allocate,0x1000,-1,0"), HasSubstr("a size in bytes"));
}

// A profile of one sample with these values, of the types "space" and "count".
std::string profile(int64_t bytes, int64_t count, int repeated_frames = 1) {
  std::string out;
  protozero::pbf_writer writer(out);
  for (const auto& [type, unit] : {std::pair(1, 2), std::pair(3, 4)}) {
    protozero::pbf_writer value(writer, 1);
    value.add_int64(1, type);
    value.add_int64(2, unit);
  }
  {
    protozero::pbf_writer sample(writer, 2);
    const std::vector<uint64_t> locations(static_cast<size_t>(repeated_frames), 1);
    sample.add_packed_uint64(1, locations.begin(), locations.end());
    const std::array values = {bytes, count};
    sample.add_packed_int64(2, values.begin(), values.end());
  }
  {
    protozero::pbf_writer location(writer, 4);
    location.add_uint64(1, 1);
    for (int i = 0; i < repeated_frames; ++i) {
      protozero::pbf_writer line(location, 4);
      line.add_uint64(1, 1);
    }
  }
  {
    protozero::pbf_writer function(writer, 5);
    function.add_uint64(1, 1);
    function.add_int64(2, 5);
  }
  for (const char* text : {"", "space", "bytes", "objects", "count", "f"})
    writer.add_string(6, text);
  return out;
}

TEST(HeapProfile, ASampleIsItsBlocks) {
  const auto trace = import_as(ForeignForm::kHeapProfile, profile(1001, 4));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->devices.size(), 1U);
  std::vector<uint64_t> sizes;
  for (const Block& block : trace->devices[0].blocks.span()) sizes.push_back(block.size_bytes);
  EXPECT_THAT(sizes, ElementsAre(251, 250, 250, 250));
  EXPECT_EQ(trace->devices[0].segments.at(0).size_bytes, 1001U);
  EXPECT_THAT(functions_of(*trace, trace->devices[0].blocks[0].stack), ElementsAre("f"));
}

TEST(HeapProfile, CountsThatNoMemoryCouldListAreOneBlock) {
  const auto trace = import_as(ForeignForm::kHeapProfile, profile(int64_t{1} << 60, INT64_MAX));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->devices[0].blocks.size(), 1U);
  EXPECT_EQ(trace->origin.notes.back().count, 1U);
}

TEST(HeapProfile, ImpossibleOnesAreRefused) {
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, profile(-1, 1)), HasSubstr("found -1 bytes"));
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, profile(INT64_MAX, 1)), HasSubstr("4 EiB"));
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, profile(1, 1, 9000)),
              HasSubstr("frames in all, found more"));
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, profile(1, 1).substr(0, 30)),
              HasSubstr("damaged protobuf"));
  std::string no_bytes = profile(1, 1);
  no_bytes.replace(no_bytes.find("bytes"), 5, "hours");
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, no_bytes), HasSubstr("a sample type in bytes"));
}

TEST(HeapProfile, DevicesAreLimited) {
  std::string bytes = profile(1, 1);
  protozero::pbf_writer writer(bytes);
  writer.add_string(6, "device");
  for (int i = 0; i < 1025; ++i) {
    {
      protozero::pbf_writer sample(writer, 2);
      const std::array<int64_t, 2> values = {1, 1};
      sample.add_packed_int64(2, values.begin(), values.end());
      protozero::pbf_writer label(sample, 3);
      label.add_int64(1, 6);
      label.add_int64(2, 7 + i);
    }
    writer.add_string(6, fmt::format("cuda:{}", i));
  }
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, bytes), HasSubstr("at most 1,024 devices"));
}

TEST(HeapProfile, FieldsOfAnotherTypeAreSkipped) {
  std::string bytes = profile(1001, 4);
  protozero::pbf_writer writer(bytes);
  for (const uint32_t field : {1U, 2U, 4U, 5U, 6U}) writer.add_uint64(field, 3);
  {
    protozero::pbf_writer function(writer, 5);
    for (const uint32_t field : {1U, 2U, 4U}) function.add_string(field, "text");
  }
  const auto trace = import_as(ForeignForm::kHeapProfile, bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->devices[0].blocks.size(), 4U);
}

// A part without content takes 2 bytes, and a number 1.
TEST(HeapProfile, PartsAreLimited) {
  const std::string head = profile(1001, 4);
  const auto repeated = [](std::string_view part, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += part;
    return out;
  };
  constexpr size_t kMany = 5'000'000;
  for (const std::string_view part : {std::string_view("\x12\x00", 2), {"\x32\x00", 2}})
    EXPECT_THAT(refusal(ForeignForm::kHeapProfile, head + repeated(part, kMany)),
                HasSubstr("at most 4,194,304 messages"));
  std::string numbers = head;
  {
    protozero::pbf_writer writer(numbers);
    protozero::pbf_writer sample(writer, 2);
    sample.add_string(1, std::string(34'000'000, '\1'));
  }
  EXPECT_THAT(refusal(ForeignForm::kHeapProfile, numbers), HasSubstr("33,554,432 numbers"));
}

// TensorFlow 2.21 on the processor, and the figures that its own protobuf classes give.
TEST(XSpace, MemoryEventsOfARealProfile) {
  const auto trace = import_as(ForeignForm::kXSpace, unpacked("xprof.xplane.pb.gz"));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->devices.size(), 1U);
  EXPECT_EQ(trace->devices[0].kind, DeviceKind::kHost);
  const auto kinds = kinds_of(*trace);
  EXPECT_EQ(std::ranges::count(kinds, EventKind::kAlloc), 114);
  EXPECT_EQ(std::ranges::count(kinds, EventKind::kFreeCompleted), 114);
  EXPECT_TRUE(std::ranges::is_sorted(trace->events.span(), {}, &Event::time_ns));
  EXPECT_GT(trace->events[0].time_ns, int64_t{1'795'000'000} * 1'000'000'000);
  std::map<uint64_t, uint64_t> live;
  uint64_t now = 0;
  uint64_t peak = 0;
  std::vector<std::string> at_peak;
  for (const Event& event : trace->events.span()) {
    if (event.kind == EventKind::kAlloc) now += live[event.address] = event.size_bytes;
    if (event.kind == EventKind::kFreeCompleted) {
      now -= live[event.address];
      live[event.address] = 0;
    }
    if (now <= peak) continue;
    peak = now;
    at_peak = functions_of(*trace, event.stack);
  }
  EXPECT_EQ(peak, 25304U);
  EXPECT_THAT(at_peak, ElementsAre("adam/Square", "output [32,64]"));
  std::vector<std::string> steps;
  for (const Annotation& annotation : trace->annotations)
    if (annotation.is_begin) steps.emplace_back(trace->tables.strings[annotation.name]);
  EXPECT_THAT(steps, ElementsAre("ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"));
}

TEST(XSpace, FormsAreRecognized) {
  const auto form = [](const std::string& bytes) {
    return foreign_form(bytes_of(std::string_view(bytes).substr(0, 16)));
  };
  EXPECT_EQ(form(unpacked("xprof.xplane.pb.gz")), ForeignForm::kXSpace);
  EXPECT_EQ(form(unpacked("xprof_memory_profile.json.gz")), ForeignForm::kMemoryProfile);
  EXPECT_EQ(form("{\"numHosts\": 1, \"memor"), ForeignForm::kMemoryProfile);
  EXPECT_EQ(form(std::string("\x0a\x99\x01\x08\x05\x12\x10/device:GPU", 18)), ForeignForm::kXSpace);
  EXPECT_EQ(form(std::string("\x0a\x99\x01\x12\x07whatever", 13)), std::nullopt);
}

TEST(XSpace, ProfilesWithoutMemoryAreRefused) {
  std::string bytes;
  {
    protozero::pbf_writer space(bytes);
    protozero::pbf_writer plane(space, 1);
    plane.add_string(2, "/host:CPU");
  }
  EXPECT_THAT(refusal(ForeignForm::kXSpace, bytes), HasSubstr("no memory events"));
  EXPECT_THAT(refusal(ForeignForm::kXSpace, bytes.substr(0, 5)), HasSubstr("damaged protobuf"));
}

// An event of a block at 0x10, or of its end.
void add_xspace_event(protozero::pbf_writer& line, uint64_t name, uint64_t offset_ps,
                      int empty_stats) {
  protozero::pbf_writer event(line, 4);
  event.add_uint64(1, name);
  event.add_uint64(2, offset_ps);
  for (const auto& [stat_name, value] : {std::pair(1, 16), std::pair(2, 512)}) {
    protozero::pbf_writer stat(event, 4);
    stat.add_int64(1, stat_name);
    stat.add_int64(4, value);
  }
  for (int i = 0; i < empty_stats; ++i) event.add_string(4, "");
}

TEST(XSpace, FieldsComeInAnyOrderAndNumber) {
  std::string bytes;
  {
    protozero::pbf_writer space(bytes);
    protozero::pbf_writer plane(space, 1);
    plane.add_string(2, "/host:CPU");
    {
      protozero::pbf_writer line(plane, 3);
      add_xspace_event(line, 1, 2'000'000, 0);
      add_xspace_event(line, 2, 1'000'000, 10'000);
      line.add_int64(3, 5'000);
    }
    for (const auto& [field, key, name] :
         {std::tuple(4, 1, "MemoryDeallocation"), std::tuple(4, 2, "MemoryAllocation"),
          std::tuple(5, 1, "addr"), std::tuple(5, 2, "allocation_bytes")}) {
      protozero::pbf_writer entry(plane, static_cast<uint32_t>(field));
      entry.add_int64(1, key);
      protozero::pbf_writer value(entry, 2);
      value.add_string(2, name);
    }
  }
  const auto trace = import_as(ForeignForm::kXSpace, bytes);
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_THAT(kinds_of(*trace), ElementsAre(EventKind::kSegmentAlloc, EventKind::kAlloc,
                                            EventKind::kFreeCompleted, EventKind::kSegmentFree));
  EXPECT_EQ(trace->events[0].time_ns, 6'000);
  EXPECT_EQ(trace->events[2].time_ns, 7'000);
}

// What XProf itself counts at the peak of the allocator.
TEST(MemoryProfile, HoldersOfARealProfile) {
  const auto trace =
      import_as(ForeignForm::kMemoryProfile, unpacked("xprof_memory_profile.json.gz"));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->devices.size(), 1U);
  const DeviceTrace& device = trace->devices[0];
  ASSERT_EQ(device.blocks.size(), 12U);
  EXPECT_EQ(device.segments.at(0).size_bytes, 76544U);
  EXPECT_EQ(device.segments.at(0).claimed_requested_bytes, 70360U);
  uint64_t of_sqrt = 0;
  for (const Block& block : device.blocks.span())
    if (functions_of(*trace, block.stack).front() == "adam/Sqrt_1") of_sqrt += block.size_bytes;
  EXPECT_EQ(of_sqrt, 12288U);
}

TEST(MemoryProfile, ImpossibleOnesAreRefused) {
  const auto profile = [](std::string_view bytes, std::string_view count) {
    return fmt::format(
        R"({{"memoryProfilePerAllocator":{{"GPU_1_bfc":{{"activeAllocations":[{{"snapshotIndex":0,)"
        R"("numOccurrences":{}}},{{"snapshotIndex":5}},7],"memoryProfileSnapshots":[)"
        R"({{"activityMetadata":{{"allocationBytes":"{}"}}}}]}}}}}})",
        count, bytes);
  };
  const auto trace = import_as(ForeignForm::kMemoryProfile, profile("512", "\"3\""));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->devices.at(0).ordinal, 1U);
  EXPECT_EQ(trace->devices.at(0).blocks.size(), 3U);
  EXPECT_EQ(trace->origin.notes.back().count, 2U) << "entries that refer to nothing";
  EXPECT_THAT(refusal(ForeignForm::kMemoryProfile, profile("9223372036854775807", "3")),
              HasSubstr("4 EiB"));
  EXPECT_THAT(refusal(ForeignForm::kMemoryProfile, "{\"numHosts\":1}"),
              HasSubstr("memoryProfilePerAllocator"));
  EXPECT_THAT(refusal(ForeignForm::kMemoryProfile, "{\"numHosts\""), HasSubstr("damaged JSON"));
  const auto many = import_as(ForeignForm::kMemoryProfile, profile("1", "2147483647"));
  ASSERT_TRUE(many) << many.error().message;
  EXPECT_EQ(many->devices.at(0).blocks.size(), 1U);
}

TEST(MemoryProfile, AllocatorsOfOneNameAreDevicesOfTheirOwn) {
  const auto profile = [](int count) {
    std::string allocators;
    for (int i = 0; i < count; ++i)
      allocators += fmt::format(
          R"({}"GPU_0_{}":{{"activeAllocations":[{{"snapshotIndex":0}}],"memoryProfileSnapshots":[)"
          R"({{"activityMetadata":{{"allocationBytes":1}}}}]}})",
          i == 0 ? "" : ",", i);
    return fmt::format(R"({{"memoryProfilePerAllocator":{{{}}}}})", allocators);
  };
  const auto trace = import_as(ForeignForm::kMemoryProfile, profile(1000));
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->devices.size(), 1000U);
  EXPECT_EQ(trace->devices.back().ordinal, 999U);
  EXPECT_THAT(refusal(ForeignForm::kMemoryProfile, profile(1100)), HasSubstr("1,024 members"));
}

TEST(MemoryProfile, SmallFilesMakeNoLargeDocument) {
  for (const std::string_view part : {"[", "{\"a\":", "[[],[],"})
    EXPECT_THAT(refusal(
                    ForeignForm::kMemoryProfile, std::string("{\"memoryProfilePerAllocator\":") +
                                                     [&] {
                                                       std::string nested;
                                                       for (int i = 0; i < 1'000'000; ++i)
                                                         nested += part;
                                                       return nested;
                                                     }()),
                HasSubstr("16 levels"));
  std::string wide = "{\"memoryProfilePerAllocator\":[0";
  for (int i = 0; i < 5'000'000; ++i) wide += ",0";
  EXPECT_THAT(refusal(ForeignForm::kMemoryProfile, wide + "]}"), HasSubstr("4,194,304 values"));
}

// Real files, cut at many places and with changed bytes: no crash, and every error has a text.
TEST(Foreign, DamagedFilesGiveAnErrorOrATrace) {
  const std::vector<std::pair<ForeignForm, std::string>> files = {
      {ForeignForm::kProfilerTrace, unpacked("torch_profiler.json.xz").substr(0, 60'000)},
      {ForeignForm::kRmmLog, unpacked("rmm.csv")},
      {ForeignForm::kHeapProfile, unpacked("jax_memory.pb.gz")},
      {ForeignForm::kXSpace, unpacked("xprof.xplane.pb.gz")},
      {ForeignForm::kMemoryProfile, unpacked("xprof_memory_profile.json.gz")}};
  std::mt19937 random(11);  // NOLINT(cert-msc32-c,cert-msc51-cpp): repeatable
  for (const auto& [form, bytes] : files) {
    const size_t step = std::max<size_t>(1, bytes.size() / 300);
    for (size_t end = 0; end < bytes.size(); end += step) {
      const auto trace = import_as(form, std::string_view(bytes).substr(0, end));
      EXPECT_TRUE(trace || !trace.error().message.empty()) << end;
      std::string changed = bytes;
      for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
      const auto damaged = import_as(form, changed);
      EXPECT_TRUE(damaged || !damaged.error().message.empty());
    }
  }
}

}  // namespace
}  // namespace vram::trace

#include "show/live/status_fields.hpp"

#include "base/text.hpp"
#include "show/live/status_export.hpp"
#include "show/testing/lines.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace vram::show {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lines_of;
using ::testing::StartsWith;

std::vector<std::string> names_of(std::string_view list) {
  std::vector<std::string> names;
  const auto chosen = choose_fields(list).value();
  for (const Field* field : chosen) names.push_back(field->name);
  return names;
}

watch::Snapshot one_device() {
  watch::Snapshot snapshot;
  snapshot.time_ns = testing::kSnapshotTime;
  watch::Device device = testing::idle_device(0);
  device.sample.memory.used_bytes = 1234 * kMiB;
  device.sample.busy_percent = 100;
  device.health.bar1.emplace().used_bytes = 3 * kMiB / 2;
  snapshot.devices.push_back(std::move(device));
  return snapshot;
}

TEST(Fields, EveryFigureOfTheDocumentCanBeChosenByAnUnambiguousName) {
  std::set<std::string> names;
  for (const Field& field : all_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    if (field.short_name != field.name) {
      EXPECT_TRUE(names.insert(field.short_name).second) << field.short_name;
    }
    EXPECT_FALSE(field.meaning.empty()) << field.name;
    EXPECT_EQ(names_of(field.name), std::vector{field.name});
    EXPECT_EQ(names_of(field.short_name), std::vector{field.name});
  }
  const Json device = json_device(one_device().devices[0]);
  const Json paths = device.flatten();  // "/memory/used_bytes"
  for (const auto& [path, value] : paths.items()) {
    std::string name = path.substr(1);
    std::ranges::replace(name, '/', '.');
    const bool is_in_list = !name.empty() && std::isdigit(static_cast<unsigned char>(name.back()));
    EXPECT_TRUE(value.is_null() || is_in_list || names.contains(name)) << name;
  }
}

TEST(Fields, ShortNamesAndGroupsStandForFullNames) {
  EXPECT_THAT(names_of("time, used,busy,bar1.used"),
              ElementsAre("time_unix_ns", "memory.used_bytes", "busy_percent", "bar1.used_bytes"));
  EXPECT_THAT(names_of("bar1"), ElementsAre("bar1.total_bytes", "bar1.used_bytes",
                                            "bar1.free_bytes", "bar1.reserved_bytes"));
  EXPECT_THAT(names_of("process.used,pid"), ElementsAre("process.used_bytes", "process.pid"));
}

TEST(Fields, AnUnknownNameIsAnErrorWithTheNearestNames) {
  EXPECT_THAT(choose_fields("usd").error().message,
              AllOf(HasSubstr("found 'usd' (nearest name: used)"), HasSubstr("--fields list")));
  EXPECT_THAT(choose_fields("temp").error().message,
              HasSubstr("(nearest names: temperature, memory_temperature)"));
  EXPECT_THAT(choose_fields("used,").error().message, HasSubstr("found ''"));
  EXPECT_THAT(choose_fields("").error().message, HasSubstr("found ''"));
}

TEST(Fields, ALineForEachDeviceHasAlignedColumnsWithUnits) {
  FieldTable table(choose_fields("used,busy,bar1.used,throttle_reasons").value());
  EXPECT_EQ(table.next(one_device(), {}),
            "# index  used  busy  bar1.used  throttle_reasons\n"
            "#         MiB     %        MiB\n"
            "      0  1234   100        1.5  -\n");
}

TEST(Fields, WithoutUnitsTheHeaderHasOneLine) {
  FieldTable table(choose_fields("name").value());
  EXPECT_EQ(table.next(one_device(), {}), "# index  name\n      0  NVIDIA H200\n");
}

TEST(Fields, TheTimeStandsBeforeTheIndex) {
  FieldTable table(choose_fields("time,power").value());
  EXPECT_EQ(lines_of(table.next(one_device(), {})).back(),
            "  2026-11-22 09:14:05 UTC      0     76");
}

TEST(Fields, TheHeaderComesAgainAfterAScreenAndWhenAColumnWidens) {
  FieldTable table(choose_fields("used").value());
  watch::Snapshot snapshot = one_device();
  const FieldTable::Shape shape{.rows_between_headers = 3};
  EXPECT_EQ(lines_of(table.next(snapshot, shape)).size(), 3U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(lines_of(table.next(snapshot, shape)).size(), 1U);
  EXPECT_THAT(table.next(snapshot, shape), StartsWith("# index"));
  snapshot.devices[0].sample.memory.used_bytes = 123'456 * kMiB;
  EXPECT_THAT(table.next(snapshot, shape), StartsWith("# index    used\n"));
  EXPECT_EQ(table.next(snapshot, shape), "      0  123456\n");
}

TEST(Fields, NoLineIsWiderThanTheTerminal) {
  const watch::Snapshot snapshot = testing::sample_snapshot();
  std::string every;
  for (const Field& field : all_fields()) every += (every.empty() ? "" : ",") + field.name;
  for (const int columns : {20, 40, 80, 200}) {
    FieldTable table(choose_fields(every).value());
    for (const std::string& line : lines_of(table.next(snapshot, {.columns = columns})))
      EXPECT_LE(display_width(line), std::max(columns, 26)) << line;
    EXPECT_FALSE(table.omitted().empty());
  }
  FieldTable table(choose_fields(every).value());
  (void)table.next(snapshot, {});
  EXPECT_TRUE(table.omitted().empty());
}

TEST(Fields, ATextLosesItsEndBeforeAColumnIsLeftOut) {
  FieldTable table(choose_fields("name,command,pid").value());
  const watch::Snapshot snapshot = testing::sample_snapshot();
  for (int sample = 0; sample < 2; ++sample) {
    const std::string text = table.next(snapshot, {.columns = 60});
    EXPECT_TRUE(table.omitted().empty());
    EXPECT_EQ(text.find("# index") != std::string::npos, sample == 0);
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), 60) << line;
    EXPECT_THAT(text, HasSubstr("/opt/conda/bin"));
    EXPECT_THAT(text, HasSubstr("…"));
  }
}

TEST(Fields, UnknownIsADashAndZeroIsExact) {
  watch::Snapshot snapshot = one_device();
  snapshot.devices[0].sample.memory.used_bytes = 0;
  snapshot.devices[0].sample.memory.free_bytes.reset();
  snapshot.devices[0].sample.memory.reserved_bytes = 1;
  FieldTable table(choose_fields("used,free,reserved").value());
  EXPECT_EQ(lines_of(table.next(snapshot, {})).back(), "      0     0     -       0.0");
}

TEST(Fields, FieldsOfProcessesMakeALineForEachProcess) {
  const watch::Snapshot snapshot = testing::sample_snapshot();
  size_t uses = 0;
  for (const watch::Process& process : snapshot.processes) uses += process.uses.size();
  FieldTable table(choose_fields("pid,process.used,allocator.cached").value());
  EXPECT_GE(lines_of(table.next(snapshot, {})).size(), 2 + uses);
}

TEST(Fields, CsvHasFullNamesAndExactValues) {
  const auto fields = choose_fields("time,used,name,free").value();
  EXPECT_EQ(fields_csv_head(fields), "time_unix_ns,memory.used_bytes,name,memory.free_bytes\r\n");
  watch::Snapshot snapshot = one_device();
  snapshot.devices[0].identity.name = "a, \"b\"";
  snapshot.devices[0].sample.memory.free_bytes.reset();
  EXPECT_EQ(fields_csv(fields, snapshot), "1795338845000000000,1293942784,\"a, \"\"b\"\"\",\r\n");
}

TEST(Fields, TheListNamesAllFields) {
  const std::string list = draw_field_list({.columns = 120});
  for (const Field& field : all_fields()) EXPECT_THAT(list, HasSubstr(field.short_name));
  for (const std::string& line : lines_of(list)) EXPECT_LE(display_width(line), 120) << line;
}

}  // namespace
}  // namespace vram::show

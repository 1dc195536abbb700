#include "show/doctor/doctor.hpp"

#include "base/json.hpp"
#include "base/testing/documented.hpp"
#include "show/testing/lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace vram::show {
namespace {

using doctor::Severity;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lines_of;
using ::testing::Not;

doctor::Report sample_doctor_report() {
  doctor::Report report;
  report.host = "node7";
  report.usable_gpus = 1;
  report.findings = {
      {"driver.old",
       Severity::kNote,
       "the driver is old",
       "CUDA 13 does not start.",
       {"install a newer one", {"apt install new"}},
       {"driver: 535"}},
      {"driver.good", Severity::kGood, "the driver answers"},
      {"limits.overcommit", Severity::kWarning, "no overcommit", "Forks fail.", {"", {"sysctl x"}}},
      {"health.ecc",
       Severity::kBad,
       "memory errors",
       "Values are wrong.",
       {"reset it", {"nvidia-smi --gpu-reset -i 0", "reboot"}},
       {"ecc: 2"}}};
  return report;
}

std::vector<std::string> drawn(bool all, const doctor::Report& report = sample_doctor_report()) {
  return lines_of(draw_doctor(report, all, {.columns = 80}));
}

TEST(DoctorText, TheWorstFirstAndCommandsOnTheirOwn) {
  EXPECT_THAT(drawn(false),
              ElementsAre("node7  1 to repair, 1 warning, 1 note; 1 GPU usable",  //
                          "", "Health of the GPUs", "✖ memory errors", "    Values are wrong.",
                          "  → reset it", "      nvidia-smi --gpu-reset -i 0", "      reboot",   //
                          "", "Limits", "▲ no overcommit", "    Forks fail.", "      sysctl x",  //
                          "", "Driver", "· the driver is old", "  → install a newer one",
                          "      apt install new",  //
                          "", "✔ the driver answers"));
}

TEST(DoctorText, AllSaysWhyAndByWhatToo) {
  const std::string text = draw_doctor(sample_doctor_report(), true, {.columns = 80});
  for (const char* part :
       {"    CUDA 13 does not start.\n", "    found: driver: 535\n", "    driver.old\n"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST(DoctorText, CommandsAreNeverBroken) {
  doctor::Report report = sample_doctor_report();
  const std::string longest = "echo " + std::string(200, 'x') + " | sudo tee /etc/x";
  report.findings[0].repair.commands = {longest};
  EXPECT_THAT(draw_doctor(report, false, {.columns = 72}), HasSubstr("      " + longest + "\n"));
}

TEST(DoctorText, NothingReachesATerminalThatItWouldObey) {
  doctor::Report report = sample_doctor_report();
  const std::string evil = "a\x1b[2Jb\nc\xff";
  report.host = evil;
  report.findings = {{"health.ecc", Severity::kBad, evil, evil, {evil, {evil}}, {evil}}};
  const std::string text = draw_doctor(report, true, {.columns = 80});
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
  EXPECT_THAT(text, HasSubstr("a\\x1b[2Jb\\nc"));
  for (const char c : doctor_json(report)) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
}

TEST(DoctorJson, CarriesEverything) {
  const auto json = Json::parse(doctor_json(sample_doctor_report()));
  EXPECT_EQ(json["host"], "node7");
  EXPECT_TRUE(json["time_unix_ns"].is_null());
  EXPECT_EQ(json["bad"], 1);
  EXPECT_EQ(json["warnings"], 1);
  EXPECT_EQ(json["notes"], 1);
  ASSERT_EQ(json["findings"].size(), 4U);
  const auto& finding = json["findings"][3];
  EXPECT_EQ(finding["subject"], "health");
  EXPECT_EQ(finding["severity"], "bad");
  EXPECT_EQ(finding["repair"]["commands"][1], "reboot");
  EXPECT_EQ(finding["evidence"][0], "ecc: 2");
}

TEST(DoctorJson, IsDocumented) {
  vram::testing::expect_documented(
      "vram.doctor/1", Json::parse(doctor_json(sample_doctor_report())),
      {{"doctor", ""}, {"finding", "/findings/0"}, {"repair", "/findings/0/repair"}});
}

}  // namespace
}  // namespace vram::show

// Each built-in rule by two histories made by hand: one where it fires, and one near to it where it
// stays silent.
#include "alerts/rules/rule_book.hpp"
#include "alerts/testing/samples.hpp"
#include "base/testing/paths.hpp"
#include "gpu/nvml/nvml_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

namespace vram::alerts {
namespace {

using testing::healthy_device;
using testing::SampleSequence;

struct History {
  std::string rule;
  std::function<void(SampleSequence&)> fires;
  std::function<void(SampleSequence&)> silent;
};

void use(watch::Device& device, uint64_t used_bytes) {
  device.sample.memory.used_bytes = used_bytes;
  device.sample.memory.free_bytes =
      *device.sample.memory.total_bytes - *device.sample.memory.reserved_bytes - used_bytes;
}

// The kernel knows of no such process.
void hide(watch::Process& process) {
  const uint32_t pid = process.facts->pid;
  process.facts = {};
  process.facts.edit().pid = pid;
}

void lose(watch::Device& device) {
  device.sample = {};
  device.sample.trouble = "GPU is lost (15)";
}

// The figures of the first device for that time.
std::function<void(SampleSequence&)> with_device(const std::function<void(watch::Device&)>& change,
                                                 uint64_t for_ns) {
  return [change, for_ns](SampleSequence& samples) {
    change(samples.device());
    samples.sample_for(for_ns);
  };
}

// One process whose use changes with the time that has passed.
std::function<void(SampleSequence&)> with_use(std::function<void(watch::Use&, uint64_t)> change,
                                              uint64_t for_ns) {
  return [change = std::move(change), for_ns](SampleSequence& samples) {
    samples.add_process(4711, 20 * kGiB);
    samples.sample_for(
        for_ns, [&](uint64_t passed) { change(samples.machine.processes[0].uses[0], passed); });
  };
}

std::function<void(SampleSequence&)> with_reason(const std::string& reason, uint64_t for_ns) {
  return with_device([=](watch::Device& device) { device.sample.throttle_reasons = {reason}; },
                     for_ns);
}

// A fault ten seconds after all was well.
std::function<void(SampleSequence&)> with_xid(uint64_t xid) {
  return [=](SampleSequence& samples) {
    samples.take_sample();
    samples.device().xids->push_back({xid, 1, 0});
    samples.take_sample();
  };
}

std::vector<History> memory_histories() {
  return {
      {"memory-almost-full",  // 95 of 99 GiB are 95.96 %; 4 GiB are free
       with_device([](watch::Device& device) { use(device, 95 * kGiB); }, 3 * kMinuteNs),
       with_device(
           [](watch::Device& device) {
             device.sample.memory.total_bytes = 201 * kGiB;  // 96 % of 200, and 8 GiB free
             use(device, 192 * kGiB);
           },
           kHourNs)},
      {"memory-full",
       with_device([](watch::Device& device) { use(device, 99 * kGiB - 512 * kMiB); },
                   3 * kMinuteNs),
       with_device([](watch::Device& device) { use(device, 98 * kGiB); }, kHourNs)},
      {"memory-full-soon",  // 79 GiB are free, less 1 GiB a minute
       [](SampleSequence& samples) {
         samples.sample_for(40 * kMinuteNs, [&](uint64_t passed) {
           use(samples.device(), 20 * kGiB + passed / kMinuteNs * kGiB);
         });
       },
       [](SampleSequence& samples) {  // the same for 20 minutes, while something is loaded
         samples.sample_for(3 * kHourNs, [&](uint64_t passed) {
           use(samples.device(), 20 * kGiB + std::min<uint64_t>(passed / kMinuteNs, 20) * kGiB / 2);
         });
       }},
      {"memory-leak",  // 79 GiB are free, less 3.75 GiB an hour: 21 hours
       with_use(
           [](watch::Use& one, uint64_t passed) {
             one.process.used_bytes = 20 * kGiB + passed / kMinuteNs * 64 * kMiB;
           },
           4 * kHourNs),
       with_use(  // 1.875 GiB an hour: 42 hours
           [](watch::Use& one, uint64_t passed) {
             one.process.used_bytes = 20 * kGiB + passed / kMinuteNs * 32 * kMiB;
           },
           12 * kHourNs)},
      {"memory-unattributed",
       with_device([](watch::Device& device) { device.unattributed_bytes = 4 * kGiB; },
                   16 * kMinuteNs),
       with_device([](watch::Device& device) { device.unattributed_bytes = 4 * kGiB - 1; },
                   kHourNs)},
  };
}

std::vector<History> process_histories() {
  return {
      {"reserve-unused",
       with_use([](watch::Use& one, uint64_t) { one.allocator = {10 * kGiB, 20 * kGiB, {}, {}}; },
                16 * kMinuteNs),
       with_use(  // what is unused between two steps, each ten minutes long
           [](watch::Use& one, uint64_t passed) {
             const bool is_at_peak = passed % (10 * kMinuteNs) == 0;
             one.allocator = {is_at_peak ? 18 * kGiB : 2 * kGiB, 20 * kGiB, {}, {}};
           },
           2 * kHourNs)},
      {"out-of-memory",
       with_use(
           [](watch::Use& one, uint64_t passed) {
             one.allocator.emplace().num_ooms = passed > kMinuteNs ? 1U : 0U;
           },
           2 * kMinuteNs),
       with_use(  // an old one
           [](watch::Use& one, uint64_t) { one.allocator.emplace().num_ooms = 3; }, 2 * kHourNs)},
      {"alloc-retries",
       with_use(
           [](watch::Use& one, uint64_t passed) {
             one.allocator.emplace().num_alloc_retries = passed / kMinuteNs * 3;
           },
           10 * kMinuteNs),
       with_use(  // nine within ten minutes
           [](watch::Use& one, uint64_t passed) {
             one.allocator.emplace().num_alloc_retries = passed / kMinuteNs * 9 / 11;
           },
           2 * kHourNs)},
      {"memory-held-idle",
       with_use([](watch::Use& one, uint64_t) { one.process.busy_percent = 0; },
                kHourNs + kMinuteNs),
       with_use(  // works once in half an hour
           [](watch::Use& one, uint64_t passed) {
             one.process.busy_percent = passed % (30 * kMinuteNs) == 0 ? 40 : 0;
           },
           3 * kHourNs)},
      {"dead-process-memory",
       [](SampleSequence& samples) {
         watch::Process& process = samples.add_process(4711, kGiB);
         samples.take_sample();
         hide(process);
         samples.sample_for(3 * kMinuteNs);
       },
       [](SampleSequence& samples) {  // never to be seen from here: in another pid namespace
         hide(samples.add_process(4711, kGiB));
         samples.sample_for(kHourNs);
       }},
  };
}

std::vector<History> fault_histories() {
  const auto rows = [](bool is_pending, bool has_failed) {
    return with_device(
        [=](watch::Device& device) {
          device.health.remapped_rows = {0, 1, is_pending, has_failed};
        },
        kMinuteNs);
  };
  const auto pages = [](std::optional<bool> is_pending, std::optional<bool> has_failed) {
    return with_device(
        [=](watch::Device& device) {
          gpu::RetiredPages& retired = device.health.retired_pages.emplace();
          retired.is_pending = is_pending;
          retired.has_failed = has_failed;
        },
        kMinuteNs);
  };
  const auto recovery = [](const std::string& action) {
    return with_device([=](watch::Device& device) { device.health.recovery_action = action; },
                       kMinuteNs);
  };
  return {
      {"xid-critical", with_xid(79), with_xid(94)},
      {"xid-warning", with_xid(94), with_xid(31)},
      {"xid-application", with_xid(31), with_xid(79)},
      {"xid-other", with_xid(999), with_xid(31)},
      {"ecc-uncorrected",
       [](SampleSequence& samples) {
         samples.device().health.ecc_since_boot.uncorrected = 5;
         samples.take_sample();
         samples.device().health.ecc_since_boot.uncorrected = 6;
         samples.take_sample();
       },
       [](SampleSequence& samples) {  // old ones, and a driver that is reloaded
         samples.device().health.ecc_since_boot.uncorrected = 5;
         samples.sample_for(kMinuteNs);
         samples.device().health.ecc_since_boot.uncorrected = 0;
         samples.sample_for(kMinuteNs);
       }},
      {"row-remap-failed", rows(false, true), rows(true, false)},
      {"row-remap-pending", rows(true, false), rows(false, false)},
      {"page-retirement-failed", pages(std::nullopt, true), pages(true, std::nullopt)},
      {"page-retirement-pending", pages(true, false), pages(false, true)},
      {"recovery-action", recovery("reset"), recovery("none")},
  };
}

std::vector<History> device_histories() {
  return {
      {"throttled-heat", with_reason("hardware thermal", 6 * kMinuteNs),
       with_reason("power cap", kHourNs)},
      {"throttled-power", with_reason("power brake", 6 * kMinuteNs),
       with_reason("hardware thermal", kHourNs)},
      {"temperature", with_device([](watch::Device& d) { d.sample.celsius = 90; }, 6 * kMinuteNs),
       with_device([](watch::Device& d) { d.sample.celsius = 89; }, kHourNs)},
      {"memory-temperature",
       with_device([](watch::Device& d) { d.health.memory_celsius = 100; }, 6 * kMinuteNs),
       with_device([](watch::Device& d) { d.health.memory_celsius = 99; }, kHourNs)},
      {"gpu-error", with_device([](watch::Device& d) { lose(d); }, 2 * kMinuteNs),
       [](SampleSequence& samples) {  // let go for half a minute, on request
         samples.take_sample();
         lose(samples.device());
         samples.sample_for(30 * kSecondNs);
         samples.device() = healthy_device();
         samples.sample_for(kHourNs);
       }},
      {"gpu-missing",
       [](SampleSequence& samples) {
         samples.machine.devices.push_back(healthy_device(1));
         samples.take_sample();
         samples.machine.devices.pop_back();
         samples.sample_for(6 * kMinuteNs);
       },
       [](SampleSequence& samples) {  // it comes back, at another place
         samples.machine.devices.push_back(healthy_device(1));
         samples.take_sample();
         samples.machine.devices.pop_back();
         samples.sample_for(4 * kMinuteNs);
         samples.machine.devices.insert(samples.machine.devices.begin(), healthy_device(1));
         samples.sample_for(kHourNs);
       }},
  };
}

std::vector<History> watcher_histories() {
  return {
      {"source-failing",
       [](SampleSequence& samples) {
         samples.take_sample();
         samples.machine.notes = {"nvml: the driver is not loaded"};
         samples.sample_for(6 * kMinuteNs);
       },
       [](SampleSequence&
              samples) {  // not of this machine: it never worked, and another one has devices
         samples.machine.notes = {"drm: no devices"};
         samples.sample_for(kHourNs);
       }},
      {"sampling-slow",
       [](SampleSequence& samples) {
         samples.sample_duration_ns = 5 * kSecondNs;
         samples.sample_for(11 * kMinuteNs);
       },
       [](SampleSequence& samples) {
         samples.sample_duration_ns = 5 * kSecondNs - 1;
         samples.sample_for(kHourNs);
       }},
      {"sample-overdue",
       [](SampleSequence& samples) {
         samples.take_sample();
         samples.overdue(60 * kSecondNs);
       },
       [](SampleSequence& samples) {
         samples.take_sample();
         samples.overdue(59 * kSecondNs);
         samples.sample_for(kHourNs);
       }},
  };
}

std::vector<History> all_histories() {
  std::vector<History> all;
  for (auto* const some : {memory_histories, process_histories, fault_histories, device_histories,
                           watcher_histories}) {
    for (History& history : some()) all.push_back(std::move(history));
  }
  return all;
}

TEST(BuiltInRules, EachFiresInItsHistoryAndIsSilentNearIt) {
  for (const History& history : all_histories()) {
    SampleSequence ill;
    history.fires(ill);
    EXPECT_TRUE(ill.fired(history.rule)) << history.rule;
    SampleSequence well;
    history.silent(well);
    EXPECT_FALSE(well.fired(history.rule)) << history.rule;
  }
}

// An inference server that takes all but a few GiB at once, and then a little more for ever fewer
// shapes that are new to it: used by the GiB after so many minutes.
bool is_found_to_leak(const std::function<double(double)>& more) {
  constexpr uint64_t kTakenAtOnce = 94 * kGiB;
  SampleSequence samples;
  samples.add_process(4711, kTakenAtOnce);
  const auto grow = [&](uint64_t passed) {
    const double minute = static_cast<double>(passed) / kMinuteNs;
    const auto taken = kTakenAtOnce + static_cast<uint64_t>(more(minute) * kGiB);
    samples.machine.processes[0].uses[0].process.used_bytes = taken;
    use(samples.device(), taken);
  };
  samples.sample_for(48 * kHourNs, grow, kMinuteNs);
  return samples.fired("memory-leak");
}

TEST(BuiltInRules, ACacheThatFillsANearlyFullGpuIsNoLeak) {
  EXPECT_FALSE(is_found_to_leak([](double m) { return 0.3 * std::log2(1 + m / 5); })) << "2.7 GiB";
  EXPECT_FALSE(is_found_to_leak([](double m) { return 3 * (1 - std::exp(-m / 90)); }));
  EXPECT_FALSE(is_found_to_leak([](double m) { return 3 * (1 - std::exp(-m / 360)); }));
  EXPECT_FALSE(is_found_to_leak([](double m) { return 3 * std::pow(m / 2'880, 0.4); }));
}

TEST(BuiltInRules, ALeakOnANearlyFullGpuIsOne) {
  EXPECT_TRUE(is_found_to_leak([](double m) { return std::min(m / 300, 4.9); })) << "5 GiB in 25 h";
  EXPECT_TRUE(is_found_to_leak([](double m) { return std::min(std::floor(m / 30) / 8, 4.9); }));
  // By day more than by night.
  EXPECT_TRUE(is_found_to_leak(
      [](double m) { return std::min(m / 300 + 0.7 * std::sin(m * 2 * 3.14159 / 1'440), 4.9); }));
}

TEST(BuiltInRules, EachHasItsHistories) {
  std::multiset<std::string> notified;
  for (const History& history : all_histories()) notified.insert(history.rule);
  std::multiset<std::string> enabled;
  for (const Rule& rule : built_in_rules()) {
    if (rule.is_enabled) enabled.insert(rule.name);
  }
  EXPECT_EQ(notified, enabled);
}

// What is critical is what the GPU does not get over by itself, and every number has a meaning.
TEST(BuiltInRules, XidsAreAsGraveAsTheirMeanings) {
  for (const Rule& rule : built_in_rules()) {
    for (const uint64_t xid : rule.xids) {
      const gpu::nvml::XidMeaning* const meaning = gpu::nvml::meaning_of_xid(xid);
      ASSERT_NE(meaning, nullptr) << xid;
      EXPECT_EQ(rule.severity == Severity::kCritical,
                meaning->gravity == gpu::nvml::XidSeverity::kBroken)
          << xid;
    }
  }
}

TEST(BuiltInRules, OneIsSwitchedOnByTheFile) {
  const auto history = with_reason("software thermal", 6 * kMinuteNs);
  SampleSequence without;
  history(without);
  EXPECT_FALSE(without.fired("throttled-software-heat"));
  SampleSequence with(
      RuleBook::parse("[rules.throttled-software-heat]\nenabled = true", "r").value());
  history(with);
  EXPECT_TRUE(with.fired("throttled-software-heat"));
}

// deploy/rules.toml is what people start from: every rule with all its settings, and nothing else.
TEST(BuiltInRules, AreWrittenOutForPeople) {
  std::ifstream file(source_path("deploy/rules.toml"));
  std::ostringstream text;
  text << file.rdbuf();
  const size_t end_of_head = text.str().find("\n\n");
  ASSERT_NE(end_of_head, std::string::npos);
  EXPECT_EQ(text.str().substr(end_of_head + 2), RuleBook::built_in().to_toml());
  const auto book = RuleBook::parse(text.str(), "rules.toml");
  ASSERT_TRUE(book) << book.error().message;
  EXPECT_EQ(book->rules(), built_in_rules());
}

}  // namespace
}  // namespace vram::alerts

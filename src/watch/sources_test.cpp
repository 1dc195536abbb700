// Sources: what is asked how often, and that one which fails stops no other.
#include "watch/sources.hpp"

#include "base/time.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vram::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A source of devices that a test configures and breaks; counts its calls.
gpu::DeviceIdentity identity_of(const std::string& uuid) {
  gpu::DeviceIdentity identity;
  identity.uuid = uuid;
  return identity;
}

gpu::DeviceSample sample_of(uint64_t used_bytes) {
  gpu::DeviceSample sample;
  sample.memory.total_bytes = 100;
  sample.memory.used_bytes = used_bytes;
  return sample;
}

gpu::DeviceSample in_trouble(const std::string& trouble) {
  gpu::DeviceSample sample;
  sample.trouble = trouble;
  return sample;
}

struct FakeMachine {
  std::vector<gpu::DeviceIdentity> identities;
  std::vector<gpu::DeviceSample> samples;  // as many
  gpu::DeviceHealth health;
  std::optional<std::string> open_failure;
  std::optional<std::string> count_failure;
  uint64_t now_ns = 0;
  int opened = 0;
  std::shared_ptr<const bool> handle = std::make_shared<const bool>();  // shared by open sources
  int identities_read = 0;
  std::vector<uint64_t> health_read_ns = {};
  gpu::XidReport report = {};  // only in the next sample

  [[nodiscard]] bool is_open() const { return handle.use_count() > 1; }
  void add(const std::string& uuid) {
    identities.push_back(identity_of(uuid));
    samples.push_back(sample_of(40));
  }
};

class FakeTelemetry final : public gpu::Telemetry {
 public:
  explicit FakeTelemetry(FakeMachine& machine) : machine_(&machine), handle_(machine.handle) {
    ++machine.opened;
  }
  [[nodiscard]] Result<uint32_t> device_count() const override {
    if (machine_->count_failure) return fail(Code::kIo, "{}", *machine_->count_failure);
    return static_cast<uint32_t>(machine_->samples.size());
  }
  [[nodiscard]] gpu::DeviceIdentity identity(uint32_t index) const override {
    ++machine_->identities_read;
    return machine_->identities[index];
  }
  [[nodiscard]] gpu::DeviceHealth health(uint32_t /*index*/) const override {
    machine_->health_read_ns.push_back(machine_->now_ns);
    return machine_->health;
  }
  [[nodiscard]] gpu::DeviceSample sample(uint32_t index) const override {
    return machine_->samples[index];
  }
  [[nodiscard]] gpu::XidReport xid_report() const override {
    return std::exchange(machine_->report, {});
  }

 private:
  FakeMachine* machine_;
  std::shared_ptr<const bool> handle_;
};

Opener opener_of_machine(std::string name, FakeMachine& machine) {
  return opener_of(std::move(name), [&machine]() -> Result<FakeTelemetry> {
    if (machine.open_failure) return fail(Code::kNotFound, "{}", *machine.open_failure);
    return FakeTelemetry(machine);
  });
}

class SourcesTest : public ::testing::Test {
 protected:
  Readings read_at(Sources& sources, uint64_t second) {
    first_.now_ns = second_.now_ns = second * kSecondNs;
    return sources.read();
  }
  Sources make() {
    SourcesOptions options;
    options.clock = [this] { return first_.now_ns; };
    return Sources({opener_of_machine("first", first_), opener_of_machine("second", second_)},
                   options);
  }
  FakeMachine first_;
  FakeMachine second_;
};

TEST_F(SourcesTest, AllSourcesDevicesAreOneRow) {
  first_.add("A");
  first_.add("B");
  second_.add("C");
  Sources sources = make();
  const Readings readings = read_at(sources, 7);
  ASSERT_EQ(readings.devices.size(), 3U);
  const char* const uuids[] = {"A", "B", "C"};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(readings.devices[i].identity.index, i);
    EXPECT_EQ(readings.devices[i].sample.index, i);
    EXPECT_EQ(readings.devices[i].identity.uuid, uuids[i]);
    EXPECT_EQ(readings.devices[i].sample.memory.used_bytes, 40U);
    EXPECT_EQ(readings.devices[i].time_ns, 7 * kSecondNs);
  }
  EXPECT_THAT(readings.notes, IsEmpty());
}

TEST_F(SourcesTest, IdentityIsAskedOnceAndHealthEachFiveSeconds) {
  first_.add("A");
  first_.add("B");
  first_.health.is_persistent = true;
  Sources sources = make();
  for (uint64_t second = 0; second < 20; ++second) {
    for (const DeviceReading& reading : read_at(sources, second).devices) {
      EXPECT_EQ(reading.health.is_persistent, true);
    }
  }
  EXPECT_EQ(first_.identities_read, 2);
  EXPECT_EQ(first_.opened, 1);
  // Both at the start; then one after half a period, the other after a whole, and each 5 s later.
  EXPECT_THAT(first_.health_read_ns,
              ElementsAre(0, 0, 3 * kSecondNs, 5 * kSecondNs, 8 * kSecondNs, 10 * kSecondNs,
                          13 * kSecondNs, 15 * kSecondNs, 18 * kSecondNs));
}

TEST_F(SourcesTest, ASleepingDeviceIsNotAskedForItsHealth) {
  first_.add("A");
  first_.identities[0] = {};
  first_.samples[0] = {};
  first_.samples[0].is_asleep = true;
  Sources sources = make();
  EXPECT_TRUE(read_at(sources, 0).devices[0].sample.is_asleep);
  EXPECT_THAT(first_.health_read_ns, IsEmpty());
  EXPECT_EQ(first_.identities_read, 1);
  first_.identities[0] = identity_of("A");
  first_.samples[0] = {};
  EXPECT_EQ(read_at(sources, 1).devices[0].identity.uuid, "A");
}

TEST_F(SourcesTest, ADeviceThatWakesIsAskedForEverythingAndWhatItSaidBeforeItSleptIsNotShown) {
  first_.add("A");
  first_.identities[0].pci_id = "0000:01:00.0";
  first_.identities[0].uuid.reset();
  first_.samples[0] = {};
  first_.samples[0].is_asleep = true;
  first_.health.is_persistent = true;
  Sources sources = make();
  EXPECT_EQ(read_at(sources, 0).devices[0].identity.pci_id, "0000:01:00.0");
  first_.identities[0].uuid = "A";
  first_.samples[0] = sample_of(40);
  const Readings awake = read_at(sources, 1);
  EXPECT_EQ(awake.devices[0].identity.uuid, "A");
  EXPECT_EQ(awake.devices[0].health.is_persistent, true);
  first_.samples[0] = {};
  first_.samples[0].is_asleep = true;
  const Readings asleep = read_at(sources, 2);
  EXPECT_EQ(asleep.devices[0].identity.uuid, "A");
  EXPECT_EQ(asleep.devices[0].health.is_persistent, std::nullopt);
  first_.samples[0] = sample_of(40);
  EXPECT_EQ(read_at(sources, 3).devices[0].health.is_persistent, true);
  EXPECT_EQ(first_.health_read_ns.size(), 2U);  // at 1 s, and at once when it woke
}

TEST_F(SourcesTest, ASourceThatIsNotThereIsTriedAgainAfterGrowingPauses) {
  first_.open_failure = "no library";
  second_.add("C");
  Sources sources = make();
  // Tried at 0 s, then after pauses of 1, 2, 4, 8, 16, 30 and 30 s.
  std::vector<uint64_t> opened_at;
  for (uint64_t second = 0; second <= 95; ++second) {
    first_.open_failure = "tried at " + std::to_string(second);
    const Readings readings = read_at(sources, second);
    EXPECT_EQ(readings.devices.size(), 1U);
    ASSERT_EQ(readings.notes.size(), 1U);
    if (readings.notes[0] == "first: tried at " + std::to_string(second))
      opened_at.push_back(second);
  }
  EXPECT_THAT(opened_at, ElementsAre(0, 1, 3, 7, 15, 31, 61, 91));
  first_.open_failure.reset();
  first_.add("A");
  const Readings readings = read_at(sources, 121);
  EXPECT_EQ(readings.devices.size(), 2U);
  EXPECT_THAT(readings.notes, IsEmpty());
}

TEST_F(SourcesTest, DevicesOfAFailedSourceAreKeptAsMissing) {
  first_.add("A");
  first_.health.is_persistent = true;
  second_.add("C");
  Sources sources = make();
  (void)read_at(sources, 0);
  first_.count_failure = "driver not loaded";
  const Readings broken = read_at(sources, 1);
  ASSERT_EQ(broken.devices.size(), 2U);
  EXPECT_EQ(broken.devices[0].identity.uuid, "A");
  EXPECT_EQ(broken.devices[0].sample.trouble, "driver not loaded");
  EXPECT_EQ(broken.devices[0].sample.memory.used_bytes, std::nullopt);
  EXPECT_EQ(broken.devices[0].health.is_persistent, std::nullopt);
  EXPECT_EQ(broken.devices[1].identity.uuid, "C");
  EXPECT_EQ(broken.devices[1].identity.index, 1U);
  EXPECT_EQ(broken.devices[1].sample.trouble, std::nullopt);
  EXPECT_THAT(broken.notes, ElementsAre("first: driver not loaded"));

  // It comes back with its devices in another order.
  first_.count_failure.reset();
  first_.add("B");
  std::swap(first_.identities[0], first_.identities[1]);
  const Readings whole = read_at(sources, 2);
  ASSERT_EQ(whole.devices.size(), 3U);
  EXPECT_EQ(whole.devices[0].identity.uuid, "B");
  EXPECT_EQ(whole.devices[1].identity.uuid, "A");
  EXPECT_EQ(first_.opened, 2);
}

TEST_F(SourcesTest, AfterAGoodReadingPausesBeginSmallAgain) {
  first_.add("A");
  first_.count_failure = "driver not loaded";
  Sources sources = make();
  for (const uint64_t second : {uint64_t{0}, uint64_t{1}, uint64_t{3}})
    (void)read_at(sources, second);
  first_.count_failure.reset();
  (void)read_at(sources, 7);
  EXPECT_EQ(first_.opened, 4);
  first_.count_failure = "driver not loaded";
  (void)read_at(sources, 8);
  (void)read_at(sources, 9);
  EXPECT_EQ(first_.opened, 5);
}

TEST_F(SourcesTest, DevicesThatComeAndGoAreIdentifiedAnew) {
  first_.add("A");
  first_.add("B");
  Sources sources = make();
  (void)read_at(sources, 0);
  first_.identities.erase(first_.identities.begin());
  first_.samples.pop_back();
  const Readings readings = read_at(sources, 1);
  ASSERT_EQ(readings.devices.size(), 1U);
  EXPECT_EQ(readings.devices[0].identity.uuid, "B");
  EXPECT_EQ(first_.opened, 1);
}

TEST_F(SourcesTest, OneDeviceInTroubleKeepsItsSourceOpen) {
  first_.add("A");
  first_.add("B");
  first_.samples[0] = in_trouble("fell off the bus");
  Sources sources = make();
  for (uint64_t second = 0; second < 5; ++second) {
    EXPECT_EQ(read_at(sources, second).devices[1].sample.memory.used_bytes, 40U);
  }
  EXPECT_EQ(first_.opened, 1);
}

TEST_F(SourcesTest, WhenAllDevicesAreInTroubleTheSourceIsOpenedAnew) {
  first_.add("A");
  first_.samples[0] = in_trouble("not initialized");
  Sources sources = make();
  for (uint64_t second = 0; second < 16; ++second) {
    const Readings readings = read_at(sources, second);
    ASSERT_EQ(readings.devices.size(), 1U);
    EXPECT_EQ(readings.devices[0].identity.uuid, "A");
    EXPECT_EQ(readings.devices[0].sample.trouble, "not initialized");
  }
  EXPECT_EQ(first_.opened, 5);  // at 0, 1, 3, 7 and 15 s
  first_.samples[0] = sample_of(1);
  EXPECT_EQ(read_at(sources, 31).devices[0].sample.memory.used_bytes, 1U);
}

TEST_F(SourcesTest, LetsGoOnRequestAndOpensAgainAfterAPause) {
  first_.add("A");
  second_.add("C");
  Sources sources = make();
  (void)read_at(sources, 10);
  EXPECT_TRUE(first_.is_open() && second_.is_open());
  sources.release();
  EXPECT_FALSE(first_.is_open() || second_.is_open());
  for (const uint64_t second : {10, 20, 39}) {
    const Readings readings = read_at(sources, second);
    EXPECT_THAT(readings.notes, ElementsAre("first: let go on request, opened again 30 s later",
                                            "second: let go on request, opened again 30 s later"));
    ASSERT_EQ(readings.devices.size(), 2U);
    EXPECT_EQ(readings.devices[0].identity.uuid, "A");
    EXPECT_EQ(readings.devices[0].sample.memory.used_bytes, std::nullopt);
    EXPECT_FALSE(first_.is_open() || second_.is_open());
  }
  first_.open_failure = "driver not loaded";
  EXPECT_THAT(read_at(sources, 40).notes, ElementsAre("first: driver not loaded"));
  EXPECT_TRUE(second_.is_open());
  first_.open_failure.reset();
  EXPECT_THAT(read_at(sources, 41).notes, IsEmpty());  // the usual pause after a failure
  EXPECT_TRUE(first_.is_open());
}

TEST_F(SourcesTest, AnImpossibleCountIsAFailure) {
  first_.samples.resize(5000);
  Sources sources = make();
  const Readings readings = read_at(sources, 0);
  EXPECT_THAT(readings.devices, IsEmpty());
  EXPECT_EQ(readings.notes.size(), 1U);
}

TEST_F(SourcesTest, FaultsAreToldOfTheirDeviceAndUnknownWhereNobodyTells) {
  first_.add("A");
  second_.add("B");
  second_.add("C");
  Sources sources = make();
  const auto xid_event = [](uint64_t xid, std::optional<uint32_t> device) {
    gpu::XidEvent event;
    event.xid = xid;
    event.device = device;
    return event;
  };
  second_.report = {
      {1, 7}, {xid_event(31, 1), xid_event(79, 0), xid_event(13, std::nullopt), xid_event(62, 7)}};
  const Readings readings = read_at(sources, 1);
  EXPECT_EQ(readings.devices[0].new_xids, std::nullopt);
  EXPECT_EQ(readings.devices[1].new_xids, std::nullopt);  // not watched
  ASSERT_TRUE(readings.devices[2].new_xids.has_value());
  EXPECT_THAT(*readings.devices[2].new_xids, ElementsAre(31));
}

}  // namespace
}  // namespace vram::watch

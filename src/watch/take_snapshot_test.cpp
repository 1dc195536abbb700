// Snapshots of readings: the sums, processes over several devices, and that no figure is above its
// device's total whatever the sources say.
#include "watch/take_snapshot.hpp"

#include "base/testing/waiting.hpp"
#include "record/board.hpp"
#include "watch/testing/processes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <random>
#include <unistd.h>

namespace vram::watch {
namespace {

gpu::DeviceProcess process_of(uint32_t pid, std::optional<uint64_t> used_bytes) {
  gpu::DeviceProcess process;
  process.pid = pid;
  process.used_bytes = used_bytes;
  return process;
}

DeviceReading reading_of(gpu::DeviceMemory memory,
                         std::optional<std::vector<gpu::DeviceProcess>> processes) {
  DeviceReading reading;
  reading.sample.memory = memory;
  reading.sample.processes = std::move(processes);
  return reading;
}

gpu::MigInstance instance_of(uint32_t gpu_instance, uint32_t compute_instance, uint64_t used) {
  gpu::MigInstance instance;
  instance.gpu_instance = gpu_instance;
  instance.compute_instance = compute_instance;
  instance.memory = {500, used, 500 - used, 0};
  return instance;
}

class TakeSnapshotTest : public ::testing::Test {
 protected:
  Snapshot take(std::vector<DeviceReading> devices) {
    return take_snapshot({77, "node7"}, {std::move(devices), {"a note"}}, table_, boards_);
  }
  Device device_of(const DeviceReading& reading) { return take({reading}).devices[0]; }

  testing::ProcTree tree_;
  ProcessTable table_{tree_.root()};
  std::string prefix_ = "/dev/shm/vram-take-test-" + std::to_string(getpid()) + "-";
  Boards boards_{
      [this](uint32_t uid) { return std::array{prefix_ + std::to_string(uid), std::string()}; }};
};

TEST_F(TakeSnapshotTest, TrafficIsTheSamplesAsFarAsItCanBe) {
  DeviceReading reading = reading_of({}, std::nullopt);
  reading.sample.memory_bandwidth_percent = 100;
  reading.sample.pcie_sent_bytes_per_second = 10'000'000'000'000;
  reading.sample.pcie_received_bytes_per_second = 10'000'000'000'001;
  reading.sample.nvlink_sent_bytes_per_second = 3;
  const Device device = device_of(reading);
  EXPECT_EQ(device.sample.memory_bandwidth_percent, 100U);
  EXPECT_EQ(device.pcie_sent_bytes_per_second, 10'000'000'000'000U);
  EXPECT_EQ(device.pcie_received_bytes_per_second, std::nullopt);
  EXPECT_EQ(device.nvlink_sent_bytes_per_second, 3U);
  EXPECT_EQ(device.nvlink_received_bytes_per_second, std::nullopt);
  reading.sample.memory_bandwidth_percent = 101;
  EXPECT_EQ(device_of(reading).sample.memory_bandwidth_percent, std::nullopt);
}

TEST_F(TakeSnapshotTest, WhereAndWhenAreKept) {
  const Snapshot snapshot = take({});
  EXPECT_EQ(snapshot.time_ns, 77);
  EXPECT_EQ(snapshot.host, "node7");
  EXPECT_EQ(snapshot.notes, std::vector<std::string>{"a note"});
}

TEST_F(TakeSnapshotTest, EveryByteIsAccountedFor) {
  const Device whole =
      device_of(reading_of({1000, 300, 650, 50}, {{process_of(1, 200), process_of(2, 80)}}));
  EXPECT_EQ(whole.unattributed_bytes, 20);
  EXPECT_EQ(whole.unaccounted_bytes, 0);
  const Device apart =
      device_of(reading_of({1000, 300, 600, 50}, {{process_of(1, 200), process_of(2, 130)}}));
  EXPECT_EQ(apart.unattributed_bytes, -30);
  EXPECT_EQ(apart.unaccounted_bytes, 50);
  EXPECT_EQ(device_of(reading_of({1000, 300, 750, 50}, {{}})).unattributed_bytes, 300);
  EXPECT_EQ(device_of(reading_of({1000, 300, 750, 50}, {{}})).unaccounted_bytes, -100);
}

TEST_F(TakeSnapshotTest, ASumOfUnknownsIsUnknown) {
  const Device device = device_of(
      reading_of({1000, 300, 650, std::nullopt}, {{process_of(1, 200), process_of(2, {})}}));
  EXPECT_EQ(device.unattributed_bytes, std::nullopt);
  EXPECT_EQ(device.unaccounted_bytes, std::nullopt);
  EXPECT_EQ(device_of(reading_of({1000, 300, 650, 50}, {})).unattributed_bytes, std::nullopt);
}

TEST_F(TakeSnapshotTest, AnInstancesMemoryCountsOnce) {
  DeviceReading reading = reading_of({1000, {}, {}, {}}, {{process_of(1, 100), process_of(2, 60)}});
  // Two compute instances share the first GPU instance, and both have its 120 bytes.
  reading.health.mig_instances = {instance_of(1, 0, 120), instance_of(1, 1, 120),
                                  instance_of(2, 0, 70)};
  EXPECT_EQ(device_of(reading).unattributed_bytes, 120 + 70 - 160);
  reading.sample.memory.used_bytes = 200;  // the driver's own sum is better
  EXPECT_EQ(device_of(reading).unattributed_bytes, 40);
}

// The driver still names it, and its page is still there.
TEST_F(TakeSnapshotTest, AProcessThatEndedSaysNothing) {
  const std::string folder = prefix_ + std::to_string(geteuid());
  testing::Child child([&] {
    static record::Board board = record::Board::open(folder).value();
    board.post({.step = 12});
  });
  ProcessTable table;
  const auto take_one = [&] {
    auto reading = reading_of({1000, 300, 650, 50}, {{process_of(child.pid(), 200)}});
    return take_snapshot({77, "node7"}, {{reading}, {}}, table, boards_).processes.at(0);
  };
  ASSERT_TRUE(eventually([&] { return take_one().step.has_value(); }))
      << "the child posted nothing";
  for (int i = 0; i < 10; ++i) ASSERT_EQ(take_one().step, 12U);
  child.end();
  EXPECT_EQ(take_one().step, std::nullopt);
  EXPECT_TRUE(take_one().facts->start_ticks.has_value()) << "it waits for its parent";
  child.reap();
  EXPECT_EQ(take_one().step, std::nullopt);
  EXPECT_EQ(take_one().facts->start_ticks, std::nullopt);
  std::filesystem::remove_all(folder);
}

TEST_F(TakeSnapshotTest, ProcessesAreMergedOverDevices) {
  tree_.put({.pid = 9, .cmdline = "trainer"});
  gpu::DeviceProcess in_instance = process_of(9, 5);
  in_instance.gpu_instance = 2;
  const Snapshot snapshot = take(
      {reading_of({1000, 300, 650, 50}, {{process_of(9, 10), process_of(20, 30)}}),
       reading_of({2000, 900, 650, 50}, {{process_of(4, 1), process_of(9, 40), in_instance}})});
  ASSERT_EQ(snapshot.processes.size(), 3U);
  EXPECT_EQ(snapshot.processes[0].facts->pid, 4U);
  const Process& trainer = snapshot.processes[1];
  EXPECT_EQ(trainer.facts->command, "trainer");
  ASSERT_EQ(trainer.uses.size(), 3U);
  EXPECT_EQ(trainer.uses[0].device, 0U);
  EXPECT_EQ(trainer.uses[0].process.used_bytes, 10U);
  EXPECT_EQ(trainer.uses[1].device, 1U);
  EXPECT_EQ(trainer.uses[1].process.used_bytes, 40U);
  EXPECT_EQ(trainer.uses[2].process.gpu_instance, 2U);
  // The driver names it and the kernel does not: it counts in another pid namespace.
  EXPECT_EQ(snapshot.processes[2].facts->pid, 20U);
  EXPECT_EQ(snapshot.processes[2].facts->start_ticks, std::nullopt);
  EXPECT_EQ(snapshot.processes[2].uses[0].process.used_bytes, 30U);
}

TEST_F(TakeSnapshotTest, ProcessesThatLeftAreForgotten) {
  tree_.put({.pid = 9});
  (void)take({reading_of({}, {{process_of(9, 10)}})});
  EXPECT_EQ(table_.size(), 1U);
  (void)take({reading_of({}, {{}})});
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(TakeSnapshotTest, WhatAProcessPostsIsThere) {
  const auto pid = static_cast<uint32_t>(getpid());
  const std::string folder = prefix_ + std::to_string(geteuid());
  tree_.put({.pid = pid, .start_ticks = record::this_process().start_ticks, .uid = geteuid()});
  {
    record::Board board = record::Board::open(folder).value();
    const std::array<record::BoardDevice, 1> posted = {
        {{.device = 0, .allocated_bytes = 60, .reserved_bytes = 90, .cached_bytes = 25}}};
    board.post({.step = 3, .scope = "forward", .devices = posted});
    const Snapshot snapshot = take({reading_of({1000, 300, 650, 50}, {{process_of(pid, 100)}})});
    const Process& process = snapshot.processes[0];
    EXPECT_EQ(process.step, 3U);
    EXPECT_EQ(process.scope, "forward");
    ASSERT_TRUE(process.uses[0].allocator.has_value());
    EXPECT_EQ(process.uses[0].allocator->allocated_bytes, 60U);
    EXPECT_EQ(process.uses[0].allocator->reserved_bytes, 90U);
    EXPECT_EQ(process.uses[0].allocator->cached_bytes, 25U);
  }
  std::filesystem::remove_all(folder);
}

// Figures of every size, the absurd among them.
class Figures {
 public:
  std::optional<uint64_t> any() {
    switch (random_() % 6) {
      case 0:
        return std::nullopt;
      case 1:
        return UINT64_MAX - random_() % 3;
      case 2:
        return random_();
      default:
        return random_() % 1200;
    }
  }
  gpu::DeviceMemory memory(std::optional<uint64_t> total) { return {total, any(), any(), any()}; }
  size_t below(size_t end) { return random_() % end; }

 private:
  std::mt19937_64 random_{11};
};

DeviceReading random_reading(Figures& figures) {
  DeviceReading reading = reading_of(figures.memory(1000), std::vector<gpu::DeviceProcess>());
  for (size_t count = figures.below(5); count > 0; --count) {
    auto process = process_of(static_cast<uint32_t>(figures.below(8)), figures.any());
    process.busy_percent = static_cast<uint32_t>(figures.below(300));
    reading.sample.processes->push_back(process);
  }
  reading.sample.busy_percent = static_cast<uint32_t>(figures.below(300));
  reading.health.bar1 = figures.memory(2000);
  for (size_t count = figures.below(3); count > 0; --count) {
    auto instance = instance_of(static_cast<uint32_t>(count), 0, 0);
    instance.memory = figures.memory(figures.any());
    reading.health.mig_instances.push_back(instance);
  }
  return reading;
}

void expect_below(const gpu::DeviceMemory& memory, uint64_t total) {
  EXPECT_LE(memory.total_bytes.value_or(0), total);
  EXPECT_LE(memory.used_bytes.value_or(0), total);
  EXPECT_LE(memory.free_bytes.value_or(0), total);
  EXPECT_LE(memory.reserved_bytes.value_or(0), total);
}

void expect_kept(const gpu::DeviceMemory& reported, const gpu::DeviceMemory& shown,
                 uint64_t total) {
  for (const auto figure : {&gpu::DeviceMemory::used_bytes, &gpu::DeviceMemory::free_bytes,
                            &gpu::DeviceMemory::reserved_bytes}) {
    if (reported.*figure <= total) {
      EXPECT_EQ(shown.*figure, reported.*figure);
    }
  }
}

void expect_sums(const Device& device) {
  const gpu::DeviceMemory& memory = device.sample.memory;
  if (device.unaccounted_bytes) {
    EXPECT_EQ(
        static_cast<int64_t>(*memory.used_bytes + *memory.free_bytes + *memory.reserved_bytes) +
            *device.unaccounted_bytes,
        1000);
  }
  if (!device.unattributed_bytes || !memory.used_bytes) return;
  int64_t sum = *device.unattributed_bytes;
  for (const auto& process : *device.sample.processes) {
    sum += static_cast<int64_t>(process.used_bytes.value());
  }
  EXPECT_EQ(sum, static_cast<int64_t>(*memory.used_bytes));
}

TEST_F(TakeSnapshotTest, NoFigureIsAboveItsDevicesTotal) {
  Figures figures;
  size_t sums = 0;
  for (int round = 0; round < 10'000; ++round) {
    const DeviceReading reading = random_reading(figures);
    const Snapshot snapshot = take({reading});
    const Device& device = snapshot.devices[0];
    expect_below(device.sample.memory, 1000);
    expect_kept(reading.sample.memory, device.sample.memory, 1000);
    expect_below(*device.health.bar1, 2000);
    for (const auto& instance : device.health.mig_instances) expect_below(instance.memory, 1000);
    EXPECT_LE(device.sample.busy_percent.value_or(0), 100U);
    EXPECT_LE(device.unattributed_bytes.value_or(0), 1000);
    for (const Process& process : snapshot.processes) {
      for (const Use& use : process.uses) {
        EXPECT_LE(use.process.used_bytes.value_or(0), 1000U);
        EXPECT_LE(use.process.busy_percent.value_or(0), 100U);
      }
    }
    expect_sums(device);
    sums += device.unattributed_bytes && device.unaccounted_bytes ? 1 : 0;
  }
  EXPECT_GT(sums, 100U);
}

}  // namespace
}  // namespace vram::watch

// The board as the watcher reads it: whose pages count, and for which device their figures are.
#include "watch/boards.hpp"

#include "record/board.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace vram::watch {
namespace {

class BoardsTest : public ::testing::Test {
 protected:
  BoardsTest() {
    facts_.pid = static_cast<uint32_t>(getpid());
    facts_.uid = geteuid();
    facts_.start_ticks = record::this_process().start_ticks;
  }
  ~BoardsTest() override {
    std::filesystem::remove_all(folder_of(geteuid()));
    std::filesystem::remove_all(folder_of(geteuid() + 1));
    std::filesystem::remove_all(second_of(geteuid()));
  }
  [[nodiscard]] std::string folder_of(uint32_t uid) const { return prefix_ + std::to_string(uid); }

  std::string prefix_ = "/dev/shm/vram-boards-test-" + std::to_string(getpid()) + "-";
  // Another user has taken the first name, where a test makes it a file.
  [[nodiscard]] std::string second_of(uint32_t uid) const { return folder_of(uid) + "-second"; }
  Boards boards_{[this](uint32_t uid) { return std::array{folder_of(uid), second_of(uid)}; }};
  ProcessFacts facts_;
};

TEST_F(BoardsTest, ALivingOwnersPageCounts) {
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());
  record::Board board = record::Board::open(folder_of(geteuid())).value();
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());  // nothing posted yet
  board.post({.step = 12});
  const auto figures = boards_.figures_of(facts_);
  ASSERT_TRUE(figures.has_value());
  EXPECT_EQ(figures->step, 12U);
}

// Whatever is remembered of the folder from look to look.
TEST_F(BoardsTest, APageIsSeenInTheLookAfterItWasMade) {
  for (const int seconds : {0, 4}) {  // a folder that just changed, and one that did not for long
    std::filesystem::remove_all(folder_of(geteuid()));
    boards_.begin_sample();
    EXPECT_FALSE(boards_.figures_of(facts_).has_value());
    ASSERT_EQ(mkdir(folder_of(geteuid()).c_str(), 0700), 0);
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    for (int tick = 0; tick < 3; ++tick) {
      boards_.begin_sample();
      EXPECT_FALSE(boards_.figures_of(facts_).has_value());
    }
    record::Board board = record::Board::open(folder_of(geteuid())).value();
    board.post({.step = 12});
    boards_.begin_sample();
    EXPECT_TRUE(boards_.figures_of(facts_).has_value());
    boards_.begin_sample();
    EXPECT_TRUE(boards_.figures_of(facts_).has_value());
    std::filesystem::remove_all(folder_of(geteuid()));
    boards_.begin_sample();
    EXPECT_FALSE(boards_.figures_of(facts_).has_value());
  }
}

TEST_F(BoardsTest, APageCountsInAFolderOfVeryManyFiles) {
  record::Board board = record::Board::open(folder_of(geteuid())).value();
  board.post({.step = 12});
  for (int i = 0; i < 5000; ++i)
    std::ofstream(folder_of(geteuid()) + "/x" + std::to_string(i)).put('x');
  for (int tick = 0; tick < 2; ++tick) {
    boards_.begin_sample();
    EXPECT_TRUE(boards_.figures_of(facts_).has_value());
  }
}

TEST_F(BoardsTest, AnotherProcessOfThePidDoesNot) {
  record::Board board = record::Board::open(folder_of(geteuid())).value();
  board.post({.step = 12});
  *facts_.start_ticks += 1;
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());
  facts_.start_ticks.reset();
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());
}

TEST_F(BoardsTest, NobodySpeaksForAnotherUsersProcess) {
  // A folder with another user's number in its name, made by us.
  record::Board board = record::Board::open(folder_of(geteuid() + 1)).value();
  board.post({.step = 12});
  *facts_.uid += 1;
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());
  // The same through a link that is named as the user's own would be.
  *facts_.uid -= 1;
  std::filesystem::create_directory_symlink(folder_of(geteuid() + 1), folder_of(geteuid()));
  EXPECT_FALSE(boards_.figures_of(facts_).has_value());
}

TEST_F(BoardsTest, WhereTheFirstFolderIsTakenThePageInTheSecondCounts) {
  std::ofstream(folder_of(geteuid())).put('x');
  record::Board board = record::Board::open(second_of(geteuid())).value();
  board.post({.step = 12});
  for (int tick = 0; tick < 2; ++tick) {
    boards_.begin_sample();
    ASSERT_TRUE(boards_.figures_of(facts_).has_value());
    EXPECT_EQ(boards_.figures_of(facts_)->step, 12U);
  }
}

TEST_F(BoardsTest, AFolderMayBeNamed) {
  record::Board board = record::Board::open(folder_of(geteuid())).value();
  board.post({.step = 12});
  EXPECT_EQ(Boards::in(folder_of(geteuid())).figures_of(facts_).value().step, 12U);
  EXPECT_FALSE(Boards::in(folder_of(geteuid() + 1)).figures_of(facts_).has_value());  // none there
  *facts_.uid += 1;  // not the folder's owner's process
  EXPECT_FALSE(Boards::in(folder_of(geteuid())).figures_of(facts_).has_value());
}

class AddFiguresTest : public ::testing::Test {
 protected:
  AddFiguresTest() {
    for (uint32_t place = 0; place < 3; ++place) {
      Device device;
      device.identity.name = "H200";
      device.sample.memory.total_bytes = 1000;
      devices_.push_back(device);
    }
    known_.cuda.is_known = true;
  }
  void use(uint32_t device) { process_.uses.push_back({device, {}, std::nullopt}); }
  void post(uint64_t device, uint64_t allocated, uint64_t reserved) {
    figures_.devices[figures_.device_count++] = {
        .device = device, .allocated_bytes = allocated, .reserved_bytes = reserved};
  }
  void add() { add_figures(process_, figures_, known_, devices_); }
  [[nodiscard]] std::optional<uint64_t> allocated(size_t use) const {
    const auto& figures = process_.uses[use].allocator;
    return figures ? figures->allocated_bytes : std::nullopt;
  }
  std::vector<Device> devices_;
  Process process_;
  record::BoardFigures figures_;
  KnownProcess known_;
};

TEST_F(AddFiguresTest, EachUseHasTheFiguresOfItsDevice) {
  use(0);
  use(2);
  known_.cuda.visible_devices = "2,0";
  post(0, 20, 30);
  post(1, 500, 600);
  add();
  EXPECT_EQ(allocated(0), 500U);
  EXPECT_EQ(allocated(1), 20U);
  EXPECT_EQ(process_.uses[1].allocator->reserved_bytes, 30U);
  EXPECT_EQ(process_.uses[1].allocator->peak_bytes, std::nullopt);
}

TEST_F(AddFiguresTest, OneOfOneIsMeantWhateverItsNumber) {
  use(2);
  known_.cuda.is_known = false;
  post(0, 20, 30);
  add();
  EXPECT_EQ(allocated(0), 20U);
}

TEST_F(AddFiguresTest, NumbersThatLeadElsewhereAreNotBelieved) {
  use(1);
  use(2);
  post(0, 20, 30);
  post(1, 40, 50);
  add();
  EXPECT_EQ(allocated(0), std::nullopt);
  EXPECT_EQ(allocated(1), std::nullopt);
}

TEST_F(AddFiguresTest, ADeviceWithNothingReservedMayBeUnused) {
  use(1);
  use(2);
  post(0, 0, 0);
  post(1, 40, 50);
  add();
  EXPECT_EQ(allocated(0), 40U);
  EXPECT_EQ(allocated(1), std::nullopt);
}

TEST_F(AddFiguresTest, WhichInstanceIsMeantIsNotGuessed) {
  use(1);
  use(1);
  post(1, 40, 50);
  add();
  EXPECT_EQ(allocated(0), std::nullopt);
  EXPECT_EQ(allocated(1), std::nullopt);
}

TEST_F(AddFiguresTest, MoreThanTheDeviceHasIsUnknown) {
  use(1);
  post(1, 1001, 1000);
  add();
  EXPECT_EQ(allocated(0), std::nullopt);
  EXPECT_EQ(process_.uses[0].allocator->reserved_bytes, 1000U);
}

TEST_F(AddFiguresTest, StepAndScopeAreTheProcesss) {
  figures_.step_ns = 7;
  const std::string scope = "for\x1bward";
  scope.copy(figures_.scope, scope.size());
  add();
  EXPECT_EQ(process_.step, std::nullopt);
  EXPECT_EQ(process_.step_ns, 7U);
  EXPECT_EQ(process_.scope, "for\\x1bward");
}

}  // namespace

// CUDA's numbers against the management library's: what CUDA_VISIBLE_DEVICES makes of them, and
// where nothing is known.

namespace {

class CudaOrderTest : public ::testing::Test {
 protected:
  CudaOrderTest() {
    for (const char* const uuid : {"GPU-aa11", "GPU-aa22", "GPU-bb33"}) {
      Device device;
      device.identity.name = "H200";
      device.identity.uuid = uuid;
      devices_.push_back(device);
    }
    process_.cuda.is_known = true;
  }
  std::optional<uint32_t> device_of(uint64_t ordinal, const std::string& visible) {
    process_.cuda.visible_devices = visible;
    return device_of_cuda(ordinal, process_, devices_);
  }
  std::optional<uint32_t> device_of(uint64_t ordinal) {
    return device_of_cuda(ordinal, process_, devices_);
  }
  std::vector<Device> devices_;
  KnownProcess process_;
};

TEST_F(CudaOrderTest, WithoutTheVariableTheOrderIsTheSame) {
  EXPECT_EQ(device_of(0), 0U);
  EXPECT_EQ(device_of(2), 2U);
  EXPECT_EQ(device_of(3), std::nullopt);
}

TEST_F(CudaOrderTest, NumbersPickAndReorder) {
  EXPECT_EQ(device_of(0, "2,0"), 2U);
  EXPECT_EQ(device_of(1, "2, 0"), 0U);
  EXPECT_EQ(device_of(2, "2,0"), std::nullopt);
  EXPECT_EQ(device_of(0, "7"), std::nullopt);
}

TEST_F(CudaOrderTest, UuidsPickByTheirBeginning) {
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
  EXPECT_EQ(device_of(1, "GPU-b,GPU-aa2"), 1U);
  EXPECT_EQ(device_of(0, "GPU-aa"), std::nullopt);  // two begin so
  EXPECT_EQ(device_of(0, "GPU-cc"), std::nullopt);
}

TEST_F(CudaOrderTest, AtTheFirstThatIsNoneCudaStops) {
  EXPECT_EQ(device_of(0, "1,-1,2"), 1U);
  EXPECT_EQ(device_of(1, "1,-1,2"), std::nullopt);
  EXPECT_EQ(device_of(2, "1,-1,2"), std::nullopt);
  EXPECT_EQ(device_of(0, ""), std::nullopt);
  EXPECT_EQ(device_of(0, "MIG-1234"), std::nullopt);
  EXPECT_EQ(device_of(0, "99999999999999999999"), std::nullopt);
}

TEST_F(CudaOrderTest, UnequalDevicesHaveAnOrderOnlyWhereItIsSaid) {
  devices_[1].identity.name = "A30";
  EXPECT_EQ(device_of(0), std::nullopt);
  EXPECT_EQ(device_of(0, "2"), std::nullopt);
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
  process_.cuda.visible_devices.reset();
  process_.cuda.device_order = "PCI_BUS_ID";
  EXPECT_EQ(device_of(1), 1U);
}

TEST_F(CudaOrderTest, ContainersAndInstancesCountOtherwise) {
  devices_[1].health.is_mig = true;
  EXPECT_EQ(device_of(0), std::nullopt);
  devices_[1].health.is_mig = false;
  EXPECT_EQ(device_of(0), 0U);
  process_.facts.edit().container = Container{"docker", std::string(64, 'a')};
  EXPECT_EQ(device_of(0), std::nullopt);
  EXPECT_EQ(device_of(0, "GPU-bb33"), 2U);
}

TEST_F(CudaOrderTest, OtherMakersDevicesAreNotCounted) {
  devices_[0].identity.vendor = gpu::Vendor::kAmd;
  EXPECT_EQ(device_of(0), 1U);
  EXPECT_EQ(device_of(1, "0,1"), 2U);
}

TEST_F(CudaOrderTest, WithoutTheEnvironmentNothingIsKnown) {
  process_.cuda.is_known = false;
  EXPECT_EQ(device_of(0), std::nullopt);
}

}  // namespace
}  // namespace vram::watch

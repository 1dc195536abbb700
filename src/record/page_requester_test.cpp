// Both sides of a request to trim, in processes of their own, and pages that another program has
// put there.
#include "record/page_requester.hpp"

#include "base/testing/waiting.hpp"
#include "record/board.hpp"
#include "record/board_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vram::record {
namespace {

constexpr uint64_t kSoonNs = 20'000'000;
constexpr uint64_t kLongNs = 20'000'000'000;  // far more than it takes
constexpr uint64_t kMiB = uint64_t{1} << 20;

// A child with a page; killed at the end, so that its page stays behind.
class Owner {
 public:
  explicit Owner(const std::function<void()>& work) {
    int ready[2] = {-1, -1};
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ready[0]);
      said = ready[1];
      work();
      _exit(0);
    }
    close(ready[1]);  // so that a child that ends early ends the waiting
    pollfd waited{.fd = ready[0], .events = POLLIN, .revents = 0};
    char byte = 0;
    EXPECT_EQ(poll(&waited, 1, static_cast<int>(kLongNs / 1'000'000)), 1) << "the child hangs";
    EXPECT_TRUE((waited.revents & POLLIN) != 0 && read(ready[0], &byte, 1) == 1)
        << "the child ended before it was ready";
    close(ready[0]);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { kill(); }
  static void signal_ready() { EXPECT_EQ(write(said, "r", 1), 1); }
  void kill() {
    if (is_dead_) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    is_dead_ = true;
  }
  [[nodiscard]] uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  static inline int said = -1;  // in the child
  pid_t pid_ = -1;
  bool is_dead_ = false;
};

class PageRequesterTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(uint32_t pid) const { return folder_ + "/" + std::to_string(pid); }
  static uint32_t self() { return static_cast<uint32_t>(getpid()); }
  // Answers each request with its device and its bytes, added up.
  [[nodiscard]] std::function<void()> answering() const {
    return [folder = folder_] {
      Board board = Board::open(folder).value();
      Owner::signal_ready();
      while (true) {
        if (const auto requester = board.request())
          board.answer(*requester, requester->order.device_or_steps + requester->order.bytes_or_ns);
        usleep(100);
      }
    };
  }
  [[nodiscard]] std::function<void()> silent() const {
    return [folder = folder_] {
      const Board board = Board::open(folder).value();
      Owner::signal_ready();
      pause();
    };
  }
  [[nodiscard]] Result<PageRequester> start(uint32_t pid, const PageOrder& target = {}) const {
    return PageRequester::start(folder_, pid, target);
  }
  [[nodiscard]] Code refusal_of(uint32_t pid) const {
    const auto requester = start(pid);
    return requester ? Code::kTooLarge : requester.error().code;
  }

  std::string folder_ = "/dev/shm/vram-test-trim-" + std::to_string(getpid());
};

TEST_F(PageRequesterTest, AnotherProcessAnswersWithWhatCameBack) {
  const Owner owner(answering());
  PageRequester first =
      start(owner.pid(), {.device_or_steps = 3, .bytes_or_ns = 64 * kMiB}).value();
  EXPECT_EQ(first.wait(kLongNs), RequestState::kAnswered);
  EXPECT_EQ(first.bytes(), 64 * kMiB + 3);
  const PageRequester answered = std::move(first);
  PageRequester second = start(owner.pid(), {.device_or_steps = 0, .bytes_or_ns = 5}).value();
  EXPECT_EQ(second.wait(kSoonNs), RequestState::kQueued) << "the first still has the page";
}

TEST_F(PageRequesterTest, WhoDoesNotAnswerIsNotWaitedForLonger) {
  const Owner owner(silent());
  PageRequester requester = start(owner.pid()).value();
  EXPECT_EQ(requester.wait(kSoonNs), RequestState::kAsked);
  EXPECT_FALSE(requester.bytes().has_value());
}

TEST_F(PageRequesterTest, AnUnansweredRequestOfAnotherAskerIsReplaced) {
  Board board = Board::open(folder_).value();
  {
    const PageRequester given_up = start(self(), {.device_or_steps = 1, .bytes_or_ns = 10}).value();
  }
  const uint64_t old = board.request().value().number;
  PageRequester requester = start(self(), {.device_or_steps = 2, .bytes_or_ns = 20}).value();
  const PageRequest request = board.request().value();
  EXPECT_NE(request.number, old);
  EXPECT_EQ(request.order.bytes_or_ns, 20u);
  board.answer({.number = old}, 7);  // that the owner had begun with: not ours
  EXPECT_EQ(requester.poll(), RequestState::kAsked);
  board.answer(request, 8);
  EXPECT_EQ(requester.poll(), RequestState::kAnswered);
  EXPECT_EQ(requester.bytes(), 8u);
}

TEST_F(PageRequesterTest, ARequestThatIsTakenBackIsNotAnswered) {
  Board board = Board::open(folder_).value();
  PageRequester late = start(self()).value();
  const PageRequest begun = board.request().value();
  EXPECT_EQ(late.withdraw(), RequestState::kAsked);
  EXPECT_FALSE(board.request().has_value());
  EXPECT_FALSE(board.answer(begun, 7)) << "the owner learns of it after its answer";
}

TEST_F(PageRequesterTest, AnAnswerAtTheLastMomentIsSeen) {
  Board board = Board::open(folder_).value();
  PageRequester late = start(self()).value();
  EXPECT_TRUE(board.answer(board.request().value(), 7));
  EXPECT_EQ(late.withdraw(), RequestState::kAnswered);
  EXPECT_EQ(late.bytes(), 7u);
}

TEST_F(PageRequesterTest, AfterOneThatWasTakenBackTheNextIsAnswered) {
  Board board = Board::open(folder_).value();
  {
    PageRequester late = start(self()).value();
    (void)late.withdraw();
  }
  PageRequester next = start(self()).value();
  EXPECT_TRUE(board.answer(board.request().value(), 9));
  EXPECT_EQ(next.poll(), RequestState::kAnswered);
}

TEST_F(PageRequesterTest, WhatTheProcessCantTellIsUnknown) {
  Board board = Board::open(folder_).value();
  PageRequester requester = start(self()).value();
  EXPECT_EQ(board.request().value().order.bytes_or_ns, kBoardUnknown);
  board.answer(*board.request(), kBoardUnknown);
  EXPECT_EQ(requester.poll(), RequestState::kAnswered);
  EXPECT_FALSE(requester.bytes().has_value());
}

// Each asker wishes another number of bytes, and must get that back.
TEST_F(PageRequesterTest, OfManyAskersEachGetsItsOwnAnswer) {
  const Owner owner(answering());
  std::vector<pid_t> askers;
  for (uint64_t asker = 0; asker < 4; ++asker) {
    askers.push_back(fork());
    if (askers.back() != 0) continue;
    for (uint64_t round = 0; round < 25; ++round) {
      const uint64_t bytes = asker * 1000 + round;
      auto requester = start(owner.pid(), {.device_or_steps = 0, .bytes_or_ns = bytes});
      if (!requester || requester->wait(kLongNs) != RequestState::kAnswered ||
          requester->bytes() != bytes)
        _exit(1);
    }
    _exit(0);
  }
  for (const pid_t asker : askers) {
    const int status = status_of_child(asker);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(PageRequesterTest, AnAskerThatIsKilledHoldsUpNobody) {
  const Owner owner(answering());
  {
    const Owner killed([&] {
      const auto requester = start(owner.pid()).value();
      Owner::signal_ready();
      pause();
    });
    EXPECT_EQ(start(owner.pid()).value().poll(), RequestState::kQueued);
  }
  EXPECT_EQ(start(owner.pid(), {.device_or_steps = 0, .bytes_or_ns = 9}).value().wait(kLongNs),
            RequestState::kAnswered);
}

TEST_F(PageRequesterTest, AnOwnerThatDiesOrLeavesIsSeen) {
  Owner owner(silent());
  PageRequester requester = start(owner.pid()).value();
  owner.kill();
  EXPECT_EQ(requester.wait(kLongNs), RequestState::kOwnerDied);
  EXPECT_EQ(refusal_of(owner.pid()), Code::kNotFound);
  Board board = Board::open(folder_).value();
  PageRequester left = start(self()).value();
  board.withdraw();
  EXPECT_EQ(left.wait(kLongNs), RequestState::kWithdrawn);
}

TEST_F(PageRequesterTest, AnOwnerThatNobodyHasWaitedForIsDead) {
  const Owner owner(silent());
  PageRequester requester = start(owner.pid()).value();
  ::kill(static_cast<pid_t>(owner.pid()), SIGKILL);
  EXPECT_EQ(requester.wait(kLongNs), RequestState::kOwnerDied);
}

TEST_F(PageRequesterTest, AnAnswerCountsThoughItsOwnerHasDiedSince) {
  Owner owner([this] {
    Board board = Board::open(folder_).value();
    Owner::signal_ready();
    while (!board.request()) usleep(100);
    board.answer(*board.request(), 77);
    pause();
  });
  PageRequester requester = start(owner.pid()).value();
  const auto is_answered = [&] {
    return read_board(folder_, owner.pid()).value().state != OwnerState::kAlive ||
           requester.poll() == RequestState::kAnswered;
  };
  ASSERT_TRUE(eventually(is_answered, kWaitLimit, {})) << "the owner never answered";
  owner.kill();
  EXPECT_EQ(requester.poll(), RequestState::kAnswered);
  EXPECT_EQ(requester.bytes(), 77u);
}

TEST_F(PageRequesterTest, PagesThatOthersCouldHavePutThereAreNotWritten) {
  const Board board = Board::open(folder_).value();
  const std::string page = path(self());
  ASSERT_EQ(chmod(page.c_str(), 0660), 0);
  EXPECT_EQ(refusal_of(self()), Code::kBadInput);
  ASSERT_EQ(chmod(page.c_str(), 0600), 0);
  ASSERT_EQ(link(page.c_str(), (folder_ + "/other").c_str()), 0);
  EXPECT_EQ(refusal_of(self()), Code::kBadInput);
  ASSERT_EQ(unlink((folder_ + "/other").c_str()), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_EQ(refusal_of(self()), Code::kBadInput);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  ASSERT_EQ(truncate(page.c_str(), 2 * kBoardPageBytes), 0);
  EXPECT_EQ(refusal_of(self()), Code::kBadInput);
  ASSERT_EQ(truncate(page.c_str(), kBoardPageBytes), 0);
  EXPECT_FALSE(board.request().has_value()) << "nothing was written so far";
  EXPECT_TRUE(start(self()).has_value());
}

TEST_F(PageRequesterTest, WhatIsNoPageIsNotWritten) {
  std::filesystem::create_directory(folder_);
  chmod(folder_.c_str(), 0700);
  std::ofstream(folder_ + "/1") << "short";
  ASSERT_EQ(mkfifo(path(2).c_str(), 0600), 0);
  std::filesystem::create_symlink("1", path(3));
  EXPECT_EQ(refusal_of(1), Code::kBadInput);
  EXPECT_EQ(refusal_of(2), Code::kBadInput);
  EXPECT_EQ(refusal_of(3), Code::kNotFound);
  EXPECT_EQ(refusal_of(4), Code::kNotFound);
  EXPECT_EQ(std::filesystem::file_size(path(1)), 5u);
}

// What the page says, changed by hand.
class ForgedPageTest : public PageRequesterTest {
 protected:
  void forge(size_t offset, uint64_t value) const {
    std::fstream page(path(self()), std::ios::in | std::ios::out | std::ios::binary);
    page.seekp(static_cast<std::streamoff>(offset));
    page.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static constexpr size_t kOwner = offsetof(BoardPage, owner);
  static constexpr size_t kRequest = offsetof(BoardPage, request);
};

TEST_F(ForgedPageTest, OwnersElsewhereOrOfAnotherTimeAreNotAsked) {
  const Board board = Board::open(folder_).value();
  const BoardOwner own = this_process();
  forge(kOwner + offsetof(BoardOwner, start_ticks), own.start_ticks + 1);
  EXPECT_EQ(refusal_of(self()), Code::kNotFound);
  forge(kOwner + offsetof(BoardOwner, start_ticks), own.start_ticks);
  forge(kOwner + offsetof(BoardOwner, pid_namespace), own.pid_namespace + 1);
  EXPECT_EQ(refusal_of(self()), Code::kUnsupported);
}

TEST_F(ForgedPageTest, RequestsOfEveryNumberAreSeen) {
  Board board = Board::open(folder_).value();
  for (const uint64_t number : {uint64_t{255}, UINT64_MAX, uint64_t{0}}) {
    forge(kRequest + offsetof(BoardRequest, wanted), number);
    forge(kRequest + offsetof(BoardRequest, answered), number + 1);
    PageRequester requester = start(self()).value();
    EXPECT_EQ(requester.poll(), RequestState::kAsked) << "answered before it was asked";
    board.answer(board.request().value(), number % 1000);
    EXPECT_EQ(requester.poll(), RequestState::kAnswered);
    EXPECT_EQ(requester.bytes(), number % 1000);
  }
}

TEST_F(PageRequesterTest, APageThatShrinksEndsTheWaiting) {
  const Owner owner(silent());
  PageRequester requester = start(owner.pid()).value();
  ASSERT_EQ(truncate(path(owner.pid()).c_str(), 100), 0);
  EXPECT_EQ(requester.wait(kLongNs), RequestState::kBroken);
}

TEST_F(PageRequesterTest, DeadOwnersPagesAreSweptAndNoOthers) {
  Owner dead(silent());
  const Owner living(silent());
  dead.kill();
  EXPECT_EQ(list_board(folder_).size(), 2u);
  EXPECT_THAT(sweep_board(folder_).value(), ::testing::ElementsAre(dead.pid()));
  EXPECT_THAT(list_board(folder_), ::testing::ElementsAre(living.pid()));
  EXPECT_THAT(sweep_board(folder_).value(), ::testing::IsEmpty());
  EXPECT_THAT(sweep_board("/nowhere").value(), ::testing::IsEmpty());
}

TEST_F(ForgedPageTest, WhatIsNoDeadOwnersPageStays) {
  const Board board = Board::open(folder_).value();
  forge(kOwner + offsetof(BoardOwner, pid_namespace), 1);
  std::ofstream(path(1)) << "no page";
  EXPECT_THAT(sweep_board(folder_).value(), ::testing::IsEmpty());
  EXPECT_EQ(list_board(folder_).size(), 2u);
  std::filesystem::create_directory_symlink(folder_, folder_ + "-link");
  EXPECT_EQ(sweep_board(folder_ + "-link").error().code, Code::kIo);
  std::filesystem::remove(folder_ + "-link");
}

// Between the look at a dead owner's page and its removal, a new process with the same pid may
// post.
TEST_F(ForgedPageTest, APageThatComesUnderADeadOnesNameStays) {
  const Board dead = Board::open(folder_).value();
  const PageFile page = PageFile::open(folder_, self()).value();
  Board living = Board::open(folder_).value();  // under the same name
  living.post({.scope = "alive"});
  EXPECT_FALSE(remove_page(folder_, page));
  EXPECT_STREQ(read_board(folder_, self()).value().figures->scope, "alive");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_TRUE(remove_page(folder_, PageFile::open(folder_, self()).value()));
  EXPECT_FALSE(remove_page(folder_, page)) << "there is none any more";
}

}  // namespace
}  // namespace vram::record

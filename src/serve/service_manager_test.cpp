#include "serve/service_manager.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace vram::serve {
namespace {

// systemd's end of it.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : descriptor_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name.front() == '@') address.sun_path[0] = '\0';
    const size_t size = offsetof(sockaddr_un, sun_path) + name.size();
    is_bound_ = bind(descriptor_, reinterpret_cast<const sockaddr*>(&address),
                     static_cast<socklen_t>(size)) == 0;
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager() { (void)close(descriptor_); }

  [[nodiscard]] bool is_bound() const { return is_bound_; }
  // The next datagram; "" where none has come.
  [[nodiscard]] std::string heard() const {
    std::array<char, 256> bytes{};
    const ssize_t count = recv(descriptor_, bytes.data(), bytes.size(), 0);
    return {bytes.data(), count > 0 ? static_cast<size_t>(count) : 0};
  }

 private:
  int descriptor_;
  bool is_bound_ = false;
};

std::string unused_path() {
  std::string pattern = (std::filesystem::temp_directory_path() / "vram-notify-XXXXXX").string();
  return std::string(mkdtemp(pattern.data())) + "/socket";
}

TEST(ServiceManager, HearsEachWordInADatagramOfItsOwn) {
  const std::string path = unused_path();
  {
    const Manager systemd(path);
    ASSERT_TRUE(systemd.is_bound());
    const ServiceManager manager(path, "");
    manager.notify("READY=1");
    manager.notify("WATCHDOG=1");
    EXPECT_EQ(systemd.heard(), "READY=1");
    EXPECT_EQ(systemd.heard(), "WATCHDOG=1");
    EXPECT_EQ(systemd.heard(), "");
  }
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

TEST(ServiceManager, MayHaveANameThatIsNoFile) {
  const std::string name = "@vram-test-" + std::to_string(getpid());
  const Manager systemd(name);
  ASSERT_TRUE(systemd.is_bound());
  ServiceManager(name, "").notify("STOPPING=1");
  EXPECT_EQ(systemd.heard(), "STOPPING=1");
}

TEST(ServiceManager, ThatIsNotThereOrDoesNotReadDelaysNobody) {
  ServiceManager("", "").notify("READY=1");
  ServiceManager("/nowhere/socket", "").notify("READY=1");
  ServiceManager(std::string(200, 'x'), "").notify("READY=1");  // no socket's name is so long
  const std::string name = "@vram-test-deaf-" + std::to_string(getpid());
  const Manager deaf(name);
  ASSERT_TRUE(deaf.is_bound());
  const ServiceManager manager(name, "");
  for (int i = 0; i < 10'000; ++i) manager.notify("WATCHDOG=1");  // its queue is full long before
  EXPECT_EQ(deaf.heard(), "WATCHDOG=1");
}

TEST(ServiceManager, WantsASignOfLifeOnlyWhereItSaysHowOften) {
  EXPECT_EQ(ServiceManager("", "30000000").watchdog(), std::chrono::seconds(30));
  for (const char* const none : {"", "0", "-5", "30s", "99999999999999999999"})
    EXPECT_FALSE(ServiceManager("", none).watchdog()) << none;
}

}  // namespace
}  // namespace vram::serve

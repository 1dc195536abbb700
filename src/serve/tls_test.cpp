#include "serve/tls.hpp"

#include "base/threads.hpp"
#include "history/testing/history_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <sys/stat.h>
#include <thread>

namespace vram::serve {
namespace {

// A certificate whose place a FIFO takes now and then, just as it is read.
TEST(TlsContext, NoFileThatTakesTheirPlaceHoldsItUp) {
  if (!OpenSsl::library()) GTEST_SKIP() << OpenSsl::library().error().message;
  const history::testing::Folder folder;
  const std::string certificate = folder.file("certificate");
  const std::string fifo = folder.file("fifo");
  std::ofstream(certificate) << "no certificate";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::atomic<bool> is_over = false;
  std::thread swapping([&] {
    while (!is_over)
      (void)renameat2(AT_FDCWD, certificate.c_str(), AT_FDCWD, fifo.c_str(), RENAME_EXCHANGE);
  });
  TlsSettings settings;
  settings.cert_file = settings.key_file = certificate;
  DetachableThread reading([settings] {
    for (int i = 0; i < 100; ++i) {
      if (const auto texts = TlsTexts::read(settings)) (void)TlsContext::make(settings, *texts);
    }
  });
  EXPECT_TRUE(reading.join_for(std::chrono::seconds(60)));
  is_over = true;
  swapping.join();
}

TEST(OpenSslTest, SaysWhatToInstallWhereThereIsNone) {
  const auto api = OpenSsl::load({"libssl-that-is-not-there.so.3"});
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, Code::kUnsupported);
  EXPECT_THAT(api.error().message, ::testing::HasSubstr("libssl-that-is-not-there.so.3"));
  EXPECT_THAT(api.error().message, ::testing::HasSubstr("install it"));
  const auto other = OpenSsl::load({"libm.so.6"});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, ::testing::HasSubstr("TLS_server_method"));
}

}  // namespace
}  // namespace vram::serve

#include "serve/address.hpp"

#include <gtest/gtest.h>

namespace vram::serve {
namespace {

TEST(Address, IsAnIpAndAPort) {
  const std::pair<const char*, const char*> cases[] = {{"127.0.0.1:9877", "127.0.0.1:9877"},
                                                       {"127.0.0.1", "127.0.0.1:9877"},
                                                       {"localhost:80", "127.0.0.1:80"},
                                                       {"0.0.0.0:0", "0.0.0.0:0"},
                                                       {"[::1]:65535", "[::1]:65535"},
                                                       {"[::1]", "[::1]:9877"},
                                                       {"::1", "[::1]:9877"},
                                                       {"fe80::2", "[fe80::2]:9877"}};
  for (const auto& [text, meant] : cases) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), meant);
  }
}

TEST(Address, WhatIsNoneIsRefusedByName) {
  for (const char* text : {"", ":9877", "9877", "gpu01:80", "127.0.0.1:", "127.0.0.1:65536",
                           "127.0.0.1:-1", "127.0.0.1:80x", "[127.0.0.1]:80", "[::1", "1.2.3:4"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_NE(address.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(IsLoopback, OnlyWhatThisMachineAloneReaches) {
  for (const char* ip : {"127.0.0.1", "127.255.0.3", "::1", "0:0:0:0:0:0:0:1"})
    EXPECT_TRUE(is_loopback(ip)) << ip;
  for (const char* ip : {"0.0.0.0", "::", "10.0.0.127", "128.0.0.1", "127.1", "", "fe80::1"})
    EXPECT_FALSE(is_loopback(ip)) << ip;
}

}  // namespace
}  // namespace vram::serve

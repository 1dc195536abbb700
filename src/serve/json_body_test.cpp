#include "serve/json_body.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vram::serve {
namespace {

TEST(JsonBody, ReadsMembersByType) {
  const auto body =
      JsonBody::parse(
          R"({"a": "text", "n": 7, "f": true, "d": "2h", "l": [1, 4294967295], "z": null})",
          {"a", "n", "f", "d", "l", "z", "m"})
          .value();
  EXPECT_EQ(body.text("a").value(), "text");
  EXPECT_EQ(body.number("n").value(), 7U);
  EXPECT_EQ(body.flag("f").value(), true);
  EXPECT_EQ(body.duration_ns("d").value(), int64_t{7'200'000'000'000});
  EXPECT_EQ(body.numbers("l").value(), (std::vector<uint32_t>{1, 4294967295}));
  for (const char* const none : {"z", "m"}) {
    EXPECT_EQ(body.text(none).value(), std::nullopt);
    EXPECT_EQ(body.number(none).value(), std::nullopt);
    EXPECT_TRUE(body.numbers(none).value().empty());
  }
}

TEST(JsonBody, RefusesWhatIsNoObjectOfTheseMembers) {
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("7"),
        std::string("{\"a\":1} x"), std::string("{\"a\xff\":1}"), std::string(4000, '['),
        "{\"a\":" + std::string(1000, '[') + "}"})
    EXPECT_FALSE(JsonBody::parse(bad, {"a"})) << bad.substr(0, 20);
  const auto unknown = JsonBody::parse(R"({"b\u001b": 1})", {"a"});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("b\\x1b"), std::string::npos) << unknown.error().message;
}

// Whatever brackets a text contains.
TEST(JsonBody, RefusesDeepNesting) {
  const std::string deep = std::string(20'000, '[') + std::string(20'000, ']');
  for (const std::string text : {"", "]]]]", "\\\"]]]]", "[\\\\"}) {
    const std::string closing(text.size() <= 2 ? 0 : 20'000, ']');
    const std::string body = R"({"comment": ")" + text + closing + R"(", "alert": )" + deep + "}";
    const auto parsed = JsonBody::parse(body, {"comment", "alert"});
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::kBadInput);
  }
  EXPECT_TRUE(JsonBody::parse(R"({"comment": "[[[[[[[[ {{{{{{{{ \" [[[["})", {"comment"}));
}

TEST(JsonBody, RefusesOtherTypes) {
  const auto body =
      JsonBody::parse(R"({"a": {"b": "\u001b"}, "n": -1, "x": 1.5, "l": [-1], "m": [4294967296]})",
                      {"a", "n", "x", "l", "m"})
          .value();
  EXPECT_FALSE(body.text("a"));
  EXPECT_FALSE(body.flag("a"));
  EXPECT_FALSE(body.duration_ns("n"));
  EXPECT_FALSE(body.number("n"));
  EXPECT_FALSE(body.number("x"));
  EXPECT_FALSE(body.numbers("n"));
  EXPECT_FALSE(body.numbers("l"));
  EXPECT_FALSE(body.numbers("m"));
}

}  // namespace
}  // namespace vram::serve

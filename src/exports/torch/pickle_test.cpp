#include "exports/torch/pickle.hpp"

#include "exports/testing/decoded.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace vram::exports {
namespace {

TEST(PickleWriterTest, WritesEveryIntegerAsItIs) {
  std::vector<int64_t> numbers = {0, std::numeric_limits<int64_t>::min()};
  for (unsigned bits = 0; bits < 63; ++bits) {
    const int64_t power = int64_t{1} << bits;
    for (const int64_t near : {power - 1, power, power + 1}) {
      numbers.push_back(near);
      numbers.push_back(-near);
    }
  }
  for (const int64_t number : numbers) {
    std::string bytes;
    PickleWriter out(bytes);
    out.protocol_4();
    out.integer(number);
    out.stop();
    EXPECT_EQ(decoded(bytes), std::to_string(number));
  }
  for (const uint64_t number : {uint64_t{1} << 63, ~uint64_t{0}}) {
    std::string bytes;
    PickleWriter out(bytes);
    out.protocol_4();
    out.unsigned_integer(number);
    out.stop();
    EXPECT_EQ(decoded(bytes), std::to_string(number));
  }
}

TEST(PickleWriterTest, WritesEveryKindOfValue) {
  std::string bytes;
  PickleWriter out(bytes);
  out.protocol_4();
  out.empty_list();
  out.mark();
  out.text("short");
  out.put(255);
  out.text(std::string(300, 'x'));
  out.put(256);
  out.get(255);
  out.get(256);
  out.real(-1.5);
  out.boolean(true);
  out.none();
  out.integer(1);
  out.integer(2);
  out.pair();
  out.append_items();
  out.stop();
  const std::string x(300, 'x');
  EXPECT_EQ(decoded(bytes),
            "['short', '" + x + "', 'short', '" + x + "', fbff8000000000000, True, None, (1, 2)]");
}

}  // namespace
}  // namespace vram::exports

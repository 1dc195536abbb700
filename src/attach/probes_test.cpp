// The notes of this test's own program, which has the probes of testing/stand_in.cpp, and of
// damaged copies of it.
#include "attach/probes.hpp"

#include "attach/testing/stand_in.hpp"
#include "base/file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace vram::attach {
namespace {

constexpr const char* kProgram = "/proc/self/exe";

class ProbesTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // Inverts the byte of the file.
  void damage(size_t place, char byte) const {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place));
    file.put(static_cast<char>(byte ^ 0xff));
  }
  std::string path_ =
      std::filesystem::temp_directory_path() / ("vram-probes-" + std::to_string(getpid()) + ".so");
};

TEST_F(ProbesTest, ALibrarysProbesAreFoundByProvider) {
  const auto probes = read_probes(kProgram, "pytorch").value();
  ASSERT_EQ(probes.size(), 2u);
  const std::string program = read_whole(kProgram, uint64_t{1} << 30).value();
  for (const Probe& probe : probes) {
    EXPECT_EQ(program.at(probe.offset), '\x90') << probe.name;  // nop
    EXPECT_EQ(program.substr(probe.semaphore_offset, 2), std::string(2, '\0'));
    EXPECT_EQ(parse_operands(probe.operands).value().size(), probe.name == "malloc" ? 4u : 1u);
  }
  EXPECT_NE(probes[0].semaphore_offset, probes[1].semaphore_offset);
  EXPECT_EQ(read_probes(kProgram, kOtherProvider).value().size(), 2u);
  EXPECT_TRUE(read_probes(kProgram, "another").value().empty());
}

TEST_F(ProbesTest, OtherFilesHaveNone) {
  write("");
  EXPECT_TRUE(read_probes(path_, "pytorch").value().empty());
  write(std::string(4096, 'x'));
  EXPECT_TRUE(read_probes(path_, "pytorch").value().empty());
  EXPECT_TRUE(read_probes("/proc/self/maps", "pytorch").value().empty());
  const auto missing = read_probes(path_ + ".none", "pytorch");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kIo);
}

// No byte of a file is trusted: whatever is damaged, the answer is an error or probes within the
// file.
TEST_F(ProbesTest, DamagedFilesAreReadWithinTheirBounds) {
  const std::string program = read_whole(kProgram, uint64_t{1} << 30).value();
  const size_t notes = program.rfind("stapsdt\0", std::string::npos, 8);
  ASSERT_NE(notes, std::string::npos);
  uint64_t headers = 0;
  std::memcpy(&headers, program.data() + 40, sizeof headers);
  std::vector<size_t> places;
  for (size_t i = 0; i < 64; ++i) places.push_back(i);                        // ELF header
  for (size_t i = 64; i < 64 + 56 * 12; i += 3) places.push_back(i);          // segments
  for (size_t i = headers; i < program.size(); i += 11) places.push_back(i);  // sections
  for (size_t i = notes - 256; i < notes + 96; i += 1) places.push_back(i);   // notes
  write(program);
  size_t kept = 0;
  for (const size_t place : places) {
    if (place >= program.size()) continue;
    damage(place, program[place]);
    const auto probes = read_probes(path_, "pytorch");
    damage(place, static_cast<char>(program[place] ^ 0xff));  // as it was
    if (!probes) continue;
    for (const Probe& probe : *probes) EXPECT_LT(probe.offset, program.size());
    kept += probes->size() == 2 ? 1 : 0;
  }
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, places.size());
}

}  // namespace
}  // namespace vram::attach

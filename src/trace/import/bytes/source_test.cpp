#include "trace/import/bytes/source.hpp"

#include "trace/testing/import_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <string>
#include <vector>

namespace vram::trace {
namespace {

std::string gz(std::string_view text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zst(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string xz(std::string_view text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(
                1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                text.size(), reinterpret_cast<uint8_t*>(packed.data()), &size, packed.size()),
            LZMA_OK);
  packed.resize(size);
  return packed;
}

struct Unpacked {
  std::string bytes;
  bool is_truncated = false;
  std::string compression;
  std::string error;
};

Unpacked unpack(std::string_view packed, size_t at_once = 1000) {
  Unpacked all;
  auto source = decompressed(memory_source(bytes_of(packed)));
  if (!source) return {{}, false, {}, source.error().message};
  std::vector<std::byte> buffer(at_once);
  while (true) {
    const Result<size_t> count = (*source)->read(buffer);
    if (!count) {
      all.error = count.error().message;
      break;
    }
    if (*count == 0) break;
    all.bytes.append(reinterpret_cast<const char*>(buffer.data()), *count);
  }
  all.is_truncated = (*source)->is_truncated();
  all.compression = (*source)->compression();
  return all;
}

// Compresses, but not to nothing: several buffers on both sides.
std::string sample() {
  std::string text;
  uint32_t state = 1;
  while (text.size() < 700'000) {
    state = state * 1664525 + 1013904223;
    text += std::to_string(state >> 8);
  }
  return text;
}

struct Packer {
  const char* name;
  std::string (*pack)(std::string_view);
};
class SourceTest : public testing::TestWithParam<Packer> {};

TEST_P(SourceTest, GivesBackWhatWasPacked) {
  const std::string text = sample();
  const Unpacked all = unpack(GetParam().pack(text));
  EXPECT_EQ(all.error, "");
  EXPECT_TRUE(all.bytes == text);
  EXPECT_FALSE(all.is_truncated);
  EXPECT_EQ(all.compression, GetParam().name);
}

TEST_P(SourceTest, ReadsSeveralMembersAsOneStream) {
  const std::string text = sample();
  const auto pack = GetParam().pack;
  const std::string packed = pack(std::string_view(text).substr(0, 300'001)) + pack("") +
                             pack(std::string_view(text).substr(300'001));
  const Unpacked all = unpack(packed, 65'536);
  EXPECT_EQ(all.error, "");
  EXPECT_TRUE(all.bytes == text);
  EXPECT_FALSE(all.is_truncated);
}

TEST_P(SourceTest, GivesWhatIsThereOfACutFile) {
  const std::string text = sample();
  const std::string packed = GetParam().pack(text);
  for (const size_t cut : {packed.size() / 3, packed.size() / 2, packed.size() - 1}) {
    const Unpacked all = unpack(std::string_view(packed).substr(0, cut));
    EXPECT_EQ(all.error, "");
    EXPECT_TRUE(all.is_truncated) << cut;
    EXPECT_TRUE(std::string_view(text).starts_with(all.bytes)) << cut;
  }
}

TEST_P(SourceTest, RefusesDamagedData) {
  std::string packed = GetParam().pack(sample());
  for (size_t i = packed.size() / 2; i < packed.size() / 2 + 64; ++i) packed[i] = '\x5a';
  EXPECT_NE(unpack(packed).error, "");
}

INSTANTIATE_TEST_SUITE_P(Packers, SourceTest,
                         testing::Values(Packer{"gz", gz}, Packer{"zst", zst}, Packer{"xz", xz}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(SourceTest, TakesOtherBytesAsTheyAre) {
  const std::string text = sample();
  const Unpacked all = unpack(text);
  EXPECT_TRUE(all.bytes == text);
  EXPECT_EQ(all.compression, "");
}

TEST(SourceTest, EndsAtPaddingAfterGzip) {
  const Unpacked all = unpack(gz("abc") + std::string(512, '\0'));
  EXPECT_EQ(all.bytes, "abc");
  EXPECT_FALSE(all.is_truncated);
}

TEST(WindowTest, HoldsATextLongerThanItself) {
  const std::string text = sample();
  const auto source = memory_source(bytes_of(text));
  ByteWindow window(*source, {});
  ASSERT_TRUE(window.refill(window.begin(), 10));
  const uint8_t* const at = window.begin() + 7;
  ASSERT_TRUE(window.refill(at, 500'000));
  ASSERT_GE(window.end() - window.begin(), 500'000);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(window.begin()), 500'000),
            std::string_view(text).substr(7, 500'000));
  EXPECT_EQ(window.offset_of(window.begin()), 7U);
}

TEST(WindowTest, SkipsWithoutHolding) {
  const std::string text = sample();
  const auto source = memory_source(bytes_of(text));
  ByteWindow window(*source, {});
  EXPECT_EQ(window.skip(window.begin(), 600'000), 600'000U);
  EXPECT_EQ(window.offset_of(window.begin()), 600'000U);
  EXPECT_EQ(window.skip(window.begin(), text.size()), text.size() - 600'000);
  EXPECT_EQ(window.begin(), window.end());
}

TEST(WindowTest, StopsAtTheLimit) {
  const std::string text = sample();
  const auto source = memory_source(bytes_of(text));
  ByteWindow window(*source, {.max_bytes = 100'000, .progress = nullptr});
  EXPECT_FALSE(window.refill(window.begin(), 200'000));
  ASSERT_TRUE(window.error());
  EXPECT_EQ(window.error()->code, Code::kTooLarge);
}

// A few KiB that would keep vram busy for hours.
TEST(WindowTest, RefusesBombs) {
  constexpr uint64_t kMin = 1 << 20;
  const auto reads = [](std::string_view packed) {
    const auto source = decompressed(memory_source(bytes_of(packed))).value();
    ByteWindow window(*source, {.progress = nullptr, .min_bomb_bytes = kMin});
    (void)window.skip(window.begin(), uint64_t{1} << 40);
    return window.error() ? window.error()->message : "";
  };
  const std::string spaces(16 << 20, ' ');
  EXPECT_THAT(reads(xz(spaces)), testing::HasSubstr("unpack it first"));
  EXPECT_THAT(reads(zst(spaces)), testing::HasSubstr("1,000 times its size"));
  EXPECT_THAT(reads(gz(spaces)), testing::HasSubstr("unpack it first"));
  EXPECT_EQ(reads(spaces), "");
  EXPECT_EQ(reads(xz(spaces.substr(0, kMin))), "");
  EXPECT_EQ(reads(xz(sample() + sample())), "");
}

}  // namespace
}  // namespace vram::trace

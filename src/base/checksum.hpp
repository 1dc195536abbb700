// CRC-32C (Castagnoli) for short headers: detects every change within 32 adjacent bits.
// Table-driven, about 400 MB/s, without special instructions; larger contents use zstd's checksum.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace vram {

namespace detail {
constexpr std::array<uint32_t, 256> make_crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}
inline constexpr std::array<uint32_t, 256> kCrc32cTable = make_crc32c_table();
}  // namespace detail

[[nodiscard]] constexpr uint32_t crc32c(std::span<const uint8_t> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const uint8_t byte : bytes) crc = (crc >> 8) ^ detail::kCrc32cTable[(crc ^ byte) & 0xff];
  return ~crc;
}

}  // namespace vram

// parse_fdinfo(): each rule by a text of a few lines.
#include "gpu/drm/fdinfo.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace vram::gpu::drm {
namespace {

ClientFigures parse(std::string_view lines) {
  return parse_fdinfo("drm-driver:\tamdgpu\n" + std::string(lines)).value();
}

TEST(FdinfoTest, WhatIsNotOfDrmIsNothing) {
  EXPECT_FALSE(parse_fdinfo(""));
  EXPECT_FALSE(parse_fdinfo("pos:\t0\nflags:\t02\nmnt_id:\t15\neventfd-count: 3\n"));
  EXPECT_TRUE(parse_fdinfo("vram mem:\t0 kB\n"));
}

TEST(FdinfoTest, ResidentGoesBeforeMemoryBeforeTotal) {
  EXPECT_EQ(parse("drm-total-vram: 9 KiB\n").used_bytes, 9 * kKiB);
  EXPECT_EQ(parse("drm-memory-vram: 8 KiB\ndrm-total-vram: 9 KiB\n").used_bytes, 8 * kKiB);
  EXPECT_EQ(
      parse("drm-total-vram: 9 KiB\ndrm-resident-vram: 7 KiB\ndrm-memory-vram: 8 KiB\n").used_bytes,
      7 * kKiB);
}

TEST(FdinfoTest, RegionsAreTheDevicesOrTheHosts) {
  const ClientFigures figures = parse(
      "drm-resident-vram0: 1 MiB\ndrm-resident-vram1: 2 MiB\ndrm-resident-gtt: 4 KiB\n"
      "drm-resident-system: 8\ndrm-resident-cpu: 16 MiB\ndrm-resident-stolen: 32 MiB\n");
  EXPECT_EQ(figures.used_bytes, 3 * kMiB);
  EXPECT_EQ(figures.host_bytes, 4 * kKiB + 8);
  const ClientFigures i915 = parse(
      "drm-resident-local0: 5 MiB\ndrm-resident-system0: 6 MiB\ndrm-resident-stolen-local0: 7 "
      "MiB\n");
  EXPECT_EQ(i915.used_bytes, 5 * kMiB);
  EXPECT_EQ(i915.host_bytes, 6 * kMiB);
}

TEST(FdinfoTest, SizesThatCannotBeAreUnknown) {
  EXPECT_EQ(parse("drm-memory-vram: 18446744073709551615\n").used_bytes, std::nullopt);
  EXPECT_EQ(parse("drm-memory-vram: 18014398509481984 KiB\n").used_bytes, std::nullopt);
  EXPECT_EQ(parse("drm-memory-vram: -1 KiB\n").used_bytes, std::nullopt);
  EXPECT_EQ(parse("drm-memory-vram: 12x KiB\n").used_bytes, std::nullopt);
  EXPECT_EQ(parse("drm-memory-vram: 12 parsecs\n").used_bytes, std::nullopt);
  EXPECT_EQ(parse("drm-memory-vram:\n").used_bytes, std::nullopt);
}

TEST(FdinfoTest, EnginesNameTheKindOfWork) {
  const ClientFigures figures = parse(
      "drm-engine-gfx:\t0 ns\ndrm-engine-compute:\t30 ns\ndrm-engine-dec:\t12 ns\n"
      "drm-engine-capacity-dec:\t2\ndrm-engine-enc:\t5 Hz\n");
  ASSERT_EQ(figures.times.size(), 3u);
  EXPECT_EQ(figures.times[1].name, "compute");
  EXPECT_EQ(figures.times[1].busy_ns, 30u);
  EXPECT_EQ(figures.times[2].busy_ns, 6u);  // of each of two
  EXPECT_TRUE(figures.is_compute);
  EXPECT_FALSE(figures.is_graphics);
  EXPECT_TRUE(parse("").times.empty());
}

TEST(FdinfoTest, CyclesNeedBothCounters) {
  const ClientFigures figures = parse(
      "drm-cycles-ccs: 5\ndrm-total-cycles-ccs: 90\ndrm-engine-capacity-ccs: 4\n"
      "drm-cycles-bcs: 7\ndrm-total-cycles-vcs: 90\n");
  ASSERT_EQ(figures.cycles.size(), 1u);
  EXPECT_EQ(figures.cycles[0].name, "ccs");
  EXPECT_EQ(figures.cycles[0].busy, 5u);
  EXPECT_EQ(figures.cycles[0].total, 90u);
  EXPECT_EQ(figures.cycles[0].capacity, 4u);
  EXPECT_EQ(figures.used_bytes, std::nullopt);  // "total-cycles-" is no region
}

TEST(FdinfoTest, IdentityIsTheAddressAndTheClient) {
  EXPECT_EQ(parse("pasid:\t32770\ndrm-client-id:\t5\n").id, 5u);
  EXPECT_EQ(parse("drm-client-id:\t5\npasid:\t32770\n").id, 5u);
  EXPECT_EQ(parse_fdinfo("pasid:\t32770\nvram mem:\t1 kB\n").value().id, 32770u);
  EXPECT_EQ(parse("drm-pdev:\t0000:C3:00.0\n").pci_id, "0000:c3:00.0");
  EXPECT_EQ(as_pci_id("03:00.0"), "0000:03:00.0");
  for (const char* wrong : {"", "0000:03:00", "0000:03:00.00", "0000-03:00.0", "0000:0g:00.0"})
    EXPECT_EQ(as_pci_id(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace vram::gpu::drm

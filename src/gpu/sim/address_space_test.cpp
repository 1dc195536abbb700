#include "gpu/sim/address_space.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vram::gpu {
namespace {

constexpr uint64_t kRegion = AddressSpace::kRegionBytes;
constexpr Address kTop = AddressSpace::kSegmentsTop;

TEST(AddressSpaceTest, RegionsGrowDownwardsAndSegmentsLieAtTheirLowEnds) {
  AddressSpace space;
  EXPECT_EQ(space.take_segment(20 * kMiB), kTop - kRegion);
  EXPECT_EQ(space.take_segment(20 * kMiB), kTop - 2 * kRegion);
  EXPECT_EQ(space.take_segment(100 * kMiB), kTop - 2 * kRegion - 4 * kRegion);
}

// Against a scan over all that was set.
TEST(NewestRoomTest, FindsTheLargestNumberWithRoom) {
  std::mt19937_64 random(3);
  NewestRoom rooms;
  std::vector<uint64_t> room_of;
  EXPECT_EQ(rooms.newest(1), 0u);
  for (int i = 0; i < 3000; ++i) {
    const uint64_t number = 1 + random() % static_cast<uint64_t>(1 + i / 3);
    if (room_of.size() <= number) room_of.resize(number + 1);
    room_of[number] = random() % 3 == 0 ? 0 : random() % 100;
    rooms.set(number, room_of[number]);
    const uint64_t least = 1 + random() % 100;
    uint64_t newest = 0;
    for (uint64_t n = 1; n < room_of.size(); ++n) {
      if (room_of[n] >= least) newest = n;
    }
    ASSERT_EQ(rooms.newest(least), newest);
    ASSERT_EQ(rooms.room_of(number), room_of[number]);
  }
}

TEST(AddressSpaceTest, TheRegionOpenedLastIsTriedFirst) {
  AddressSpace space;
  const Address high = space.take_segment(20 * kMiB);
  const Address low = space.take_segment(20 * kMiB);
  EXPECT_EQ(space.take_segment(2 * kMiB), low + 20 * kMiB);
  EXPECT_EQ(space.take_segment(10 * kMiB), low + 22 * kMiB);
  EXPECT_EQ(space.take_segment(2 * kMiB), high + 20 * kMiB);
  EXPECT_EQ(space.take_segment(12 * kMiB), low - kRegion) << "no tail has 12 MiB";
}

TEST(AddressSpaceTest, AHoleInsideARegionIsFilledBeforeItsTail) {
  AddressSpace space;
  const Address base = space.take_segment(4 * kMiB);
  const Address middle = space.take_segment(4 * kMiB);
  const Address last = space.take_segment(4 * kMiB);
  EXPECT_EQ(last, base + 8 * kMiB);
  space.give_back_segment(middle);
  EXPECT_EQ(space.take_segment(6 * kMiB), base + 12 * kMiB);
  EXPECT_EQ(space.take_segment(2 * kMiB), middle);
}

TEST(AddressSpaceTest, TheSmallestHoleOfARegionIsTaken) {
  AddressSpace space;
  const Address base = space.take_segment(12 * kMiB);
  const Address middle = space.take_segment(6 * kMiB);
  EXPECT_EQ(middle, base + 12 * kMiB);
  space.give_back_segment(base);  // 12 MiB in front, 14 MiB behind
  EXPECT_EQ(space.take_segment(10 * kMiB), base);
  EXPECT_EQ(space.take_segment(10 * kMiB), middle + 6 * kMiB);
}

TEST(AddressSpaceTest, ALaterRegionInAGapAboveIsStillTriedFirst) {
  AddressSpace space;
  const Address first = space.take_segment(96 * kMiB);
  const Address second = space.take_segment(20 * kMiB);
  space.give_back_segment(first);
  const Address third = space.take_segment(20 * kMiB);
  EXPECT_GT(third, second);
  EXPECT_EQ(space.take_segment(2 * kMiB), third + 20 * kMiB);
}

TEST(AddressSpaceTest, AnywhereMeansInAnyOrder) {
  int rising = 0;
  for (uint32_t layout = 1; layout <= 100; ++layout) {
    AddressSpace space(layout, true);
    const Address first = space.take_segment(20 * kMiB);
    rising += space.take_segment(64 * kMiB) > first ? 1 : 0;
    EXPECT_TRUE(space.validate(nullptr));
  }
  EXPECT_GT(rising, 30);
  EXPECT_LT(rising, 70);
}

TEST(AddressSpaceTest, OtherLayoutsChooseOtherPlacesTheSameEachTime) {
  const auto places = [](uint32_t layout) {
    AddressSpace space(layout);
    std::vector<Address> taken;
    for (int i = 0; i < 40; ++i) taken.push_back(space.take_segment((1 + i % 9) * 4 * kMiB));
    for (int i = 0; i < 40; i += 3) space.give_back_segment(taken[i]);
    for (int i = 0; i < 40; ++i) taken.push_back(space.take_segment((1 + i % 7) * 4 * kMiB));
    EXPECT_TRUE(space.validate(nullptr));
    return taken;
  };
  EXPECT_EQ(places(1), places(1));
  EXPECT_NE(places(1), places(0));
  EXPECT_NE(places(1), places(2));
}

TEST(AddressSpaceTest, NeighbouringGapsMergeAndNewRegionsTakeTheTopOfTheHighestThatFits) {
  AddressSpace space;
  const Address a = space.take_segment(32 * kMiB);
  const Address b = space.take_segment(64 * kMiB);
  const Address c = space.take_segment(32 * kMiB);
  const Address d = space.take_segment(96 * kMiB);
  space.give_back_segment(a);
  space.give_back_segment(c);
  EXPECT_EQ(space.predict_segment(32 * kMiB), d - 32 * kMiB) << "both gaps are 32 MiB too small";
  space.give_back_segment(b);  // joins them to 128 MiB
  std::string why;
  EXPECT_TRUE(space.validate(&why)) << why;
  EXPECT_EQ(space.take_segment(64 * kMiB), kTop - 64 * kMiB);
  EXPECT_EQ(space.take_segment(64 * kMiB), d - 64 * kMiB) << "what is left has no 32 MiB more";
  EXPECT_EQ(space.take_segment(32 * kMiB), c + 32 * kMiB);
}

TEST(AddressSpaceTest, KnownAddressesTeachItWhereToGoOn) {
  AddressSpace space;
  const Address known = 0x7fe3'4000'0000;
  ASSERT_TRUE(space.place_segment(known, 2 * kMiB));
  EXPECT_EQ(space.take_segment(2 * kMiB), known + 2 * kMiB) << "the tail of its region";
  EXPECT_EQ(space.take_segment(64 * kMiB), known - 64 * kMiB);
}

TEST(AddressSpaceTest, AKnownAddressOffTheGridLiesInARegionThatEndsOnIt) {
  AddressSpace space;
  const Address known = 0x7fe3'4000'0000 + 6 * kMiB;
  ASSERT_TRUE(space.place_segment(known, 2 * kMiB));
  EXPECT_EQ(space.take_segment(24 * kMiB), known + 2 * kMiB);
  EXPECT_EQ(space.take_segment(2 * kMiB), known - 6 * kMiB - kRegion);
}

TEST(AddressSpaceTest, ARegionReachesAsFarAsKnownAddressesShow) {
  AddressSpace space;
  const Address known = 0x7fe3'4000'0000;
  ASSERT_TRUE(space.place_segment(known, 20 * kMiB));
  ASSERT_TRUE(space.place_segment(known + 20 * kMiB, 20 * kMiB)) << "across the end of 32 MiB";
  EXPECT_TRUE(space.validate(nullptr));
  EXPECT_EQ(space.take_segment(24 * kMiB), known + 40 * kMiB);
  space.give_back_segment(known);
  EXPECT_EQ(space.take_segment(16 * kMiB), known) << "a hole in one region, not a gap";
}

TEST(AddressSpaceTest, AHoleThatWasPassedOverIsNone) {
  AddressSpace space;
  const Address known = 0x7fe3'4000'0000;
  ASSERT_TRUE(space.place_segment(known, 20 * kMiB));
  ASSERT_TRUE(space.place_segment(known - 32 * kMiB,
                                  10 * kMiB));  // 12 MiB at known + 20 MiB would have done
  EXPECT_EQ(space.take_segment(22 * kMiB), known - 22 * kMiB) << "this tail may be there";
  EXPECT_EQ(space.take_segment(2 * kMiB), known - 64 * kMiB) << "that one is not";
  ASSERT_TRUE(space.place_segment(known + 22 * kMiB, 2 * kMiB)) << "and is again when it is seen";
  EXPECT_TRUE(space.validate(nullptr));
}

TEST(AddressSpaceTest, AKnownAddressInUseIsRefused) {
  AddressSpace space;
  const Address base = space.take_segment(20 * kMiB);
  EXPECT_FALSE(space.place_segment(base, 2 * kMiB));
  EXPECT_FALSE(space.place_segment(base + 18 * kMiB, 4 * kMiB));
  EXPECT_FALSE(space.place_segment(base - 2 * kMiB, 4 * kMiB));
  EXPECT_FALSE(space.place_segment(0, 2 * kMiB));
  EXPECT_FALSE(space.place_segment(AddressSpace::kReservationsBase, 2 * kMiB));
  EXPECT_FALSE(space.place_segment(~uint64_t{0}, 2 * kMiB));
  EXPECT_TRUE(space.place_segment(base + 22 * kMiB, 4 * kMiB));
  EXPECT_TRUE(space.validate(nullptr));
}

TEST(AddressSpaceTest, KnownAddressesMayLieTooLowToGoBelow) {
  AddressSpace space;
  ASSERT_TRUE(space.place_segment(64 * kMiB, 32 * kMiB));
  EXPECT_EQ(space.take_segment(kGiB), kTop - kGiB);
}

TEST(AddressSpaceTest, WhatIsTooLargeHasNoPlace) {
  AddressSpace space;
  EXPECT_EQ(space.take_segment(kTop + kRegion), 0u);
  EXPECT_EQ(space.take_segment(~uint64_t{0}), 0u);
  EXPECT_EQ(space.take_reservation(~uint64_t{0}), 0u);
}

TEST(AddressSpaceTest, ReservationsReuseWhatIsGivenBack) {
  AddressSpace space;
  const Address a = space.take_reservation(kGiB);
  const Address b = space.take_reservation(kGiB);
  EXPECT_EQ(a, AddressSpace::kReservationsBase);
  EXPECT_EQ(b, a + kGiB);
  space.give_back_reservation(a);
  EXPECT_EQ(space.take_reservation(2 * kGiB), b + kGiB);
  EXPECT_EQ(space.take_reservation(512 * kMiB), a);
}

TEST(AddressSpaceTest, WhateverIsTakenPlacedAndGivenBackStaysWhole) {
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t end) { return random() % end; };
  AddressSpace space;
  std::vector<Address> taken;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t bytes = (1 + below(below(8) == 0 ? 200 : 10)) * 2 * kMiB;
    if (!taken.empty() && below(100) < 49) {
      std::swap(taken[below(taken.size())], taken.back());
      space.give_back_segment(taken.back());
      taken.pop_back();
    } else if (below(10) == 0) {
      const Address address = kTop - below(1000) * 2 * kMiB;
      if (space.place_segment(address, bytes)) taken.push_back(address);
    } else {
      const Address predicted = space.predict_segment(bytes);
      taken.push_back(space.take_segment(bytes));
      ASSERT_EQ(taken.back(), predicted);
    }
    std::string why;
    ASSERT_TRUE(i % 20 != 0 || space.validate(&why)) << why << " after " << i;
  }
  for (const Address address : taken) space.give_back_segment(address);
  EXPECT_TRUE(space.validate(nullptr));
}

}  // namespace
}  // namespace vram::gpu

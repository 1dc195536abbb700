#include "watch/figures/figure.hpp"

#include "base/bytes.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace vram::watch::figures {
namespace {

template <typename T>
const Figure<T>& figure_of(std::string_view group, std::string_view key) {
  for (const Figure<T>& figure : figures_of<T>()) {
    if (figure.key == key && (figure.in != nullptr ? figure.in->key : "") == group) return figure;
  }
  ADD_FAILURE() << group << "." << key << " is not in the table";
  return figures_of<T>().front();
}

TEST(Order, CellsFollowThoseThatTheyName) {
  const std::vector<Place> places = {{"a", ""},  {"d", "c"}, {"b", ""},    {"c", "a"},
                                     {"e", "c"}, {"f", ""},  {"z", kFirst}};
  std::string order;
  for (const size_t index : order_of(places)) order += places[index].name;
  EXPECT_EQ(order, "zacdebf");
}

TEST(OrderDeathTest, ACellThatFollowsNoneIsABug) {
  const std::vector<Place> places = {{"a", ""}, {"b", "A"}};
  EXPECT_DEATH((void)order_of(places), "");
}

TEST(Figures, AreReadAlongTheirPath) {
  Device device;
  device.sample.memory.used_bytes = 5 * kGiB;
  device.unattributed_bytes = -3;
  device.identity.name = "H200";
  device.health.retired_pages.emplace().is_pending = true;
  const auto value = [&](std::string_view group, std::string_view key) {
    return figure_of<Device>(group, key).value(device);
  };
  EXPECT_EQ(value("memory", "used_bytes"), Value(5 * kGiB));
  EXPECT_EQ(value("", "unattributed_bytes"), Value(int64_t{-3}));
  EXPECT_EQ(value("", "name"), Value(std::string_view("H200")));
  EXPECT_EQ(value("", "vendor"), Value(std::string_view("nvidia")));
  EXPECT_EQ(value("retired_pages", "is_pending"), Value(true));
  EXPECT_EQ(value("", "is_asleep"), Value(false));
}

TEST(Figures, AreUnknownWhereAStepOfTheirPathIs) {
  Device device;
  device.identity.uuid = "";
  for (const auto& [group, key] : std::vector<std::pair<std::string, std::string>>{
           {"bar1", "used_bytes"}, {"remapped_rows", "corrected"}, {"", "uuid"}, {"", "xids"}})
    EXPECT_EQ(figure_of<Device>(group, key).value(device), Value()) << key;
}

TEST(Figures, OfAProcessOnTwoInstancesAreOfOneProcess) {
  Device device;
  device.sample.processes.emplace(3);
  for (size_t i = 0; i < 3; ++i) (*device.sample.processes)[i].pid = i < 2 ? 7 : 8;
  EXPECT_EQ(figure_of<Device>("", "process_count").value(device), Value(uint64_t{2}));
}

using Fields = std::vector<std::tuple<std::string_view, Shape, bool>>;
// By the name of the type and the group that is of it.
using Types = std::map<std::string_view, std::map<const void*, Fields>>;

template <typename T>
void collect_fields(Types& types) {
  for (const Figure<T>& figure : figures_of<T>()) {
    if (figure.in != nullptr)
      types[figure.in->type->name][figure.in].emplace_back(figure.key, figure.value.shape,
                                                           figure.value.is_optional);
  }
}

TEST(Figures, ObjectsOfOneTypeHaveTheSameFields) {
  Types types;
  collect_fields<Device>(types);
  collect_fields<gpu::MigInstance>(types);
  collect_fields<Process>(types);
  collect_fields<Use>(types);
  EXPECT_EQ(types["memory"].size(), 4U);
  for (const auto& [type, objects] : types) {
    for (const auto& [group, fields] : objects) EXPECT_EQ(fields, objects.begin()->second) << type;
  }
}

template <typename T>
void expect_new_names(std::set<std::string>& seen) {
  const std::string type(type_of<T>().name);
  for (const Figure<T>& figure : figures_of<T>()) {
    const std::string group(figure.in != nullptr ? figure.in->key : "");
    const std::string number =
        figure.history.number == 0 ? "" : std::to_string(figure.history.number);
    for (const auto& [view, name] : std::vector<std::pair<std::string, std::string_view>>{
             {type + " in JSON " + group, figure.key},
             {"CSV", figure.csv.name},
             {"metric " + std::string(figure.metric.label_value), figure.metric.name},
             {type + " of DCGM", figure.dcgm.name},
             {type + " in the history", number}}) {
      const std::string place = view + ": " + std::string(name);
      EXPECT_TRUE(name.empty() || seen.insert(place).second) << place;
    }
  }
}

TEST(Figures, HaveNamesOfTheirOwn) {
  std::set<std::string> seen;
  expect_new_names<Device>(seen);
  expect_new_names<gpu::MigInstance>(seen);
  expect_new_names<XidCount>(seen);
  expect_new_names<Process>(seen);
  expect_new_names<Use>(seen);
  EXPECT_GT(seen.size(), 200U);
}

TEST(Figures, HaveAPlaceInEachOfTheirViews) {
  EXPECT_GT(arranged<Device>(&Figure<Device>::csv).size(), 10U);
  EXPECT_GT(arranged<Device>(&Figure<Device>::metric).size(), 40U);
  EXPECT_GT(arranged<Device>(&Figure<Device>::dcgm).size(), 20U);
  EXPECT_EQ(arranged<gpu::MigInstance>(&Figure<gpu::MigInstance>::dcgm).size(), 5U);
}

}  // namespace
}  // namespace vram::watch::figures

#include "serve/metrics_route.hpp"

#include "base/time.hpp"
#include "show/testing/sample_snapshot.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace vram::serve {
namespace {

class MetricsRoute : public ::testing::Test {
 protected:
  MetricsRoute() {
    sampled_->snapshot = show::testing::sample_snapshot();
    sampled_->number = 1;
  }

  Response get(std::string accept = "") {
    Request request;
    request.accept = std::move(accept);
    return route_.answer(request, "");
  }
  bool says(const std::string& line) {
    return get().body->text().find("\n" + line + "\n") != std::string::npos;
  }

  std::shared_ptr<watch::Sampled> sampled_ = std::make_shared<watch::Sampled>();
  uint64_t overdue_ns_ = 0;
  std::shared_ptr<Tally> tally_ = std::make_shared<Tally>();
  Route route_ = metrics_route({.latest = [this] { return sampled_; },
                                .overdue_ns = [this] { return overdue_ns_; },
                                .now_ns = [] { return uint64_t{1}; },
                                .period = std::chrono::seconds(1)},
                               tally_, {});
};

TEST_F(MetricsRoute, APageIsMadeOncePerLookAndFormat) {
  const auto plain = get().body;
  const auto modern = get("application/openmetrics-text").body;
  EXPECT_NE(plain, modern);
  EXPECT_EQ(get().body, plain);
  EXPECT_EQ(get("application/openmetrics-text").body, modern);
  sampled_->number = 2;
  EXPECT_NE(get().body, plain);
}

TEST_F(MetricsRoute, WhileALookHangsThereIsANewPageEachSecond) {
  const auto fresh = get().body;
  overdue_ns_ = 30 * kSecondNs;
  EXPECT_TRUE(says("vram_exporter_sample_overdue_seconds 30"));
  const auto late = get().body;
  EXPECT_NE(late, fresh);
  overdue_ns_ += kSecondNs / 2;
  EXPECT_EQ(get().body, late);
  overdue_ns_ += kSecondNs / 2;
  EXPECT_TRUE(says("vram_exporter_sample_overdue_seconds 31"));
}

// Else no client learns that the driver hangs when the server is restarted meanwhile.
TEST_F(MetricsRoute, BeforeTheFirstLookItSaysHowLateThatIs) {
  sampled_.reset();
  overdue_ns_ = 90 * kSecondNs;
  const Response page = get();
  EXPECT_EQ(page.status, 200);
  ASSERT_TRUE(page.body);
  EXPECT_TRUE(says("vram_exporter_sample_overdue_seconds 90"));
  EXPECT_NE(page.body->text().find("vram_build_info{"), std::string::npos);
  for (const char* looked : {"vram_exporter_devices", "vram_exporter_sample_timestamp_seconds"})
    EXPECT_EQ(page.body->text().find(looked), std::string::npos) << "nobody has looked";
  EXPECT_TRUE(page.headers.empty()) << "it has no age";
}

TEST_F(MetricsRoute, CountsWhatItGivesOutAndWhichSourcesFailed) {
  (void)get();
  (void)get();
  sampled_->number = 2;
  EXPECT_TRUE(says("vram_exporter_scrapes_total 3"));
  sampled_->snapshot.notes = {"nvml: gone"};
  tally_->count_sample(*sampled_);
  tally_->count_sample(*sampled_);
  sampled_->number = 3;
  EXPECT_TRUE(says("vram_exporter_source_failures_total{source=\"nvml\"} 2"));
}

TEST_F(MetricsRoute, KnowsItsOwnMemory) {
  const auto bytes = tally_->figures(0).resident_bytes;
  ASSERT_TRUE(bytes);
  EXPECT_GT(*bytes, uint64_t{1} << 20);
  EXPECT_LT(*bytes, uint64_t{1} << 30);
}

}  // namespace
}  // namespace vram::serve

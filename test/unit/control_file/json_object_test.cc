#include "control/file/json_object.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "mtlink/control.pb.h"

namespace mtl::control {
namespace {

TEST(JsonObject, HasTheFieldsOfTheSchemaWithNumbersAsNumbers) {
  mtlink::control::DropCount drop;
  drop.set_count(18446744073709551615u);  // needs all 64 bits
  EXPECT_EQ(R"({"layer":"","name":"","count":18446744073709551615})",
            boost::json::serialize(to_json(drop)));
  mtlink::control::PingResult ping;
  ping.set_outcome(mtlink::control::PingResult::HOP_LIMIT_EXCEEDED);
  EXPECT_EQ(R"({"outcome":"hop_limit_exceeded","from":0,"round_trip_ns":0})",
            boost::json::serialize(to_json(ping)));
  EXPECT_EQ(R"({"port":1,"raise":0})", boost::json::serialize(to_json([] {
              mtlink::config::NextHop hop;
              hop.set_port(1);
              return hop;
            }())));  // optional and not set: not there
}

}  // namespace
}  // namespace mtl::control

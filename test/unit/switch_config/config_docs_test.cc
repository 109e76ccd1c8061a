// docs/configuration.md tells every field of the schema, by its path.

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "mtlink/config.pb.h"

namespace mtl::switchd {
namespace {

namespace pb = google::protobuf;

std::string document() {
  std::ifstream in(std::string(MTLINK_DOCS) + "/configuration.md");
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The part of the document under the heading "## name" or "### name".
std::string section(const std::string& all, const std::string& name) {
  const std::size_t begin = all.find("# " + name + "\n");
  if (begin == std::string::npos) return {};
  return all.substr(begin, all.find("\n## ", begin) - begin);
}

void check(const pb::Descriptor& type, const std::string& all,
           std::set<const pb::Descriptor*>& seen) {
  if (!seen.insert(&type).second) return;
  const std::string part = section(all, type.name());
  EXPECT_FALSE(part.empty()) << "no section on " << type.name();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    EXPECT_NE(part.find("| `" + field->name() + "` |"), std::string::npos)
        << type.name() << "." << field->name() << " has no row";
    if (field->message_type() != nullptr) check(*field->message_type(), all, seen);
    if (field->enum_type() == nullptr) continue;
    for (int v = 0; v < field->enum_type()->value_count(); ++v) {
      if (field->enum_type()->value(v)->number() == 0) continue;
      EXPECT_NE(part.find("`" + field->enum_type()->value(v)->name() + "`"), std::string::npos)
          << field->enum_type()->value(v)->full_name();
    }
  }
}

TEST(ConfigurationPage, TellsEveryFieldOfTheSchema) {
  std::set<const pb::Descriptor*> seen;
  check(*mtlink::config::NodeConfig::descriptor(), document(), seen);
  EXPECT_GE(seen.size(), 15U);
}

}  // namespace
}  // namespace mtl::switchd

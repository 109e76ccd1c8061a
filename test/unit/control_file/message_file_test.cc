#include "control/file/message_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "control/file/text_file.h"
#include "mtlink/config.pb.h"

namespace mtl::control {
namespace {

using mtlink::config::NodeConfig;

Result<Located<NodeConfig>> text(std::string_view content) {
  return parse<NodeConfig>(content, FileFormat::kText, "lab.textproto");
}
Result<Located<NodeConfig>> json(std::string_view content) {
  return parse<NodeConfig>(content, FileFormat::kJson, "lab.json");
}
/// The error of a parse that must fail.
template <class T>
std::string error(const Result<T>& result) {
  if (result) return "(no error)";
  return result.error().message;
}

constexpr std::string_view kGoodText = R"(# A comment.
node: 7
ports { port: 0 af_packet { interface: "va" } }
ports {
  port: 1
  af_packet { interface: "vb" }
  link { window: 20000 capacity: [16, 32] }
}
)";

TEST(MessageFileText, TellsWhereEachFieldStands) {
  const auto file = text(kGoodText);
  ASSERT_TRUE(file) << error(file);
  EXPECT_EQ(file->message.node(), 7U);
  EXPECT_EQ(file->message.ports(1).link().window(), 20000U);
  EXPECT_EQ(file->where("node"), "lab.textproto:2:1: ");
  EXPECT_EQ(file->where("ports[0]"), "lab.textproto:3:1: ");
  EXPECT_EQ(file->where("ports[1].port"), "lab.textproto:5:3: ");
  EXPECT_EQ(file->where("ports[1].link.window"), "lab.textproto:7:10: ");
  EXPECT_EQ(file->where("ports[1].af_packet.interface"), "lab.textproto:6:15: ");
}

TEST(MessageFileText, TellsTheMessageAroundAFieldThatIsNotThere) {
  const auto file = text(kGoodText);
  ASSERT_TRUE(file) << error(file);
  EXPECT_EQ(file->where("ports[1].link.timers.replay_limit"), "lab.textproto:7:3: ");
  EXPECT_EQ(file->where("ports[1].peer_mac"), "lab.textproto:4:1: ");
  EXPECT_EQ(file->where("fabric.shape"), "lab.textproto: ");
  EXPECT_TRUE(file->locations.has("ports[1].link"));
  EXPECT_FALSE(file->locations.has("ports[1].peer_mac"));
}

TEST(MessageFileText, AFieldWrittenWithItsDefaultHasAPlace) {
  const auto file = text("node: 0\n");
  ASSERT_TRUE(file) << error(file);
  EXPECT_EQ(file->where("node"), "lab.textproto:1:1: ");
}

TEST(MessageFileText, UnknownFieldIsRefusedWithTheOneMeant) {
  const std::string message = error(text("node: 1\nports {\n  port: 0\n  lnik { mtu: 9000 }\n}\n"));
  EXPECT_EQ(message.rfind("lab.textproto:4:", 0), 0U) << message;
  EXPECT_NE(message.find(R"(Port has no field "lnik"; did you mean "link"? It has: port, name,)"),
            std::string::npos)
      << message;
}

TEST(MessageFileText, AFieldOfTheMessageAroundMeansThatABraceIsMissing) {
  // The } of ports is missing, then that of af_packet as well.
  for (const char* open : {"ports { port: 0\n", "ports { port: 0 af_packet { interface: \"a\"\n"}) {
    for (const char* next : {"slots", "ports"}) {
      const std::string message =
          error(text(std::string("node: 1\n") + open + next + " { port: 1 }\n"));
      EXPECT_EQ(message.rfind("lab.textproto:3:", 0), 0U) << message;
      EXPECT_NE(message.find("\"" + std::string(next) +
                             "\", but NodeConfig, in which it stands, has: is a } missing"),
                std::string::npos)
          << message;
    }
  }
}

TEST(MessageFileText, UnknownFieldThatResemblesNothingListsTheKnownOnly) {
  const std::string message = error(text("colour: 1\n"));
  EXPECT_EQ(message.rfind("lab.textproto:1:", 0), 0U) << message;
  EXPECT_NE(message.find(R"(NodeConfig has no field "colour". It has: node, name, hop_limit)"),
            std::string::npos)
      << message;
}

TEST(MessageFileText, UnknownEnumNameIsRefusedWithTheOneMeant) {
  const std::string message = error(text("node: 1\ndefaults { timers { profile: FATS } }\n"));
  EXPECT_EQ(message.rfind("lab.textproto:2:", 0), 0U) << message;
  EXPECT_NE(
      message.find(R"(profile has no value "FATS"; did you mean "FAST"? It takes: LAB, FAST)"),
      std::string::npos)
      << message;
}

// proto3 would take them for values of a later version.
TEST(MessageFileText, ANumberThatTheEnumDoesNotHaveIsRefused) {
  const auto refused = [](std::string_view content) { return error(text(content)); };
  EXPECT_EQ(refused("node: 1\nhop_choice: 9\n")
                .rfind(R"(lab.textproto:2:1: hop_choice has no value "9". It takes: )", 0),
            0U)
      << refused("node: 1\nhop_choice: 9\n");
  const std::string nested =
      refused("ports { port: 0 }\nports {\n  link { timers { profile: -1 } }\n}\n");
  EXPECT_EQ(nested.rfind(R"(lab.textproto:3:19: profile has no value "-1")", 0), 0U) << nested;
  EXPECT_TRUE(text("node: 1 hop_choice: 1"));  // one that it has
}

TEST(MessageFileText, WrongTypeShowsTheLine) {
  const std::string message = error(text("node: 1\n  hop_limit: \"far\"  # no\n"));
  EXPECT_EQ(message.rfind("lab.textproto:2:14: ", 0), 0U) << message;
  EXPECT_NE(message.find(R"(hop_limit: "far")"), std::string::npos) << message;
}

TEST(MessageFileText, FieldTwiceAndTwoOfAOneofAreRefused) {
  EXPECT_EQ(error(text("node: 1\nnode: 2\n")).rfind("lab.textproto:2:", 0), 0U);
  const std::string both = "ports {\n  af_packet { }\n  ethdev { }\n}\n";
  EXPECT_EQ(error(text(both)).rfind("lab.textproto:3:", 0), 0U);
}

TEST(MessageFileText, NumbersBeyondTheirTypeAreRefused) {
  EXPECT_EQ(error(text("node: 4294967296\n")).rfind("lab.textproto:1:7: ", 0), 0U);
  EXPECT_EQ(error(text("node: -1\n")).rfind("lab.textproto:1:7: ", 0), 0U);
}

TEST(MessageFileText, TheFirstErrorIsTold) {
  const std::string message = error(text("nod: 1\nprts { }\n"));
  EXPECT_EQ(message.rfind("lab.textproto:1:", 0), 0U) << message;
  EXPECT_EQ(message.find("prts"), std::string::npos) << message;
}

constexpr std::string_view kGoodJson = R"({
  "node": 7,
  "ports": [
    {"port": 0, "afPacket": {"interface": "va"}},
    {"port": 1, "af_packet": {"interface": "vb"},
     "link": {"window": 20000, "timers": {"profile": "FAST", "init_interval_us": "100"}}}
  ]
})";

TEST(MessageFileJson, TellsWhereEachFieldStands) {
  const auto file = json(kGoodJson);
  ASSERT_TRUE(file) << error(file);
  EXPECT_EQ(file->message.ports(0).af_packet().interface(), "va");
  EXPECT_EQ(file->message.ports(1).link().timers().init_interval_us(), 100U);
  EXPECT_EQ(file->where("node"), "lab.json:2:3: ");
  EXPECT_EQ(file->where("ports"), "lab.json:3:3: ");
  EXPECT_EQ(file->where("ports[0]"), "lab.json:4:5: ");
  EXPECT_EQ(file->where("ports[0].af_packet.interface"), "lab.json:4:30: ");
  EXPECT_EQ(file->where("ports[1].link.window"), "lab.json:6:15: ");
  EXPECT_EQ(file->where("ports[1].link.mtu"), "lab.json:6:6: ");
}

TEST(MessageFileJson, SyntaxErrorsHaveTheirPlace) {
  EXPECT_EQ(error(json("{\n  \"node\": 7,\n}\n")).rfind("lab.json:3:1: not JSON: ", 0), 0U)
      << error(json("{\n  \"node\": 7,\n}\n"));
  EXPECT_EQ(error(json("{\"node\": 7")).rfind("lab.json:1:11: not JSON: ", 0), 0U);
  EXPECT_EQ(error(json("{\"node\": 07}")).rfind("lab.json:1:11: not JSON: ", 0), 0U);
  EXPECT_EQ(error(json("{}\n x")).rfind("lab.json:2:2: not JSON: ", 0), 0U)
      << error(json("{}\n x"));
  EXPECT_EQ(error(json("")).rfind("lab.json:1:1: not JSON: ", 0), 0U);
}

TEST(MessageFileJson, UnknownFieldIsRefusedWithPathAndTheOneMeant) {
  const std::string message =
      error(json("{\"node\": 1,\n \"ports\": [{}, {}, {\"link\":\n   {\"mtuu\": 9000}}]}"));
  EXPECT_EQ(message.rfind("lab.json:3:5: ports[2].link.mtuu: LinkDefaults has no field \"mtuu\"; "
                          "did you mean \"mtu\"? It has: mtu, cell, window",
                          0),
            0U)
      << message;
}

TEST(MessageFileJson, WrongTypesAreRefusedWithPathAndWhatIsTaken) {
  const std::string message = error(json(R"({"ports": [{"link": {"mtu": "long"}}]})"));
  EXPECT_EQ(
      message,
      "lab.json:1:29: ports[0].link.mtu takes a whole number from 0 to 4294967295, not a text");
  EXPECT_EQ(error(json(R"({"node": -1})")),
            "lab.json:1:10: node takes a whole number from 0 to 4294967295, not -1");
  EXPECT_EQ(error(json(R"({"node": 1.5})")),
            "lab.json:1:10: node takes a whole number from 0 to 4294967295, not 1.5");
  EXPECT_EQ(error(json(R"({"node": 4294967296})")),
            "lab.json:1:10: node takes a whole number from 0 to 4294967295, not 4294967296");
  EXPECT_EQ(error(json(R"({"runtime": {"poll": 1}})")),
            "lab.json:1:22: runtime.poll takes true or false, not 1");
  EXPECT_EQ(error(json(R"({"ports": {}})")),
            "lab.json:1:11: ports takes a list in brackets, not an object");
  EXPECT_EQ(error(json(R"({"fabric": []})")),
            "lab.json:1:12: fabric takes a Fabric in braces, not a list");
  EXPECT_EQ(error(json("[]")), "lab.json:1:1: a NodeConfig is an object in braces, not a list");
}

TEST(MessageFileJson, UnknownEnumNameIsRefusedWithTheOneMeant) {
  const std::string message = error(json(R"({"fabric": {"shape": "RIGN"}})"));
  EXPECT_EQ(
      message,
      "lab.json:1:22: shape has no value \"RIGN\"; did you mean \"RING\"? It takes: LINE, STAR, "
      "RING, FULL_MESH");
}

TEST(MessageFileJson, FieldTwiceAndTwoOfAOneofAreRefused) {
  EXPECT_EQ(error(json(R"({"node": 1, "node": 2})")),
            "lab.json:1:13: node is given twice; keep one of them");
  EXPECT_EQ(error(json(R"({"hop_limit": 1, "hopLimit": 2})")),
            "lab.json:1:18: hop_limit is given twice; keep one of them");
  EXPECT_EQ(error(json(R"({"ports": [{"af_packet": {}, "ethdev": {}}]})")),
            "lab.json:1:30: ports[0].ethdev cannot stand beside af_packet; keep one of them");
  EXPECT_TRUE(json(R"({"ports": [{"af_packet": null, "ethdev": {}}]})"));
}

TEST(MessageFileJson, DeepNestingIsRefusedNotFollowed) {
  const std::string deep(100000, '[');
  EXPECT_EQ(error(json(deep)).rfind("lab.json:1:33: not JSON: ", 0), 0U) << error(json(deep));
}

TEST(MessageFile, BothFormatsRefuseWhatIsNotUtf8) {
  EXPECT_EQ(error(text("node: 1\nname: \"\xff\"\n")),
            "lab.textproto:2:8: not UTF-8; save the file as UTF-8 text");
  EXPECT_EQ(error(json("{\"name\": \"\xc3\"}")),
            "lab.json:1:11: not UTF-8; save the file as UTF-8 text");
}

TEST(MessageFile, BothFormatsComeBackAsTheyWere) {
  const auto file = text(kGoodText);
  ASSERT_TRUE(file);
  const std::string as_text = to_text(file->message, FileFormat::kText);
  const std::string as_json = to_text(file->message, FileFormat::kJson);
  EXPECT_NE(as_json.find("\"af_packet\""), std::string::npos) << as_json;
  const auto from_text = text(as_text);
  const auto from_json = json(as_json);
  ASSERT_TRUE(from_text) << error(from_text);
  ASSERT_TRUE(from_json) << error(from_json);
  EXPECT_EQ(from_text->message.SerializeAsString(), file->message.SerializeAsString());
  EXPECT_EQ(from_json->message.SerializeAsString(), file->message.SerializeAsString());
}

TEST(MessageFile, EditDistanceCountsSwapsOnceAndIgnoresCase) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("rign", "RING"), 1U);
  EXPECT_EQ(edit_distance("mtu", "mtu"), 0U);
}

TEST(MessageFile, NearestNeedsResemblance) {
  const std::array<std::string_view, 3> known{"window", "capacity", "mtu"};
  EXPECT_EQ(nearest("windows", known), "window");
  EXPECT_EQ(nearest("capcity", known), "capacity");
  EXPECT_EQ(nearest("speed", known), "");
}

// The system would take it for the text's end, and use a file or socket of another name.
TEST(MessageFile, NoTextHasAByteZero) {
  EXPECT_EQ(error(parse<NodeConfig>("node: 1\nports { port: 0 pcap { send_file: \"a\\000b\" } }",
                                    FileFormat::kText, "f")),
            "f:2:24: ports[0].pcap.send_file has a byte 0; leave it out");
  EXPECT_EQ(error(parse<NodeConfig>(R"({"node": 1, "control": {"socket": "a\u0000b"}})",
                                    FileFormat::kJson, "f")),
            "f:1:25: control.socket has a byte 0; leave it out");
}

/// A directory that goes away with the test.
class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "message-file-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path write(const std::string& name, std::string_view content) {
    const auto path = directory_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::filesystem::path directory_;
};

TEST_F(Files, TheNameTellsTheFormat) {
  EXPECT_TRUE(load<NodeConfig>(write("a.textproto", kGoodText)));
  EXPECT_TRUE(load<NodeConfig>(write("a.txtpb", kGoodText)));
  EXPECT_TRUE(load<NodeConfig>(write("a.json", kGoodJson)));
  const auto path = write("a.yaml", "");
  EXPECT_EQ(error(load<NodeConfig>(path)),
            path.string() +
                ": the name does not tell the format; let it end in .textproto or .txtpb "
                "(protobuf text format) or .json");
}

TEST_F(Files, WhatCannotBeReadIsNamed) {
  const auto missing = directory_ / "none.json";
  EXPECT_EQ(error(load<NodeConfig>(missing)), missing.string() + ": there is no such file");
  const auto folder = directory_ / "folder.json";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(error(load<NodeConfig>(folder)),
            folder.string() + ": is a directory; name a file in it");
  const auto pipe = directory_ / "pipe.json";  // which nobody writes to
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(error(load<NodeConfig>(pipe)),
            pipe.string() + ": is no file, but a pipe or a device; name a file");
  const auto huge = write("huge.json", "{");
  std::filesystem::resize_file(huge, kMaxMessageFile + 1);
  EXPECT_EQ(
      error(load<NodeConfig>(huge)).rfind(huge.string() + ": 16777217 bytes are more than", 0), 0U);
}

TEST(MessageFile, FindsLinesAndColumns) {
  const std::string text = "ab\n\ncd";
  const Lines lines(text);
  const std::vector<Position> kAt{{1, 1}, {1, 2}, {1, 3}, {2, 1}, {3, 1}, {3, 2}, {3, 3}};
  for (std::size_t i = 0; i < kAt.size(); ++i) {
    EXPECT_EQ(lines.at(i), kAt[i]) << i;
    EXPECT_EQ(position_of(text, i), kAt[i]) << i;
  }
  EXPECT_EQ(Lines("").at(0), (Position{1, 1}));
}

}  // namespace
}  // namespace mtl::control

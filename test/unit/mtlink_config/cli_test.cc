// mtlink-config as a user calls it: files, what is printed, exit statuses.
#include "tools/mtlink-config/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "control/file/message_file.h"
#include "mtlink/scenario.pb.h"

namespace mtl::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Done {
  int status;
  std::string out;
  std::string err;
};

Done run(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  const int status = run_config({.arguments = arguments, .out = out, .err = err});
  return {status, out.str(), err.str()};
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class MtlinkConfig : public testing::Test {
 protected:
  MtlinkConfig() { std::filesystem::create_directory(folder_); }
  ~MtlinkConfig() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("mtlink-config-" + std::to_string(getpid()));
};

TEST_F(MtlinkConfig, GeneratesChecksAndShowsFc8) {
  const std::string fc8 = path("fc8.textproto");
  const Done made =
      run({"generate", "--topology", "FC8", "--gpu-count", "8", "--bandwidth", "1.6T", "-o", fc8});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("1.6T each way / 200G a lane = 8 lanes"));
  const Done checked = run({"check", fc8});
  EXPECT_EQ(checked.status, 0) << checked.out << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("8 nodes (8 endpoints), 28 links\nengine full-mesh"));
  EXPECT_THAT(checked.out, HasSubstr("deadlock (N10): none"));
  EXPECT_THAT(checked.out,
              HasSubstr("between nodes that forward: 28 tried, 28 survived by tiers alone"));
  const Done shown = run({"show", fc8, "--node", "gpu7"});
  EXPECT_EQ(shown.status, 0);
  // gpu7 has port k to gpu k: straight, or by way of each other; all hops raise.
  EXPECT_THAT(shown.out, HasSubstr("gpu7 (node 8)\n  to gpu0: 0^ else 1^ 2^ 3^ 4^ 5^ 6^\n"));
  EXPECT_THAT(shown.out, Not(HasSubstr("gpu6 (node 7)")));
}

TEST_F(MtlinkConfig, TextAndJsonSayTheSame) {
  const std::string text = path("a.textproto");
  const std::string json = path("a.json");
  ASSERT_EQ(run({"generate", "-t", "cloudmatrix384", "-o", text}).status, 0);
  ASSERT_EQ(run({"generate", "-t", "cloudmatrix384", "-o", json}).status, 0);
  const Done a = run({"check", text, "--failures", "16", "--no-load"});
  const Done b = run({"check", json, "--failures", "16", "--no-load"});
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_EQ(a.out, b.out);
  EXPECT_THAT(a.out, HasSubstr("stamp: "));
}

TEST_F(MtlinkConfig, WithoutAnOutputTheFileGoesToStandardOutputAlone) {
  const Done made = run({"generate", "-t", "nvl72"});
  EXPECT_EQ(made.status, 0);
  EXPECT_THAT(made.err, HasSubstr("source: NVIDIA"));
  const std::string copy = file("copy.textproto", made.out);
  EXPECT_EQ(run({"check", copy, "--failures", "0"}).status, 0);
}

TEST_F(MtlinkConfig, DrawsInThreeLanguages) {
  const std::string ring = path("ring.textproto");
  ASSERT_EQ(run({"generate", "-t", "double-ring", "-n", "3", "-o", ring}).status, 0);
  const Done dot = run({"show", ring, "--as", "dot"});
  EXPECT_THAT(dot.out, HasSubstr("n1 -- n2 [label=\"2 x 400G\"];"));
  const Done mermaid = run({"show", ring, "--as", "mermaid"});
  EXPECT_THAT(mermaid.out, HasSubstr("flowchart TD\n  n1(\"gpu0\")\n"));
  EXPECT_THAT(mermaid.out, HasSubstr("n1 ---|\"2 x 400G\"| n2\n"));
  const std::string svg = path("ring.svg");
  ASSERT_EQ(run({"show", ring, "--as", "svg", "-o", svg}).status, 0);
  const std::string picture = read(svg);
  EXPECT_THAT(picture, HasSubstr("<title>gpu0 - gpu1: 2 x 400G</title>"));
  EXPECT_THAT(picture, HasSubstr("</svg>\n"));
}

// Rules: N10
TEST_F(MtlinkConfig, WithoutLayersARingIsRefusedWithItsCycle) {
  const std::string ring = path("ring.textproto");
  ASSERT_EQ(run({"generate", "-t", "ring", "-n", "5", "-o", ring}).status, 0);
  EXPECT_EQ(run({"check", ring, "--failures", "0"}).status, 0);
  const Done done = run({"check", ring, "--one-layer"});
  EXPECT_EQ(done.status, 1);
  // Once round, one way or the other: five links, packets of each for the node two links on.
  EXPECT_EQ(std::count(done.out.begin(), done.out.end(), '>'), 5) << done.out;
  EXPECT_THAT(
      done.out,
      testing::AnyOf(HasSubstr("gpu0 port 0 -> gpu1 port 0, layer 0: packets for gpu2 wait for"),
                     HasSubstr("gpu1 port 0 -> gpu0 port 0, layer 0: packets for gpu4 wait for")));
  EXPECT_THAT(done.out, HasSubstr("wait for the first\nrefused\n"));
}

TEST_F(MtlinkConfig, WritesScenariosForTheSimulator) {
  const std::string ring = path("ring.textproto");
  ASSERT_EQ(run({"generate", "-t", "ring", "-n", "3", "-o", ring}).status, 0);
  const Done done = run({"scenario", ring, "--count", "7", "--cut", "1", "--scale", "10"});
  ASSERT_EQ(done.status, 0) << done.err;
  auto scenario = control::parse<mtlink::sim::Scenario>(done.out, control::FileFormat::kText, "s");
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto& s = scenario->message;
  EXPECT_EQ(s.nodes_size(), 3);
  EXPECT_EQ(s.wires_size(), 3);
  EXPECT_EQ(s.wires(0).bps(), 80'000'000'000U);  // 1.6T over two neighbours, by ten
  ASSERT_EQ(s.flows_size(), 6);
  EXPECT_EQ(s.flows(0).count(), 7U);
  ASSERT_EQ(s.faults_size(), 1);
  EXPECT_EQ(s.faults(0).wire(), 1U);
  const Done none = run({"scenario", ring, "--cut", "3"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("--cut is 3, but the fabric has 3 links, counted from 0"));
}

TEST_F(MtlinkConfig, NamesTheLineOfWhatIsWrong) {
  const std::string bad = file("bad.textproto",
                               "name: \"x\"\n"
                               "nodes { node: 1 role: ENDPOINT }\n"
                               "nodes { node: 2 role: ENDPOINT }\n"
                               "links {\n"
                               "  a { node: 1 port: 0 }\n"
                               "  b { node: 2 port: 0 }\n"
                               "  bps: 1000\n"
                               "}\n"
                               "links {\n"
                               "  a { node: 1 port: 0 }\n"
                               "  b { node: 2 port: 1 }\n"
                               "}\n");
  const Done checked = run({"check", bad});
  EXPECT_EQ(checked.status, 1);
  EXPECT_THAT(checked.err, HasSubstr(bad + ":10:3: links[1].a is node1 port 0, where links[0] ends "
                                           "already: two cables do not fit a port"));
  EXPECT_THAT(checked.err, HasSubstr(bad + ":9:1: links[1].bps is missing"));
  const Done field = run({"check", file("field.textproto", "nam: \"x\"\n")});
  EXPECT_EQ(field.status, 1);
  EXPECT_THAT(field.err, HasSubstr("field.textproto:1:"));
  EXPECT_THAT(field.err, HasSubstr("did you mean \"name\"?"));
}

TEST_F(MtlinkConfig, RefusesWrongUsageAndWhatItCannotDo) {
  EXPECT_EQ(run({}).status, 2);
  EXPECT_EQ(run({"generate"}).status, 2);
  EXPECT_EQ(run({"generate", "-t", "fc8", "--bandwidth", "fast"}).status, 2);
  EXPECT_EQ(run({"show", "x.textproto", "--as", "png"}).status, 2);
  EXPECT_EQ(run({"check", path("none.textproto")}).status, 1);
  const Done odd = run({"generate", "-t", "clos", "-n", "100", "-o", path("odd.textproto")});
  EXPECT_EQ(odd.status, 1);
  EXPECT_THAT(odd.err, HasSubstr("mtlink-config: --gpu-count 100 does not fill leaves"));
  EXPECT_FALSE(std::filesystem::exists(path("odd.textproto")));
  const Done where = run({"generate", "-t", "fc8", "-o", path("none/fc8.textproto")});
  EXPECT_EQ(where.status, 1);
  EXPECT_THAT(where.err, HasSubstr("cannot be written: No such file or directory"));
  const Done kind = run({"generate", "-t", "fc8", "-o", path("fc8.yaml")});
  EXPECT_EQ(kind.status, 1);
  EXPECT_FALSE(std::filesystem::exists(path("fc8.yaml")));
  const std::string fc8 = path("fc8.textproto");
  ASSERT_EQ(run({"generate", "-t", "fc8", "-o", fc8}).status, 0);
  EXPECT_THAT(run({"check", fc8, "--engine", "grid"}).err,
              HasSubstr("engine grid does not fit this fabric: gpu0 has 0 coordinates"));
  EXPECT_THAT(run({"check", fc8, "--engine", "best"}).err,
              HasSubstr("there is no engine \"best\""));
  EXPECT_THAT(run({"show", fc8, "--node", "gpu8"}).err,
              HasSubstr("no node has the name or id \"gpu8\""));
}

TEST_F(MtlinkConfig, NamesDoNotReachTheTerminalRaw) {
  const Done name = run({"check", file("name.textproto", "name: \"a\\033[2Jb\"\n")});
  EXPECT_EQ(name.status, 1);
  EXPECT_THAT(name.err, HasSubstr("name is \"a\\x1b[2Jb\""));
  EXPECT_THAT(name.err, Not(HasSubstr("\033")));
  const Done shape = run({"generate", "-t", "a\033[2Jb"});
  EXPECT_THAT(shape.err, Not(HasSubstr("\033")));
}

TEST_F(MtlinkConfig, WritesNoFileThatIsTooLongToBeRead) {
  // 262,144 links, of more than 64 bytes each.
  const Done made = run({"generate", "-t", "flat", "-n", "4096", "--planes", "64", "-b", "12.8T",
                         "-o", path("long.textproto")});
  EXPECT_EQ(made.status, 1);
  EXPECT_THAT(made.err, HasSubstr("- 16777216 = "));
  EXPECT_FALSE(std::filesystem::exists(path("long.textproto")));
}

TEST_F(MtlinkConfig, WritesThroughLinksAndReplacesNoDevice) {
  const std::string old = file("old.textproto", "old");
  const std::string link = path("link.textproto");
  std::filesystem::create_symlink("old.textproto", link);
  EXPECT_EQ(run({"generate", "-t", "fc8", "-o", link}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(read(old), HasSubstr("name: \"fc8\""));
  const std::string pipe = path("pipe.svg");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Done shown = run({"show", old, "--as", "svg", "-o", pipe});
  EXPECT_EQ(shown.status, 1);
  EXPECT_THAT(shown.err, HasSubstr("it is no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST_F(MtlinkConfig, AFileIsReplacedWholeOrNotAtAll) {
  const std::string old = file("old.textproto", "old");
  EXPECT_EQ(run({"generate", "-t", "fc8", "-n", "9", "-o", old}).status, 1);
  EXPECT_EQ(read(old), "old");
  EXPECT_EQ(run({"generate", "-t", "fc8", "-o", old}).status, 0);
  EXPECT_THAT(read(old), HasSubstr("name: \"fc8\""));
  // Nothing is left beside it.
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(old).parent_path())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1U);
}

}  // namespace
}  // namespace mtl::tools

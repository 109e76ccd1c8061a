// mtreplay run: what it takes, what it says, and that it never runs nothing.

#include "tools/mtreplay/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace mtl::tools {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

const fs::path kTraces = MTL_TRACES;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder of its own, with copies of some reference traces.
class Run : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("mtreplay_") + info->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void copy(const std::string& name) {
    for (const char* extension : {".json", ".pcap"}) {
      fs::copy_file(kTraces / (name + extension), folder_ / (name + extension));
      fs::permissions(folder_ / (name + extension), fs::perms::owner_write, fs::perm_options::add);
    }
  }
  /// loss_one, whose owner does not consume: credit does not come back, and a DATA that told credit
  /// tells none.
  void copy_broken() {
    copy("loss_one");
    std::string text = read(folder_ / "loss_one.json");
    const std::string is = "\"consume\": true";
    const auto at = text.find(is);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, is.size(), "\"consume\": false");
    std::ofstream(folder_ / "loss_one.json", std::ios::trunc) << text;
  }

  int run(RunOptions options) {
    out_.str("");
    err_.str("");
    return run_traces(options, out_, err_);
  }
  int run(std::vector<std::string> traces) {
    RunOptions options;
    options.traces = std::move(traces);
    return run(options);
  }

  fs::path folder_;
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(Run, TakesNamesFilesAndFolders) {
  copy("loss_one");
  copy("ack_every");
  EXPECT_EQ(run({folder_ / "loss_one"}), kConforms) << err_.str();
  EXPECT_EQ(run({folder_ / "loss_one.json", folder_ / "ack_every.pcap"}), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("2 of 2 traces conform"));
  EXPECT_EQ(run({folder_.string()}), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("2 of 2 traces conform"));
  // Named twice, by whatever name: once is enough.
  EXPECT_EQ(run({folder_.string(), folder_ / "." / "loss_one.pcap"}), kConforms);
  EXPECT_THAT(out_.str(), HasSubstr("2 of 2 traces conform"));
}

TEST_F(Run, NeverRunsNothing) {
  EXPECT_EQ(run(std::vector<std::string>{}), kUnusable);
  EXPECT_NE(err_.str(), "");
  EXPECT_EQ(run({folder_.string()}), kUnusable) << "an empty folder";
  EXPECT_THAT(err_.str(), HasSubstr(folder_.string()));
  EXPECT_EQ(run({folder_ / "nosuch"}), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("nosuch.json"));
  copy("loss_one");
  fs::remove(folder_ / "loss_one.pcap");
  EXPECT_EQ(run({folder_ / "loss_one"}), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("loss_one.pcap"));
}

TEST_F(Run, AnUnusableTraceDoesNotHideTheOthers) {
  copy("loss_one");
  std::ofstream(folder_ / "broken.json") << "{";
  std::ofstream(folder_ / "broken.pcap") << "";
  EXPECT_EQ(run({folder_.string()}), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("ok      loss_one"));
  EXPECT_THAT(out_.str(), HasSubstr("1 of 2 traces conform"));
  EXPECT_THAT(err_.str(), HasSubstr("broken.json"));
}

TEST_F(Run, ShowsTheFirstDifference) {
  copy_broken();
  EXPECT_EQ(run({folder_.string()}), kDiffers);
  // The 11th frame of the capture is the first DATA that tells freed cells (L24).
  EXPECT_THAT(out_.str(), HasSubstr("0.000 007 250 s: port 0: frame 11 of the trace differs in "
                                    "credit_vc (L24), credit (L20), header CRC (L1)"));
  EXPECT_THAT(out_.str(), HasSubstr("* credit_vc      0"));
  EXPECT_THAT(out_.str(), HasSubstr("rules: "));
}

TEST_F(Run, TheReportOfManyThreadsIsThatOfOne) {
  RunOptions options;
  options.traces = {kTraces.string()};
  ASSERT_EQ(run(options), kConforms) << err_.str();
  const std::string alone = out_.str();
  options.jobs = 8;
  EXPECT_EQ(run(options), kConforms);
  EXPECT_EQ(out_.str(), alone);
}

TEST_F(Run, AnExceptionIsOfItsTraceAlone) {
  std::vector<fs::path> traces;
  for (int i = 0; i < 20; ++i) traces.push_back(std::to_string(i) + ".json");
  for (const std::size_t jobs : {std::size_t{1}, std::size_t{4}}) {
    const auto results = replay_each(traces, jobs, [](const fs::path& path) {
      if (path == "3.json") throw std::runtime_error("out of luck");
      if (path == "4.json") throw 4;
      TraceResult result;
      result.status = kConforms;
      return result;
    });
    ASSERT_EQ(results.size(), traces.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_EQ(results[i].status, i == 3 || i == 4 ? kUnusable : kConforms) << i;
    }
    EXPECT_EQ(results[3].message, "3.json: could not be replayed: out of luck");
    EXPECT_EQ(results[3].name, "3");
    EXPECT_EQ(results[4].message, "4.json: could not be replayed");
  }
}

TEST_F(Run, Tap) {
  copy_broken();
  copy("ack_every");
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kTap;
  EXPECT_EQ(run(options), kDiffers);
  EXPECT_THAT(out_.str(), testing::StartsWith("TAP version 13\n1..2\nok 1 - ack_every\n"
                                              "not ok 2 - loss_one\n  ---\n  message: |\n"));
  EXPECT_THAT(out_.str(), testing::EndsWith("  ...\n"));
}

// A name is one line, whatever it says.
TEST_F(Run, NamesOfFilesAreEscaped) {
  const std::string name = "a\nok 2 - b\x1b\xff";
  std::ofstream(folder_ / (name + ".json")) << "{";
  std::ofstream(folder_ / (name + ".pcap")) << "";
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kTap;
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("not ok 1 - a\\x0aok 2 - b\\x1b\\xff\n"));
  options.report = ReportFormat::kJunit;
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("b\\x1b\\xff"));
  options.report = ReportFormat::kJson;
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("b\\\\x1b\\\\xff"));
  EXPECT_THAT(err_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(Run, Junit) {
  copy_broken();
  copy("ack_every");
  std::ofstream(folder_ / "broken.json") << "{";
  std::ofstream(folder_ / "broken.pcap") << "";
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kJunit;
  options.output = folder_ / "report.xml";
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(out_.str(), HasSubstr("1 of 3 traces conform")) << "the text goes on";
  const std::string xml = read(options.output);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"1\""));
  EXPECT_THAT(xml, HasSubstr("name=\"ack_every\"/>"));
  EXPECT_THAT(xml, HasSubstr("<failure message=\"loss_one: differs at"));
  EXPECT_THAT(xml, HasSubstr("<error message="));
}

TEST_F(Run, Json) {
  copy_broken();
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kJson;
  EXPECT_EQ(run(options), kDiffers);
  const json::value report = json::parse(out_.str());
  EXPECT_EQ(report.at("traces").to_number<int>(), 1);
  EXPECT_EQ(report.at("conform").to_number<int>(), 0);
  const json::value& result = report.at("results").as_array().at(0);
  EXPECT_EQ(result.at("status").as_string(), "differs");
  const json::value& first = result.at("differences").as_array().at(0);
  EXPECT_EQ(first.at("frame").to_number<int>(), 11);
  EXPECT_EQ(first.at("at_ns").to_number<int>(), 7250);
  EXPECT_EQ(first.at("port").to_number<int>(), 0);
  const json::value& field = first.at("fields").as_array().at(0);
  EXPECT_EQ(field.at("name").as_string(), "credit_vc");
  EXPECT_EQ(field.at("expected").as_string(), "0");
  EXPECT_EQ(field.at("got").as_string(), "15");
  EXPECT_EQ(field.at("rule").as_string(), "L24");
}

TEST_F(Run, AReportThatCannotBeWrittenIsAnError) {
  copy("loss_one");
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kTap;
  options.output = folder_ / "nosuch" / "report";
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("nosuch/report"));
}

TEST_F(Run, AReportReplacesNoTrace) {
  copy("loss_one");
  RunOptions options;
  options.traces = {folder_.string()};
  options.report = ReportFormat::kJson;
  for (const char* half : {"loss_one.json", "loss_one.pcap"}) {
    const std::string before = read(folder_ / half);
    options.output = folder_ / "." / half;
    EXPECT_EQ(run(options), kUnusable);
    EXPECT_THAT(err_.str(), HasSubstr("which is read; name another file"));
    EXPECT_EQ(read(folder_ / half), before);
  }
}

// /dev/full takes nothing, as a disk that is full.
TEST_F(Run, WhatCannotBeWrittenToItsEndIsAnError) {
  copy("loss_one");
  RunOptions options;
  options.traces = {folder_.string()};
  for (const auto report : {std::optional<ReportFormat>(), std::optional(ReportFormat::kJson)}) {
    options.report = report;
    std::ofstream full("/dev/full");
    err_.str("");
    EXPECT_EQ(run_traces(options, full, err_), kUnusable);
    EXPECT_THAT(err_.str(), HasSubstr("standard output: cannot be written"));
  }
  options.output = "/dev/full";
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("--output /dev/full: cannot be written"));
}

TEST_F(Run, ADumpReplacesNeitherATraceNorAnotherDump) {
  copy("loss_one");
  const std::string before = read(folder_ / "loss_one.pcap");
  RunOptions options;
  options.traces = {folder_ / "loss_one"};
  options.dump = folder_;
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("another folder"));
  EXPECT_EQ(read(folder_ / "loss_one.pcap"), before);

  fs::create_directory(folder_ / "dump");
  options.dump = folder_ / "dump";
  options.traces = {folder_ / "loss_one", kTraces / "loss_one"};
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_THAT(err_.str(), HasSubstr("apart"));
  options.traces = {folder_ / "loss_one"};
  EXPECT_EQ(run(options), kConforms) << err_.str();
  EXPECT_EQ(read(folder_ / "dump" / "loss_one.pcap").size(), before.size());
  EXPECT_EQ(run(options), kUnusable) << "a dump of before is kept, too";
  EXPECT_THAT(err_.str(), HasSubstr("dump/loss_one.pcap is there already"));
  EXPECT_THAT(err_.str(), HasSubstr("remove it"));
}

// A folder of traces may have one of the same name as the one that is run from elsewhere.
TEST_F(Run, ADumpReplacesNoTraceThatIsNotRun) {
  copy("loss_one");
  std::ofstream(folder_ / "loss_one.pcap", std::ios::trunc) << "of somebody else";
  RunOptions options;
  options.traces = {kTraces / "loss_one"};
  options.dump = folder_;
  EXPECT_EQ(run(options), kUnusable);
  EXPECT_EQ(read(folder_ / "loss_one.pcap"), "of somebody else");
  EXPECT_EQ(out_.str(), "") << "nothing was run";
}

}  // namespace
}  // namespace mtl::tools

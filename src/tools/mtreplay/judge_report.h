#pragma once

#include <string>
#include <vector>

#include "conformance/capture_reader.h"
#include "conformance/judge/judge.h"

namespace mtl::tools {

/// What was found in a capture, for people and for machines (docs/conformance.md).
struct JudgeReport {
  const conformance::judge::Judge& judge;
  const std::vector<conformance::judge::Finding>& findings;
  std::uint64_t left_out = 0;  ///< findings beyond those
  const std::vector<conformance::CaptureInterface>& interfaces;
  std::uint64_t not_ethernet = 0;  ///< frames of interfaces that are none
  std::uint64_t unsorted = 0;      ///< frames that stand far from where their time belongs
  bool cut_off = false;            ///< the file ends within a record
  bool complete = false;
};

/// "link 0  02:.. (node 7 port 0)": who broke a rule.
std::string side_text(const conformance::judge::Judge& judge, std::size_t link, std::size_t side);
/// One line of a finding.
std::string finding_text(const JudgeReport& report, const conformance::judge::Finding& finding);
/// The summary of each link, and what was not judged; several lines.
std::string summary_text(const JudgeReport& report);
/// All of it as JSON.
std::string judge_json(const JudgeReport& report);

}  // namespace mtl::tools

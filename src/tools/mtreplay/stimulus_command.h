#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "tools/interrupt.h"

namespace mtl::tools {

/// The command that does to a device what its owner does in a trace: a child process, which gets
/// one JSON object a line on its standard input and answers each by one on its standard output
/// (docs/mtreplay.md). It ends when its input does.
class StimulusCommand {
 public:
  /// Starts `command` by the shell. It has `patience` for each answer and for its end, of which
  /// little is left once `interrupt`, which outlives it, has come.
  static Result<StimulusCommand> start(const std::string& command, const Interrupt& interrupt,
                                       Duration patience);
  /// It took, or answered, nothing in time; little is left for its end then.
  bool hangs() const { return hangs_; }
  StimulusCommand(StimulusCommand&& other) noexcept;
  StimulusCommand& operator=(StimulusCommand&&) = delete;
  /// Ends its input, waits for its end, and kills what is then left of the process group that it
  /// was started in.
  ~StimulusCommand();

  /// Sends a line and waits for the answer. An Error: it ended, took nothing or answered nothing in
  /// time, answered no object, or had answered more than it was asked for.
  Result<boost::json::object> ask(const boost::json::object& line);

 private:
  StimulusCommand(Fd channel, pid_t pid, const Interrupt& interrupt, Duration patience)
      : channel_(std::move(channel)), pid_(pid), interrupt_(&interrupt), patience_(patience) {}
  bool wait(short events, Time end) const;
  bool interrupted() const { return interrupt_->wait(Duration{0}); }
  Result<void> send_line(const std::string& text);
  Result<std::string> read_line();
  Error gave_up(const char* why);

  Fd channel_;
  pid_t pid_ = -1;
  const Interrupt* interrupt_;
  Duration patience_;
  bool hangs_ = false;
  std::string unread_;
};

}  // namespace mtl::tools

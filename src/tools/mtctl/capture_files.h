#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "capture/collector.h"
#include "conformance/capture_writer.h"

namespace mtl::tools {

/// The file of a capture, or the row of files that it is spread over: "x.pcapng" is x_00001.pcapng,
/// x_00002.pcapng and so on then. Each is whole: it has its interfaces, and ends with what they had
/// and missed. After an Error only close() has a use: the file then ends with what it took.
class CaptureFiles {
 public:
  struct Options {
    std::filesystem::path path;    ///< "-": standard output
    bool replace = false;          ///< files that are there, a whole row of former ones included
    std::uint64_t file_bytes = 0;  ///< a new file after so many; 0: one file
    std::uint64_t files = 0;       ///< only so many are kept, the newest; 0: all
    std::uint32_t snap = 0;        ///< 0: none
    std::string about;             ///< what is captured; in each file
    conformance::CaptureOutput::Wait wait;
  };

  /// Makes the first file.
  static Result<CaptureFiles> open(Options options);

  /// A frame of `collector`, at its time since 1970.
  Result<void> write(const capture::Captured& frame, Time at, const capture::Collector& collector);
  Result<void> flush() { return writer_->flush(); }
  /// Ends the last file, all that `collector` had by its end, at that time, having been written.
  Result<void> close(const capture::Collector& collector, Time at);
  /// Likewise where the capture goes no further than the last frame written: only what was missed
  /// before that is told.
  Result<void> close_early(const capture::Collector& collector);

  /// Frames that were written, also into files that have been removed since; those, apart.
  std::uint64_t frames() const { return frames_ - writer_->lost(); }
  std::uint64_t removed() const { return removed_; }
  /// Frames that were missed, so far as it is told in the files.
  std::uint64_t missed() const;
  /// The files that are there still, the oldest first.
  std::vector<std::string> names() const;

 private:
  struct File {
    std::string name;
    std::uint64_t frames = 0;
  };
  struct OfInterface {
    std::uint64_t frames = 0;  ///< in this file
    std::uint64_t missed = 0;  ///< told so far, in all files
    std::uint64_t before = 0;  ///< of these, in files before
  };

  explicit CaptureFiles(Options options) : options_(std::move(options)) {}
  std::filesystem::path name(std::uint64_t number) const;
  std::vector<std::filesystem::path> former() const;
  Result<void> clear_former() const;
  Result<void> next();
  Result<void> add_interfaces(const capture::Collector& collector);
  Result<void> end(Time at);

  Options options_;
  std::optional<conformance::CaptureWriter> writer_;
  std::uint64_t number_ = 0;
  std::deque<File> kept_;
  std::vector<OfInterface> interfaces_;  ///< that this capture has
  std::size_t described_ = 0;            ///< of them, in this file
  std::optional<Time> began_;            ///< first frame of this file
  Time last_{};                          ///< last frame
  std::uint64_t frames_ = 0;
  std::uint64_t removed_ = 0;
};

}  // namespace mtl::tools

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mtl::conformance {

/// Where a capture is written: a file of its own, or what takes it from there (a pipe, a device,
/// standard output), which may take nothing for as long as it likes: then the caller waits, and can
/// do so with all else that it waits for. Error texts name the output and the remedy.
class CaptureOutput {
 public:
  /// Called when an output that is no file takes nothing for now: waits until poll() tells of room
  /// (POLLOUT) or of an end at the descriptor. False: it shall not be waited for any longer.
  using Wait = std::function<bool(int)>;

  /// "-" is standard output. A file is made, for its owner alone to read; one that is there is an
  /// Error, or is removed first if it is to be replaced. A symbolic link to a file is an Error.
  /// What is no file is opened as it is; a named pipe must have a reader.
  static Result<CaptureOutput> open(const std::filesystem::path& path, bool replace, Wait wait);

  /// Writes all of `bytes`. `done` tells how many of them were written, also on an Error.
  Result<void> write(std::span<const std::byte> bytes, std::size_t& done);
  /// Whether it is a file, so that cut() can take back what was written.
  bool is_file() const { return kind_ == Kind::kFile; }
  /// Makes a file as long as that, and goes on there.
  Result<void> cut(std::uint64_t bytes);
  /// What the system says only then is an Error, too.
  Result<void> close();

 private:
  enum class Kind { kFile, kSocket, kOther };

  CaptureOutput(std::string name, Fd fd, Wait wait);
  bool takes_some() const;
  std::ptrdiff_t put(std::span<const std::byte> bytes) const;
  Error fault(const char* what) const;

  std::string name_;
  Fd fd_;
  Wait wait_;
  Kind kind_ = Kind::kOther;
};

}  // namespace mtl::conformance

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "conformance/capture_output.h"

/// Captures as they are written while they come: pcapng with an interface for each port. What is
/// written whole, as traces are, pcap_file.h does.
namespace mtl::conformance {

/// Of an interface, at its beginning.
struct WrittenInterface {
  std::string name;
  std::string about;
  Mac mac{};
  std::uint32_t snap_length = 0;  ///< 0: none
};

/// A frame.
struct WrittenFrame {
  std::uint32_t interface = 0;
  Time at{};  ///< since 1970; not before
  std::span<const std::byte>
      bytes;                 ///< from the Ethernet header on, without FCS; as far as captured
  std::size_t length = 0;    ///< on the wire; not less than bytes
  bool out = false;          ///< it was sent by who captured it (epb_flags)
  std::uint64_t missed = 0;  ///< frames of the interface missed since the one before
  std::string_view comment;
};

/// Writes one pcapng file. Times are in nanoseconds. After an Error a file ends with the last block
/// that it has as a whole: what did not fit is lost(), and the statistics may still find room; into
/// what is no file nothing more is written.
class CaptureWriter {
 public:
  /// Begins what `path` and `replace` mean to CaptureOutput; `about` is the section's comment, as
  /// it concerns all of it.
  static Result<CaptureWriter> create(const std::filesystem::path& path, bool replace,
                                      const std::string& program, const std::string& about,
                                      CaptureOutput::Wait wait = {});

  /// A further interface: the numbers count up from 0.
  Result<void> add_interface(const WrittenInterface& interface);
  Result<void> write(const WrittenFrame& frame);
  /// At the end, for each interface: how many frames it had between two times, and how many of
  /// these were missed. Nothing is written of an interface that an Error kept out of the file.
  Result<void> write_statistics(std::uint32_t interface, Time from, Time to, std::uint64_t frames,
                                std::uint64_t missed);
  /// Writes out what is gathered.
  Result<void> flush();
  /// Likewise, and closes the file: what the system says only then is an Error, too.
  Result<void> close();

  /// Bytes of the file so far.
  std::uint64_t size() const { return written_ + buffer_.size(); }
  /// Frames of an interface that were given to write() and are not in the file, after an Error.
  std::uint64_t lost(std::uint32_t interface) const;
  /// Likewise of all interfaces.
  std::uint64_t lost() const { return all_lost_; }

 private:
  explicit CaptureWriter(CaptureOutput output) : output_(std::move(output)) {}

  std::size_t begin_block(std::uint32_t type);
  Result<void> end_block(std::size_t begin);
  void put(const void* bytes, std::size_t count);
  template <class T>
  void number(T value) {
    put(&value, sizeof value);
  }
  void pad();
  void option(std::uint16_t code, const void* bytes, std::size_t count);
  void option(std::uint16_t code, std::string_view text);
  template <class T>
  void option_number(std::uint16_t code, T value) {
    option(code, &value, sizeof value);
  }
  void end_options();
  void give_up(std::size_t done);

  CaptureOutput output_;
  std::vector<std::byte> buffer_;  ///< whole blocks, but while one is being made
  std::uint64_t written_ = 0;
  std::uint32_t interfaces_ = 0;
  std::vector<std::uint64_t> lost_;  ///< by interface
  std::uint64_t all_lost_ = 0;
  bool broken_ = false;  ///< no file, and it took a part
};

}  // namespace mtl::conformance

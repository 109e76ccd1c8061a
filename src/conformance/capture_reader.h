#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

/// Captures of any size, read from front to back in constant memory: classic pcap (micro- and
/// nanoseconds) and pcapng (any number of interfaces and sections, any resolution), of either byte
/// order. libpcap reads no pcapng whose interfaces differ, and does not tell them apart.
namespace mtl::conformance {

/// An interface of a capture. Classic pcap has one, without a name.
struct CaptureInterface {
  std::string name;             ///< pcapng if_name; empty: not told
  std::uint32_t section = 0;    ///< in which it is described, from 0; numbers begin anew in each
  std::uint16_t link_type = 0;  ///< 1: Ethernet
  /// Frames that the interface or its host missed, as the capture itself says so far: by statistics
  /// of the interface, or by what stands beside frames.
  std::uint64_t missed = 0;

  static constexpr std::uint16_t kEthernet = 1;
  bool ethernet() const { return link_type == kEthernet; }

  // How its records are read.
  std::uint64_t units_per_second = 1'000'000;
  std::int64_t offset_seconds = 0;
  std::uint32_t snap_length = 0;  ///< 0: none
  std::uint32_t fcs_length = 0;   ///< bytes of each frame that are its FCS
};

/// One record. `bytes` holds until the next call of the reader.
struct CaptureRecord {
  std::uint64_t number = 0;     ///< in the file, from 1, as Wireshark counts
  std::uint32_t interface = 0;  ///< index into CaptureReader::interfaces()
  Time at{};  ///< since 1970, within 2^32 s of it either way; 0 where the file has no time
  std::span<const std::byte> bytes;  ///< as far as captured, without FCS
  std::size_t length = 0;            ///< on the wire, without FCS; not less than bytes
};

class CaptureReader {
 public:
  /// Waits until there is something to be read; false: nothing more is to be, as if the file ended.
  using Wait = std::function<bool(int file)>;

  /// Opens `path`, "-" being standard input. `wait`, if any, is called before each read. An Error
  /// names the file and what it is instead.
  static Result<CaptureReader> open(const std::filesystem::path& path, Wait wait = {});

  /// The next record; false at the end. An Error (file, offset, what, remedy) for what is damaged;
  /// after one nothing more can be read.
  Result<bool> next(CaptureRecord& record);

  /// Those seen so far; indices never change.
  const std::vector<CaptureInterface>& interfaces() const { return interfaces_; }
  /// The file ends within a record, as when its writer was killed: it was left out.
  bool cut_off() const { return cut_off_; }

 private:
  CaptureReader(std::string path, Fd file, Wait wait);

  std::size_t fill(std::size_t bytes);
  bool take(std::size_t bytes, std::span<const std::byte>& out);
  std::uint16_t number16(const std::byte* p) const;
  std::uint32_t number32(const std::byte* p) const;
  std::uint64_t number64(const std::byte* p) const;
  Error fault(const std::string& what) const;

  std::optional<Error> read_header();
  void read_classic_header(std::span<const std::byte> header, bool nanoseconds);
  Result<bool> next_classic(CaptureRecord& record);
  Result<bool> next_block(CaptureRecord& record);
  std::optional<Error> read_interface(std::span<const std::byte> body);
  template <class On>
  void each_option(std::span<const std::byte> options, On&& on) const;
  void read_options(std::span<const std::byte> options, CaptureInterface& interface) const;
  std::uint32_t read_packet_options(std::span<const std::byte> options,
                                    CaptureInterface& interface) const;
  void read_statistics(std::span<const std::byte> body);
  Result<bool> read_packet(std::span<const std::byte> body, std::uint32_t type,
                           CaptureRecord& record);
  std::optional<Error> deliver(std::uint32_t interface, std::uint64_t units,
                               std::span<const std::byte> data, std::size_t length,
                               std::uint32_t fcs_length, CaptureRecord& record);

  std::string path_;
  Fd file_;
  Wait wait_;
  int read_error_ = 0;             ///< errno of the read that failed
  std::vector<std::byte> buffer_;  ///< of kBufferBytes, or of the longest record that came
  std::size_t begin_ = 0;          ///< of what is read and not taken
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;  ///< of begin_ in the file
  bool swapped_ = false;      ///< the file's byte order is not this machine's
  bool classic_ = true;
  bool cut_off_ = false;
  std::uint64_t records_ = 0;
  std::uint32_t sections_ = 0;     ///< pcapng sections that have begun
  std::size_t section_begin_ = 0;  ///< index of the section's first interface
  std::vector<CaptureInterface> interfaces_;
};

}  // namespace mtl::conformance

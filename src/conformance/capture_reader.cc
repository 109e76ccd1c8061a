#include "conformance/capture_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mtl::conformance {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
/// Longer than any frame with its block's options: what claims more is damaged.
constexpr std::size_t kLongestRecord = std::size_t{16} << 20;
constexpr std::size_t kMostInterfaces = 65536;

constexpr std::uint32_t kClassicMicro = 0xA1B2C3D4;
constexpr std::uint32_t kClassicNano = 0xA1B23C4D;
constexpr std::uint32_t kSectionBlock = 0x0A0D0D0A;
constexpr std::uint32_t kByteOrder = 0x1A2B3C4D;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kOldPacketBlock = 2;
constexpr std::uint32_t kSimplePacketBlock = 3;
constexpr std::uint32_t kStatisticsBlock = 5;
constexpr std::uint32_t kPacketBlock = 6;

constexpr std::size_t kClassicHeader = 24;
constexpr std::size_t kClassicRecord = 16;
constexpr std::size_t kBlockFrame = 12;  // type, length, and the length again at the end
constexpr std::uint64_t kNano = 1'000'000'000;

std::uint32_t swap(std::uint32_t value) {
  return __builtin_bswap32(value);
}

template <class T>
T native(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::size_t padded(std::size_t length) {
  return (length + 3) & ~std::size_t{3};
}

/// if_tsresol: a power of ten, or of two with the top bit; 0 for one that no 64 bits can hold.
std::uint64_t resolution(std::uint8_t code) {
  const unsigned exponent = code & 0x7FU;
  if ((code & 0x80U) != 0) return exponent < 64 ? std::uint64_t{1} << exponent : 0;
  if (exponent > 19) return 0;
  std::uint64_t units = 1;
  for (unsigned i = 0; i < exponent; ++i) units *= 10;
  return units;
}

/// Time in nanoseconds. Parts of a nanosecond are cut off.
Time time_of(std::uint64_t units, const CaptureInterface& interface) {
  const std::uint64_t per_second = interface.units_per_second;
  const std::uint64_t seconds = units / per_second;
  __extension__ using Wide = unsigned __int128;
  const auto part = static_cast<std::uint64_t>(Wide{units % per_second} * kNano / per_second);
  return Time{Duration{static_cast<std::int64_t>(seconds * kNano + part)} +
              Duration{interface.offset_seconds * static_cast<std::int64_t>(kNano)}};
}

}  // namespace

CaptureReader::CaptureReader(std::string path, Fd file, Wait wait)
    : path_(std::move(path)),
      file_(std::move(file)),
      wait_(std::move(wait)),
      buffer_(kBufferBytes) {}

Result<CaptureReader> CaptureReader::open(const std::filesystem::path& path, Wait wait) {
  const bool standard = path == "-";
  Fd file{standard ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) {
    return Error{fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno))};
  }
  CaptureReader reader(standard ? "standard input" : path.string(), std::move(file),
                       std::move(wait));
  if (const auto error = reader.read_header()) return *error;
  return reader;
}

Error CaptureReader::fault(const std::string& what) const {
  return Error{fmt::format("{}: at byte {} (behind frame {}): {}", path_, offset_, records_, what)};
}

std::uint16_t CaptureReader::number16(const std::byte* p) const {
  const auto value = native<std::uint16_t>(p);
  return swapped_ ? __builtin_bswap16(value) : value;
}

std::uint32_t CaptureReader::number32(const std::byte* p) const {
  const auto value = native<std::uint32_t>(p);
  return swapped_ ? __builtin_bswap32(value) : value;
}

std::uint64_t CaptureReader::number64(const std::byte* p) const {
  const auto value = native<std::uint64_t>(p);
  return swapped_ ? __builtin_bswap64(value) : value;
}

/// Sees to it that `bytes` are in the buffer; how many there are, fewer only at the file's end.
std::size_t CaptureReader::fill(std::size_t bytes) {
  if (end_ - begin_ >= bytes) return end_ - begin_;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  while (end_ < bytes) {
    if (wait_ && !wait_(file_.get())) break;
    const auto n = ::read(file_.get(), buffer_.data() + end_, buffer_.size() - end_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) read_error_ = errno;
    if (n <= 0) break;
    end_ += static_cast<std::size_t>(n);
  }
  return end_ - begin_;
}

/// Takes `bytes` out of the file; false, and nothing, when there are fewer.
bool CaptureReader::take(std::size_t bytes, Bytes& out) {
  if (fill(bytes) < bytes) return false;
  out = Bytes(buffer_).subspan(begin_, bytes);
  begin_ += bytes;
  offset_ += bytes;
  return true;
}

std::optional<Error> CaptureReader::read_header() {
  constexpr const char* kRemedy = "give a capture as tcpdump or Wireshark writes it";
  const bool enough = fill(4) >= 4;
  if (read_error_ != 0) return fault(fmt::format("cannot be read: {}", std::strerror(read_error_)));
  if (!enough) return Error{fmt::format("{}: no pcap or pcapng, too short; {}", path_, kRemedy)};
  const auto magic = native<std::uint32_t>(buffer_.data() + begin_);
  if (magic == kSectionBlock) {
    classic_ = false;
    return std::nullopt;
  }
  swapped_ = magic == swap(kClassicMicro) || magic == swap(kClassicNano);
  const std::uint32_t kind = swapped_ ? swap(magic) : magic;
  Bytes header;
  if ((kind != kClassicMicro && kind != kClassicNano) || !take(kClassicHeader, header)) {
    return Error{fmt::format("{}: no pcap or pcapng, it begins with {:08x}; {}", path_,
                             __builtin_bswap32(magic), kRemedy)};
  }
  read_classic_header(header, kind == kClassicNano);
  return std::nullopt;
}

void CaptureReader::read_classic_header(Bytes header, bool nanoseconds) {
  CaptureInterface interface;
  interface.units_per_second = nanoseconds ? kNano : 1'000'000;
  const std::uint32_t type = number32(header.data() + 20);
  interface.link_type = static_cast<std::uint16_t>(type);
  if ((type & 0x04000000U) != 0) interface.fcs_length = (type >> 28) * 2;
  interfaces_.push_back(interface);
}

Result<bool> CaptureReader::next(CaptureRecord& record) {
  auto more = classic_ ? next_classic(record) : next_block(record);
  if (read_error_ != 0) return fault(fmt::format("cannot be read: {}", std::strerror(read_error_)));
  return more;
}

Result<bool> CaptureReader::next_classic(CaptureRecord& record) {
  const std::size_t there = fill(kClassicRecord);
  if (there < kClassicRecord) {
    cut_off_ = there != 0;
    return false;
  }
  const std::byte* p = buffer_.data() + begin_;
  const std::uint32_t seconds = number32(p);
  const std::uint32_t part = number32(p + 4);
  const std::size_t captured = number32(p + 8);
  const std::size_t length = number32(p + 12);
  const std::uint64_t per_second = interfaces_[0].units_per_second;
  if (captured > kLongestRecord) {
    return fault(fmt::format("a record of {} bytes; the file is damaged from here on", captured));
  }
  if (part >= per_second) {
    return fault(fmt::format("a time of {} parts of a second that has {}; the file is damaged",
                             part, per_second));
  }
  Bytes whole;
  if (!take(kClassicRecord + captured, whole)) {
    cut_off_ = true;
    return false;
  }
  if (auto error = deliver(0, seconds * per_second + part, whole.subspan(kClassicRecord), length,
                           interfaces_[0].fcs_length, record)) {
    return *error;
  }
  return true;
}

Result<bool> CaptureReader::next_block(CaptureRecord& record) {
  for (;;) {
    const std::size_t there = fill(kBlockFrame);
    if (there < kBlockFrame) {
      cut_off_ = there != 0;
      return false;
    }
    const std::byte* p = buffer_.data() + begin_;
    // The section's header alone reads the same in either byte order, and tells it.
    if (native<std::uint32_t>(p) == kSectionBlock) {
      const auto order = native<std::uint32_t>(p + 8);
      if (order != kByteOrder && order != swap(kByteOrder)) {
        return fault("a section without byte order; the file is damaged");
      }
      swapped_ = order != kByteOrder;
    }
    const std::uint32_t type = number32(p);
    const std::size_t length = number32(p + 4);
    if (length < kBlockFrame || length % 4 != 0 || length > kLongestRecord) {
      return fault(fmt::format("a block of {} bytes; the file is damaged from here on", length));
    }
    if (fill(length) < length) {
      cut_off_ = true;
      return false;
    }
    Bytes block;
    take(length, block);
    if (number32(block.data() + length - 4) != length) {
      return fault("a block that ends otherwise than it begins; the file is damaged");
    }
    const Bytes body = block.subspan(8, length - kBlockFrame);
    switch (type) {
      case kSectionBlock:
        section_begin_ = interfaces_.size();
        ++sections_;
        break;
      case kInterfaceBlock:
        if (const auto error = read_interface(body)) return *error;
        break;
      case kStatisticsBlock:
        read_statistics(body);
        break;
      case kPacketBlock:
      case kOldPacketBlock:
      case kSimplePacketBlock:
        return read_packet(body, type, record);
      default:  // names, secrets, comments
        break;
    }
  }
}

std::optional<Error> CaptureReader::read_interface(Bytes body) {
  constexpr std::size_t kFixed = 8;
  if (body.size() < kFixed) return fault("an interface block that is too short");
  if (interfaces_.size() == kMostInterfaces) {
    return fault(fmt::format("more than {} interfaces", kMostInterfaces));
  }
  CaptureInterface interface;
  interface.section = sections_ - 1;
  interface.link_type = number16(body.data());
  interface.snap_length = number32(body.data() + 4);
  read_options(body.subspan(kFixed), interface);
  if (interface.units_per_second == 0) {
    return fault("an interface whose times are finer than 64 bits can count");
  }
  interfaces_.push_back(std::move(interface));
  return std::nullopt;
}

/// Calls `on(code, value)` for each option. One that does not fit ends the list.
template <class On>
void CaptureReader::each_option(Bytes options, On&& on) const {
  while (options.size() >= 4) {
    const std::uint16_t code = number16(options.data());
    const std::size_t length = number16(options.data() + 2);
    if (code == 0 || options.size() - 4 < length) return;
    on(code, options.subspan(4, length));
    options = options.subspan(4 + std::min(padded(length), options.size() - 4));
  }
}

/// What is told of an interface and matters here.
void CaptureReader::read_options(Bytes options, CaptureInterface& interface) const {
  constexpr std::uint16_t kName = 2;
  constexpr std::uint16_t kResolution = 9;
  constexpr std::uint16_t kFcsLength = 13;
  constexpr std::uint16_t kOffset = 14;
  each_option(options, [&](std::uint16_t code, Bytes value) {
    if (code == kName) {
      interface.name.assign(reinterpret_cast<const char*>(value.data()), value.size());
    }
    if (code == kResolution && value.size() == 1) {
      interface.units_per_second = resolution(native<std::uint8_t>(value.data()));
    }
    if (code == kFcsLength && value.size() == 1) {
      interface.fcs_length = native<std::uint8_t>(value.data());
    }
    if (code == kOffset && value.size() == 8) {
      interface.offset_seconds = static_cast<std::int64_t>(number64(value.data()));
    }
  });
}

void CaptureReader::read_statistics(Bytes body) {
  constexpr std::size_t kFixed = 12;
  constexpr std::uint16_t kInterfaceDrop = 5;
  constexpr std::uint16_t kSystemDrop = 7;
  if (body.size() < kFixed) return;
  const std::size_t index = section_begin_ + number32(body.data());
  if (index >= interfaces_.size()) return;
  std::uint64_t missed = 0;
  each_option(body.subspan(kFixed), [&](std::uint16_t code, Bytes value) {
    if ((code == kInterfaceDrop || code == kSystemDrop) && value.size() == 8) {
      missed += number64(value.data());
    }
  });
  // It counts from the start of the capture, and what stood beside frames may be part of it.
  interfaces_[index].missed = std::max(interfaces_[index].missed, missed);
}

/// What an enhanced packet block says behind its packet: frames missed since the one before, and
/// how long its FCS is, if another length than the interface's. The FCS that its frame has.
std::uint32_t CaptureReader::read_packet_options(Bytes options, CaptureInterface& interface) const {
  constexpr std::uint16_t kFlags = 2;
  constexpr std::uint16_t kDropCount = 4;
  constexpr unsigned kFcsAt = 5;
  std::uint32_t fcs = interface.fcs_length;
  each_option(options, [&](std::uint16_t code, Bytes value) {
    if (code == kDropCount && value.size() == 8) interface.missed += number64(value.data());
    if (code != kFlags || value.size() != 4) return;
    const std::uint32_t told = number32(value.data()) >> kFcsAt & 0xF;
    if (told != 0) fcs = told;
  });
  return fcs;
}

Result<bool> CaptureReader::read_packet(Bytes body, std::uint32_t type, CaptureRecord& record) {
  const std::size_t fixed = type == kSimplePacketBlock ? 4 : 20;
  if (body.size() < fixed) return fault("a packet block that is too short");
  const std::byte* p = body.data();
  std::size_t interface = section_begin_;
  std::uint64_t units = 0;
  std::size_t captured = 0;
  std::size_t length = 0;
  if (type == kSimplePacketBlock) {
    length = number32(p);
    captured = std::min(length, body.size() - fixed);
  } else {
    interface += type == kPacketBlock ? number32(p) : number16(p);
    units = std::uint64_t{number32(p + 4)} << 32 | number32(p + 8);
    captured = number32(p + 12);
    length = number32(p + 16);
  }
  if (interface >= interfaces_.size()) {
    return fault("a packet of an interface that no block describes; the file is damaged");
  }
  if (type == kSimplePacketBlock && interfaces_[interface].snap_length != 0) {
    captured = std::min<std::size_t>(captured, interfaces_[interface].snap_length);
  }
  if (captured > body.size() - fixed) {
    return fault(fmt::format("a packet of {} bytes in a block of {}; the file is damaged", captured,
                             body.size()));
  }
  std::uint32_t fcs = interfaces_[interface].fcs_length;
  if (type == kPacketBlock) {
    fcs = read_packet_options(body.subspan(std::min(body.size(), fixed + padded(captured))),
                              interfaces_[interface]);
  }
  constexpr std::uint16_t kNotCounted = 0xFFFF;
  if (type == kOldPacketBlock && number16(p + 2) != kNotCounted) {
    interfaces_[interface].missed += number16(p + 2);
  }
  if (auto error = deliver(static_cast<std::uint32_t>(interface), units,
                           body.subspan(fixed, captured), length, fcs, record)) {
    return *error;
  }
  return true;
}

std::optional<Error> CaptureReader::deliver(std::uint32_t interface, std::uint64_t units,
                                            Bytes data, std::size_t length,
                                            std::uint32_t fcs_length, CaptureRecord& record) {
  const CaptureInterface& from = interfaces_[interface];
  // Within 136 years of 1970, so that differences, too, are less than the 292 years of 2^63
  // nanoseconds. What is beyond is damaged.
  constexpr std::int64_t kMost = 1LL << 32;
  ++records_;
  const std::uint64_t seconds = units / from.units_per_second;
  const bool readable =
      seconds < kMost && from.offset_seconds <= kMost && from.offset_seconds >= -kMost;
  const std::int64_t whole =
      readable ? static_cast<std::int64_t>(seconds) + from.offset_seconds : kMost;
  if (whole >= kMost || whole < -kMost) return fault("a time centuries away; the file is damaged");
  length = std::max(length, data.size());
  const std::size_t fcs = std::min<std::size_t>(fcs_length, length);
  record.number = records_;
  record.interface = interface;
  record.at = time_of(units, from);
  record.length = length - fcs;
  record.bytes = data.first(std::min(data.size(), record.length));
  return std::nullopt;
}

}  // namespace mtl::conformance

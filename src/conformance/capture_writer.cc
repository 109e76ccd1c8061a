#include "conformance/capture_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace mtl::conformance {
namespace {

constexpr std::uint32_t kSectionBlock = 0x0A0D0D0A;
constexpr std::uint32_t kByteOrder = 0x1A2B3C4D;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kStatisticsBlock = 5;
constexpr std::uint32_t kPacketBlock = 6;
constexpr std::uint16_t kEthernet = 1;
constexpr std::uint16_t kComment = 1;  // an option of every block
constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr std::size_t kLongestText = 0xFFFF;

std::uint32_t word(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

Result<CaptureWriter> CaptureWriter::create(const std::filesystem::path& path, bool replace,
                                            const std::string& program, const std::string& about,
                                            CaptureOutput::Wait wait) {
  auto output = CaptureOutput::open(path, replace, std::move(wait));
  if (!output) return output.error();
  CaptureWriter writer(std::move(*output));
  const std::size_t begin = writer.begin_block(kSectionBlock);
  writer.number(kByteOrder);
  writer.number(std::uint16_t{1});  // version 1.0
  writer.number(std::uint16_t{0});
  writer.number(~std::uint64_t{0});  // how long the section is, is not told
  constexpr std::uint16_t kProgram = 4;
  writer.option(kComment, about);
  writer.option(kProgram, program);
  writer.end_options();
  if (auto ended = writer.end_block(begin); !ended) return ended.error();
  if (auto flushed = writer.flush(); !flushed) return flushed.error();
  return writer;
}

Result<void> CaptureWriter::add_interface(const WrittenInterface& interface) {
  constexpr std::uint16_t kName = 2;
  constexpr std::uint16_t kDescription = 3;
  constexpr std::uint16_t kMacAddress = 6;
  constexpr std::uint16_t kResolution = 9;
  ++interfaces_;
  const std::size_t begin = begin_block(kInterfaceBlock);
  number(kEthernet);
  number(std::uint16_t{0});
  number(interface.snap_length);
  option(kName, interface.name);
  option(kDescription, interface.about);
  option(kMacAddress, interface.mac.data(), interface.mac.size());
  option_number(kResolution, std::uint8_t{9});
  end_options();
  return end_block(begin);
}

Result<void> CaptureWriter::write(const WrittenFrame& frame) {
  constexpr std::uint16_t kFlags = 2;
  constexpr std::uint16_t kDropCount = 4;
  const auto at = static_cast<std::uint64_t>(nanos(frame.at));
  const std::size_t begin = begin_block(kPacketBlock);
  number(frame.interface);
  number(static_cast<std::uint32_t>(at >> 32));
  number(static_cast<std::uint32_t>(at));
  number(static_cast<std::uint32_t>(frame.bytes.size()));
  number(static_cast<std::uint32_t>(frame.length));
  put(frame.bytes.data(), frame.bytes.size());
  pad();
  option(kComment, frame.comment);
  option_number(kFlags, std::uint32_t{frame.out ? 2U : 1U});
  if (frame.missed != 0) option_number(kDropCount, frame.missed);
  end_options();
  return end_block(begin);
}

Result<void> CaptureWriter::write_statistics(std::uint32_t interface, Time from, Time to,
                                             std::uint64_t frames, std::uint64_t missed) {
  constexpr std::uint16_t kStart = 2;
  constexpr std::uint16_t kEnd = 3;
  constexpr std::uint16_t kReceived = 4;
  constexpr std::uint16_t kDropped = 5;
  // A time is two numbers, the higher half first, each in our byte order.
  const auto halves = [](Time at) {
    const auto units = static_cast<std::uint64_t>(nanos(at));
    return std::array{static_cast<std::uint32_t>(units >> 32), static_cast<std::uint32_t>(units)};
  };
  if (interface >= interfaces_) return {};
  const std::size_t begin = begin_block(kStatisticsBlock);
  number(interface);
  number(halves(to));
  option_number(kStart, halves(from));
  option_number(kEnd, halves(to));
  option_number(kReceived, frames);
  option_number(kDropped, missed);
  end_options();
  return end_block(begin);
}

Result<void> CaptureWriter::flush() {
  if (broken_) {
    give_up(0);
    return Error{"what was captured cannot be written any more"};  // told before, with the cause
  }
  std::size_t done = 0;
  if (auto written = output_.write(buffer_, done); !written) {
    give_up(done);
    return written;
  }
  written_ += done;
  buffer_.clear();
  return {};
}

/// Of the buffer so many bytes were written: of the rest, and of the block that they end in,
/// nothing is kept.
void CaptureWriter::give_up(std::size_t done) {
  std::size_t whole = 0;
  for (std::size_t at = 0; at < buffer_.size();) {
    const std::uint32_t length = word(buffer_.data() + at + sizeof(std::uint32_t));
    if (at + length <= done) {
      whole = at + length;
    } else if (word(buffer_.data() + at) == kInterfaceBlock) {
      --interfaces_;
    } else if (word(buffer_.data() + at) == kPacketBlock) {
      const std::uint32_t interface = word(buffer_.data() + at + 2 * sizeof(std::uint32_t));
      lost_.resize(std::max<std::size_t>(lost_.size(), interface + 1));
      ++lost_[interface];
      ++all_lost_;
    }
    at += length;
  }
  written_ += whole;
  buffer_.clear();
  broken_ = broken_ || !output_.is_file() || !output_.cut(written_);
}

std::uint64_t CaptureWriter::lost(std::uint32_t interface) const {
  return interface < lost_.size() ? lost_[interface] : 0;
}

Result<void> CaptureWriter::close() {
  const auto flushed = flush();
  const auto closed = output_.close();
  return flushed ? closed : flushed;
}

std::size_t CaptureWriter::begin_block(std::uint32_t type) {
  const std::size_t begin = buffer_.size();
  number(type);
  number(std::uint32_t{0});
  return begin;
}

Result<void> CaptureWriter::end_block(std::size_t begin) {
  const auto length = static_cast<std::uint32_t>(buffer_.size() - begin + sizeof(std::uint32_t));
  number(length);
  std::memcpy(buffer_.data() + begin + sizeof(std::uint32_t), &length, sizeof length);
  return buffer_.size() < kBufferBytes ? Result<void>() : flush();
}

void CaptureWriter::put(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  buffer_.insert(buffer_.end(), from, from + count);
}

/// Blocks begin at multiples of 4, and so does what follows bytes of any length.
void CaptureWriter::pad() {
  buffer_.resize((size() + 3) / 4 * 4 - written_);
}

void CaptureWriter::option(std::uint16_t code, const void* bytes, std::size_t count) {
  number(code);
  number(static_cast<std::uint16_t>(count));
  put(bytes, count);
  pad();
}

void CaptureWriter::option(std::uint16_t code, std::string_view text) {
  if (!text.empty()) option(code, text.data(), std::min(text.size(), kLongestText));
}

void CaptureWriter::end_options() {
  number(std::uint32_t{0});
}

}  // namespace mtl::conformance

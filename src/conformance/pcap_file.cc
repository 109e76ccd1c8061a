#include "conformance/pcap_file.h"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

namespace mtl::conformance {
namespace {

constexpr int kSnapLength = 65535;
constexpr std::int64_t kSecond = 1'000'000'000;

struct CloseReader {
  void operator()(pcap_t* capture) const { pcap_close(capture); }
};
using Reader = std::unique_ptr<pcap_t, CloseReader>;

struct CloseDumper {
  void operator()(pcap_dumper_t* dumper) const { pcap_dump_close(dumper); }
};
using Dumper = std::unique_ptr<pcap_dumper_t, CloseDumper>;

Error fault(const std::filesystem::path& path, const std::string& what) {
  return Error{fmt::format("{}: {}", path.string(), what)};
}

/// What is wrong with a frame's record, or nothing.
std::optional<std::string> record_fault(const pcap_pkthdr& record) {
  if (record.caplen != record.len) {
    return fmt::format("has {} of its {} bytes; capture with a larger snap length", record.caplen,
                       record.len);
  }
  if (record.ts.tv_sec < 0 || record.ts.tv_usec < 0 || record.ts.tv_usec >= kSecond) {
    return fmt::format("has an impossible time, {} s and {} ns", std::int64_t{record.ts.tv_sec},
                       std::int64_t{record.ts.tv_usec});
  }
  return std::nullopt;
}

Time time_of(const pcap_pkthdr& record) {
  // With nanosecond precision tv_usec holds nanoseconds.
  return Time{Duration{std::int64_t{record.ts.tv_sec} * kSecond + record.ts.tv_usec}};
}

/// Reads all frames of an open capture into `frames`; what went wrong, or nothing.
std::optional<std::string> read_frames(pcap_t* capture, std::vector<CapturedFrame>& frames) {
  std::size_t total = 0;
  for (;;) {
    pcap_pkthdr* record = nullptr;
    const u_char* data = nullptr;
    const int status = pcap_next_ex(capture, &record, &data);
    if (status == PCAP_ERROR_BREAK) return std::nullopt;  // the end of the file
    const std::size_t number = frames.size() + 1;
    if (status != 1) return fmt::format("frame {}: {}", number, pcap_geterr(capture));
    if (const auto what = record_fault(*record)) return fmt::format("frame {} {}", number, *what);
    total += record->caplen;
    if (number > kMaxCaptureFrames || total > kMaxCaptureBytes) {
      return fmt::format("holds more than {} frames or {} bytes; cut it into smaller files",
                         kMaxCaptureFrames, kMaxCaptureBytes);
    }
    const auto bytes = std::as_bytes(std::span{data, record->caplen});
    frames.push_back({time_of(*record), {bytes.begin(), bytes.end()}});
  }
}

/// Seconds and nanoseconds of a frame as a record holds them, or what is wrong with the frame.
Result<pcap_pkthdr> make_record(const CapturedFrame& frame) {
  const std::int64_t at = nanos(frame.at);
  if (at < 0 || at / kSecond > std::numeric_limits<std::uint32_t>::max()) {
    return Error{fmt::format("time {} ns does not fit a capture", at)};
  }
  if (frame.bytes.size() > kSnapLength) {
    return Error{
        fmt::format("{} bytes are more than the {} of a record", frame.bytes.size(), kSnapLength)};
  }
  pcap_pkthdr record{};
  record.ts.tv_sec = at / kSecond;
  record.ts.tv_usec = at % kSecond;
  record.caplen = static_cast<bpf_u_int32>(frame.bytes.size());
  record.len = record.caplen;
  return record;
}

}  // namespace

Result<std::vector<CapturedFrame>> read_capture(const std::filesystem::path& path) {
  std::array<char, PCAP_ERRBUF_SIZE> why{};
  const Reader capture{pcap_open_offline_with_tstamp_precision(
      path.c_str(), PCAP_TSTAMP_PRECISION_NANO, why.data())};
  if (capture == nullptr)
    return Error{fmt::format("{}: cannot be read as a capture: {}", path.string(), why.data())};
  if (const int type = pcap_datalink(capture.get()); type != DLT_EN10MB) {
    const char* type_name = pcap_datalink_val_to_name(type);
    return fault(path, fmt::format("link type {} ({}); only Ethernet captures can be replayed",
                                   type, type_name == nullptr ? "unknown" : type_name));
  }
  std::vector<CapturedFrame> frames;
  if (const auto what = read_frames(capture.get(), frames)) return fault(path, *what);
  return frames;
}

Result<void> write_capture(const std::filesystem::path& path,
                           std::span<const CapturedFrame> frames) {
  const Reader format{
      pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapLength, PCAP_TSTAMP_PRECISION_NANO)};
  if (format == nullptr) return fault(path, "out of memory");
  const Dumper dumper{pcap_dump_open(format.get(), path.c_str())};
  if (dumper == nullptr)
    return fault(path, fmt::format("cannot be written: {}", pcap_geterr(format.get())));
  std::size_t number = 0;
  for (const CapturedFrame& frame : frames) {
    ++number;
    const auto record = make_record(frame);
    if (!record) return fault(path, fmt::format("frame {}: {}", number, record.error().message));
    pcap_dump(reinterpret_cast<u_char*>(dumper.get()), &*record,
              reinterpret_cast<const u_char*>(frame.bytes.data()));
  }
  // pcap_dump() itself reports nothing: a full disk shows here.
  if (pcap_dump_flush(dumper.get()) != 0 || std::ferror(pcap_dump_file(dumper.get())) != 0) {
    return fault(path, "cannot be written completely; is the disk full?");
  }
  return {};
}

}  // namespace mtl::conformance

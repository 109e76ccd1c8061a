// A capture of any bytes through reader, sorter and judge: read to an end, or refused with a place
// and a reason. The first byte, if odd, asks for CRCs to be made right on the way, so that what a
// fuzzer alters gets past them.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/fd.h"
#include "conformance/capture_reader.h"
#include "conformance/judge/judge.h"
#include "conformance/time_sorter.h"
#include "link/codec.h"

namespace {

using namespace mtl;
using namespace mtl::conformance;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

class Counted final : public judge::FindingSink {
 public:
  void found(const judge::Finding& finding) override {
    require(!finding.rule.empty() && !finding.why.empty(), "a finding says what and why");
    require(finding.side < 2, "a finding names a side");
  }
};

/// Makes header and packet CRC of an untagged frame right, where there is room for them.
void mend(std::vector<std::byte>& frame) {
  if (frame.size() < link::kFrameHeader) return;
  std::byte* header = frame.data() + link::kEthernetHeader;
  const std::size_t length = load16(header + 2);
  if (link::kFrameHeader + length > frame.size() || length > link::kMaxControlBody) return;
  const std::span<std::byte> body(frame.data() + link::kFrameHeader, length);
  const bool data = (load8(header) & 0x0F) == 0;
  if (data && length < link::kMinPacket) return;
  if (data) store32(body.data() + length - link::kPacketCrc, link::packet_crc(body));
  link::encode({.kind = static_cast<link::Kind>(load8(header) & 0x0F),
                .epoch = load8(header + 1),
                .length = static_cast<std::uint16_t>(length),
                .seq = Seq{load16(header + 4)},
                .ack = Seq{load16(header + 6)},
                .vc = Vc{static_cast<std::uint8_t>(load8(header + 8) >> 4)},
                .credit_vc = static_cast<std::uint8_t>(load8(header + 8) & 0x0F),
                .flags = load8(header + 9),
                .credit = CellCount{load16(header + 10)}},
               body, header);
}

void judge_file(const std::string& path, bool right, bool complete) {
  Counted sink;
  judge::Judge judge({.complete = complete}, sink);
  auto reader = CaptureReader::open(path);
  if (!reader) {
    require(!reader.error().message.empty(), "an error says what is wrong");
    return;
  }
  TimeSorter sorter;
  const auto give = [&](const CaptureRecord& r) {
    std::vector<std::byte> bytes(r.bytes.begin(), r.bytes.end());
    if (right && bytes.size() == r.length) mend(bytes);
    judge.frame(
        {r.number, r.interface, r.at, bytes, r.length, reader->interfaces()[r.interface].section});
  };
  CaptureRecord record;
  for (;;) {
    const auto more = reader->next(record);
    if (!more) require(!more.error().message.empty(), "an error says what is wrong");
    if (!more || !*more) break;
    require(record.interface < reader->interfaces().size(), "a record names its interface");
    require(record.bytes.size() <= record.length, "no more was captured than was there");
    sorter.push(record, give);
  }
  sorter.finish(give);
  judge.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Fd file(memfd_create("capture", MFD_CLOEXEC));
  require(static_cast<bool>(file), "there is memory for a file");
  require(write(file.get(), data + 1, size - 1) == static_cast<ssize_t>(size - 1), "it takes all");
  judge_file("/proc/self/fd/" + std::to_string(file.get()), (data[0] & 1) != 0, (data[0] & 2) != 0);
  return 0;
}

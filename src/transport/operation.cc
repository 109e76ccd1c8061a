#include "transport/operation.h"

#include <cstring>
#include <limits>

#include "base/byte_order.h"

namespace mtl::transport {
namespace {

constexpr std::size_t kPrefix = 4;  ///< opcode, flags, length
constexpr std::uint8_t kResponses = 16;

/// The flags that the table gives to an opcode; nullopt: no such opcode.
std::optional<std::uint8_t> legal_flags(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
      return kNear | kImm;
    case Opcode::kRead:
      return kNear;
    case Opcode::kAtomic:
      return kNear | kFetch;
    case Opcode::kSend:
      return kImm | kTag | kTotal | kOffer | kComplete;
    case Opcode::kSendData:
      return kWanted;
    case Opcode::kResult:
      return kAt | kFail;
    case Opcode::kCancel:
    case Opcode::kReport:
    case Opcode::kCredit:
    case Opcode::kWant:
    case Opcode::kDone:
      return 0;
  }
  return std::nullopt;
}

bool legal_operands(const Operation& operation) {
  const std::size_t length = operation.data.size();
  if (length == 0) return false;
  if (!known(operation.op, operation.type)) return true;
  const std::size_t places = operation.op == AtomicOp::kCompareSwap ? 2 : 1;
  const std::size_t operand = size_of(operation.type) * places;
  if (length % operand != 0) return false;
  return !operation.has(kFetch) || length / places <= kMaxFetch;
}

/// T26's rules of length.
bool legal_length(const Operation& operation) {
  const std::size_t length = operation.data.size();
  switch (operation.opcode) {
    case Opcode::kWrite:
      return true;
    case Opcode::kAtomic:
      return legal_operands(operation);
    case Opcode::kSend:
      if (operation.has(kOffer)) {
        return operation.has(kTotal) && operation.total != 0 && length == 0;
      }
      return length <= operation.total;
    case Opcode::kSendData:
      return length != 0;
    case Opcode::kResult:
      return !operation.has(kFail) || (length == 1 && !operation.has(kAt));
    case Opcode::kReport:
      return length != 0 && length % 2 == 0;
    case Opcode::kRead:
    case Opcode::kCancel:
    case Opcode::kCredit:
    case Opcode::kWant:
    case Opcode::kDone:
      return length == 0;
  }
  return false;
}

/// T15.
bool may_be_unordered(const Operation& operation) {
  if (operation.opcode == Opcode::kWrite) return !operation.has(kImm);
  return operation.opcode == Opcode::kSendData && operation.has(kWanted);
}

void load(const std::byte* p, std::uint8_t& value) {
  value = load8(p);
}
void load(const std::byte* p, std::uint16_t& value) {
  value = load16(p);
}
void load(const std::byte* p, std::uint32_t& value) {
  value = load32(p);
}
void load(const std::byte* p, std::uint64_t& value) {
  value = load64(p);
}

/// Where the head of an operation is written.
class Out {
 public:
  explicit Out(std::byte* at) : at_(at) {}
  void put8(unsigned value) {
    store8(at_, static_cast<std::uint8_t>(value));
    at_ += 1;
  }
  void put16(std::size_t value) {
    store16(at_, static_cast<std::uint16_t>(value));
    at_ += 2;
  }
  void put32(std::uint32_t value) {
    store32(at_, value);
    at_ += 4;
  }
  void put64(std::uint64_t value) {
    store64(at_, value);
    at_ += 8;
  }

 private:
  std::byte* at_;
};

void put_fields(const Operation& operation, Out& out) {
  switch (operation.opcode) {
    case Opcode::kWrite:
      if (operation.has(kImm)) out.put64(operation.imm);
      break;
    case Opcode::kRead:
      out.put32(operation.total);
      out.put32(operation.id);
      break;
    case Opcode::kAtomic:
      out.put8(static_cast<unsigned>(operation.op));
      out.put8(static_cast<unsigned>(operation.type));
      out.put16(0);
      if (operation.has(kFetch)) out.put32(operation.id);
      break;
    case Opcode::kSend:
      if (operation.has(kTag)) out.put64(operation.tag);
      if (operation.has(kTotal)) out.put32(operation.total);
      if (operation.has(kImm)) out.put64(operation.imm);
      break;
    case Opcode::kSendData:
      out.put32(operation.id);
      out.put32(operation.at);
      break;
    case Opcode::kCancel:
      out.put32(operation.id);
      break;
    case Opcode::kResult:
      out.put32(operation.id);
      if (operation.has(kAt)) out.put32(operation.at);
      break;
    case Opcode::kReport:
      out.put32(operation.psn.value());
      break;
    case Opcode::kCredit:
      out.put32(operation.limit);
      break;
    case Opcode::kWant:
      out.put32(operation.id);
      out.put32(operation.limit);
      break;
    case Opcode::kDone:
      out.put32(operation.id);
      out.put32(operation.status);
      break;
  }
}

}  // namespace

const char* name(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWrite:
      return "WRITE";
    case Opcode::kRead:
      return "READ";
    case Opcode::kAtomic:
      return "ATOMIC";
    case Opcode::kSend:
      return "SEND";
    case Opcode::kSendData:
      return "SEND_DATA";
    case Opcode::kCancel:
      return "CANCEL";
    case Opcode::kResult:
      return "RESULT";
    case Opcode::kReport:
      return "REPORT";
    case Opcode::kCredit:
      return "CREDIT";
    case Opcode::kWant:
      return "WANT";
    case Opcode::kDone:
      return "DONE";
  }
  return "?";
}

const char* name(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kBadKey:
      return "bad_key";
    case Status::kOutOfBounds:
      return "out_of_bounds";
    case Status::kNoPermission:
      return "no_permission";
    case Status::kMisaligned:
      return "misaligned";
    case Status::kUnsupported:
      return "unsupported";
    case Status::kTooLong:
      return "too_long";
    case Status::kCancelled:
      return "cancelled";
    case Status::kHeld:
      return "held";
  }
  return "unknown";
}

bool known(AtomicOp op, AtomicType type) {
  return op <= AtomicOp::kMax && type <= AtomicType::kF64;
}

bool supported(AtomicOp op, AtomicType type) {
  const bool bits = op >= AtomicOp::kAnd && op <= AtomicOp::kXor;
  return known(op, type) && !(bits && type >= AtomicType::kF32);
}

std::size_t size_of(AtomicType type) {
  const bool four =
      type == AtomicType::kU32 || type == AtomicType::kI32 || type == AtomicType::kF32;
  return four ? 4 : 8;
}

template <class T>
bool OperationReader::take(T& value) {
  if (body_.size() - at_ < sizeof(T)) return false;
  load(body_.data() + at_, value);
  at_ += sizeof(T);
  return true;
}

bool OperationReader::read_address(Operation& operation) {
  if (operation.has(kNear)) {
    std::uint32_t delta = 0;
    if (!has_base_ || !take(delta)) return false;
    operation.key = base_key_;
    operation.offset =
        base_offset_ + static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(delta)});
    return true;
  }
  std::uint64_t key = 0;
  if (!take(key) || !take(operation.offset)) return false;
  operation.key = Key{key};
  base_key_ = operation.key;
  base_offset_ = operation.offset;
  has_base_ = true;
  return true;
}

bool OperationReader::read_fields(Operation& operation) {
  switch (operation.opcode) {
    case Opcode::kWrite:
      return !operation.has(kImm) || take(operation.imm);
    case Opcode::kRead:
      return take(operation.total) && take(operation.id);
    case Opcode::kAtomic: {
      std::uint8_t op = 0;
      std::uint8_t type = 0;
      std::uint16_t zero = 0;
      if (!take(op) || !take(type) || !take(zero)) return false;
      operation.op = static_cast<AtomicOp>(op);
      operation.type = static_cast<AtomicType>(type);
      return !operation.has(kFetch) || take(operation.id);
    }
    case Opcode::kSend:
      return (!operation.has(kTag) || take(operation.tag)) &&
             (!operation.has(kTotal) || take(operation.total)) &&
             (!operation.has(kImm) || take(operation.imm));
    case Opcode::kSendData:
      return take(operation.id) && take(operation.at);
    case Opcode::kCancel:
      return take(operation.id);
    case Opcode::kResult:
      return take(operation.id) && (!operation.has(kAt) || take(operation.at));
    case Opcode::kReport: {
      std::uint32_t psn = 0;
      if (!take(psn)) return false;
      operation.psn = Psn{psn};
      return true;
    }
    case Opcode::kCredit:
      return take(operation.limit);
    case Opcode::kWant:
      return take(operation.id) && take(operation.limit);
    case Opcode::kDone:
      return take(operation.id) && take(operation.status);
  }
  return false;
}

bool OperationReader::next(Operation& operation) {
  operation = Operation{};
  std::uint8_t opcode = 0;
  std::uint16_t length = 0;
  if (!take(opcode) || !take(operation.flags) || !take(length)) return false;
  operation.opcode = static_cast<Opcode>(opcode);
  if (operation.has_address() && !read_address(operation)) return false;
  if (operation.opcode == Opcode::kSend && !operation.has(kTotal)) operation.total = length;
  if (!read_fields(operation)) return false;
  if (body_.size() - at_ < padded(length)) return false;
  operation.data = body_.subspan(at_, length);
  at_ += padded(length);
  return true;
}

std::optional<std::size_t> count_operations(Flow flow, bool unordered,
                                            std::span<const std::byte> body) {
  OperationReader reader(body);
  std::size_t count = 0;
  while (reader.at_ < body.size()) {
    const auto opcode = static_cast<Opcode>(load8(body.data() + reader.at_));
    const auto legal = legal_flags(opcode);
    const bool response = static_cast<std::uint8_t>(opcode) >= kResponses;
    if (!legal || response != (flow == Flow::kResponse)) return std::nullopt;
    Operation operation;
    if (!reader.next(operation)) return std::nullopt;
    if ((operation.flags & ~*legal) != 0 || !legal_length(operation)) return std::nullopt;
    if (unordered && !may_be_unordered(operation)) return std::nullopt;
    if (++count > kMaxOperations) return std::nullopt;
  }
  return count;
}

std::size_t head_size(const Operation& operation) {
  std::size_t size = kPrefix;
  if (operation.has_address()) size += operation.has(kNear) ? 4 : 16;
  switch (operation.opcode) {
    case Opcode::kWrite:
      return size + (operation.has(kImm) ? 8 : 0);
    case Opcode::kRead:
      return size + 8;
    case Opcode::kAtomic:
      return size + 4 + (operation.has(kFetch) ? 4 : 0);
    case Opcode::kSend:
      return size + (operation.has(kTag) ? 8 : 0) + (operation.has(kTotal) ? 4 : 0) +
             (operation.has(kImm) ? 8 : 0);
    case Opcode::kResult:
      return size + 4 + (operation.has(kAt) ? 4 : 0);
    case Opcode::kSendData:
    case Opcode::kWant:
    case Opcode::kDone:
      return size + 8;
    case Opcode::kCancel:
    case Opcode::kReport:
    case Opcode::kCredit:
      return size + 4;
  }
  return size;
}

void OperationWriter::choose_address(Operation& operation) const {
  if (!operation.has_address()) return;
  operation.flags &= static_cast<std::uint8_t>(~kNear);
  if (!has_base_ || operation.key != base_key_) return;
  const auto delta = static_cast<std::int64_t>(operation.offset - base_offset_);
  if (delta >= std::numeric_limits<std::int32_t>::min() &&
      delta <= std::numeric_limits<std::int32_t>::max()) {
    operation.flags |= kNear;
  }
}

void OperationWriter::put_head(const Operation& operation) {
  Out out(out_.data() + size_);
  out.put8(static_cast<unsigned>(operation.opcode));
  out.put8(operation.flags);
  out.put16(operation.data.size());
  if (operation.has_address()) {
    if (operation.has(kNear)) {
      out.put32(static_cast<std::uint32_t>(operation.offset - base_offset_));
    } else {
      out.put64(operation.key.value());
      out.put64(operation.offset);
      base_key_ = operation.key;
      base_offset_ = operation.offset;
      has_base_ = true;
    }
  }
  put_fields(operation, out);
  size_ += head_size(operation);
}

void OperationWriter::put_data(std::span<const std::byte> data) {
  const std::size_t whole = padded(data.size());
  if (!data.empty()) std::memcpy(out_.data() + size_, data.data(), data.size());
  std::memset(out_.data() + size_ + data.size(), 0, whole - data.size());
  size_ += whole;
}

}  // namespace mtl::transport

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

/// The operations in the body of a DATA (protocol page, section 5.4): a reader that takes nothing
/// for granted, and a writer.
namespace mtl::transport {

enum class Opcode : std::uint8_t {
  kWrite = 1,
  kRead = 2,
  kAtomic = 3,
  kSend = 4,
  kSendData = 5,
  kCancel = 6,
  kResult = 16,
  kReport = 17,
  kCredit = 18,
  kWant = 19,
  kDone = 20,
};
const char* name(Opcode opcode);

/// Flags of WRITE, READ, ATOMIC.
inline constexpr std::uint8_t kNear = 1;
inline constexpr std::uint8_t kImm = 2;  ///< of SEND too
inline constexpr std::uint8_t kFetch = 4;
/// Flags of SEND and SEND_DATA.
inline constexpr std::uint8_t kTag = 8;
inline constexpr std::uint8_t kTotal = 16;
inline constexpr std::uint8_t kOffer = 32;
inline constexpr std::uint8_t kComplete = 64;
inline constexpr std::uint8_t kWanted = 128;
/// Flags of RESULT.
inline constexpr std::uint8_t kAt = 1;
inline constexpr std::uint8_t kFail = 2;

enum class Status : std::uint8_t {
  kOk = 0,
  kBadKey = 1,
  kOutOfBounds = 2,
  kNoPermission = 3,
  kMisaligned = 4,
  kUnsupported = 5,
  kTooLong = 6,
  kCancelled = 7,
  kHeld = 8,
};
/// Its name on the page; "unknown" for a code that is not there.
const char* name(Status status);

/// T30. What comes from the wire may have other values.
enum class AtomicOp : std::uint8_t {
  kAdd = 0,
  kSwap = 1,
  kCompareSwap = 2,
  kAnd = 3,
  kOr = 4,
  kXor = 5,
  kMin = 6,
  kMax = 7,
};
enum class AtomicType : std::uint8_t { kU32 = 0, kU64 = 1, kI32 = 2, kI64 = 3, kF32 = 4, kF64 = 5 };

inline constexpr std::size_t kMaxOperations = 255;  ///< of a DATA (T26)
inline constexpr std::size_t kMaxFetch = 64;        ///< bytes of results (T26)
inline constexpr std::size_t kMaxOperands = 2 * kMaxFetch;
inline constexpr std::size_t kMaxLength = 0xFFFF;  ///< bytes of data of one operation
/// The longest encoded operation without its data: a SEND with all its fields, or a WRITE with IMM.
inline constexpr std::size_t kMaxHead = 28;

/// Whether both codes are T30's, so that the size of an operand is known.
bool known(AtomicOp op, AtomicType type);
/// Whether an owner of memory carries it out: known, and no bits of floats (T30).
bool supported(AtomicOp op, AtomicType type);
/// Bytes of a place in memory; `type` is T30's.
std::size_t size_of(AtomicType type);

/// One operation. Which members count is the table's to say, by opcode and flags.
struct Operation {
  Opcode opcode = Opcode::kWrite;
  std::uint8_t flags = 0;
  Key key{};                 ///< of the address
  std::uint64_t offset = 0;  ///< of the address: what NEAR resolves to (T26)
  std::uint64_t imm = 0;
  std::uint64_t tag = 0;
  std::uint32_t id = 0;     ///< RequestId or MessageId
  std::uint32_t total = 0;  ///< SEND without TOTAL: length
  std::uint32_t at = 0;
  std::uint32_t limit = 0;
  std::uint32_t status = 0;  ///< DONE
  Psn psn{};                 ///< REPORT
  AtomicOp op{};
  AtomicType type{};
  std::span<const std::byte> data{};

  bool has(std::uint8_t flag) const { return (flags & flag) != 0; }
  bool has_address() const { return opcode <= Opcode::kAtomic; }
};

/// Bytes that `length` bytes of data take in a body.
constexpr std::size_t padded(std::size_t length) {
  return (length + 3) & ~std::size_t{3};
}

/// T26 and T15 over a whole body of DATA: how many operations it holds, or nullopt if it is to end
/// the connection (T16). `body` is not empty.
std::optional<std::size_t> count_operations(Flow flow, bool unordered,
                                            std::span<const std::byte> body);

/// The operations of a body that count_operations() let through, one after another.
class OperationReader {
 public:
  explicit OperationReader(std::span<const std::byte> body) : body_(body) {}
  /// The next operation; false at the end.
  bool next(Operation& operation);

 private:
  friend std::optional<std::size_t> count_operations(Flow, bool, std::span<const std::byte>);
  bool read_address(Operation& operation);
  bool read_fields(Operation& operation);
  template <class T>
  bool take(T& value);

  std::span<const std::byte> body_;
  std::size_t at_ = 0;
  bool has_base_ = false;  ///< a full address came
  Key base_key_{};
  std::uint64_t base_offset_ = 0;
};

/// Bytes of `operation` without its data, as its flags stand.
std::size_t head_size(const Operation& operation);

/// Puts operations into the body of a DATA. Their data is written by the caller, or is left to be:
/// it may lie elsewhere until the packet is made.
class OperationWriter {
 public:
  /// Writes heads, and data that is copied, to `out`.
  explicit OperationWriter(std::span<std::byte> out) : out_(out) {}

  /// Sets or takes away NEAR, whichever is right for this address in this packet (T26); nothing if
  /// the operation has none.
  void choose_address(Operation& operation) const;
  std::size_t size() const { return size_; }
  std::size_t left() const { return out_.size() - size_; }
  /// Appends the head; there must be room for head_size().
  void put_head(const Operation& operation);
  /// Appends `data` and its padding; there must be room for padded() bytes.
  void put_data(std::span<const std::byte> data);

 private:
  std::span<std::byte> out_;
  std::size_t size_ = 0;
  bool has_base_ = false;
  Key base_key_{};
  std::uint64_t base_offset_ = 0;
};

}  // namespace mtl::transport

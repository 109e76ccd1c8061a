#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"

/// Frames in words, for reports. Made for any bytes: what a broken device sends is shown as far as
/// it can be. Reads the bytes by itself, so that a fault of link/codec does not hide itself.
namespace mtl::conformance {

struct DescribedField {
  std::string name;
  std::string value;
  friend bool operator==(const DescribedField&, const DescribedField&) = default;
};

/// The fields of an untagged frame in the order of the wire (protocol page, sections 1 to 4), CRCs
/// judged.
std::vector<DescribedField> describe(std::span<const std::byte> frame);

/// A field in which two frames differ; the value of a side that lacks it is empty.
struct FieldDifference {
  std::string name;
  std::string expected;
  std::string got;
  std::string rule;  ///< where to look first; empty: the field follows no rule of its own
  friend bool operator==(const FieldDifference&, const FieldDifference&) = default;
};
/// The fields in which two frames differ, in the order of the wire; none for equal ones.
std::vector<FieldDifference> differing_fields(std::span<const std::byte> expected,
                                              std::span<const std::byte> got);

/// One line: kind and the fields that tell frames of a kind apart.
std::string summary(std::span<const std::byte> frame);

/// Both frames field by field, a line each, "*" and the rule at those that differ; an absent frame
/// leaves its side empty. Each line begins with `indent`.
std::string side_by_side(const std::optional<std::vector<std::byte>>& expected,
                         const std::optional<std::vector<std::byte>>& got,
                         const std::string& indent);

/// What the header CRC of a frame of at least 30 bytes ought to be (L1), over what its own length
/// says is the body, as far as that is there.
std::uint32_t right_header_crc(std::span<const std::byte> frame);

/// "1.234567890 s" (nanoseconds in groups of three).
std::string time_text(Time at);

}  // namespace mtl::conformance

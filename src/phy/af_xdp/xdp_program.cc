#include "phy/af_xdp/xdp_program.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "link/codec.h"

namespace mtl::phy {
namespace {

constexpr std::uint16_t kVlanType = 0x8100;
constexpr std::int32_t kEnd = link::kEthernetHeader + link::kVlanTag;  ///< of what is looked at

/// Instructions with jumps to two places that are known only when all is written.
class Assembler {
 public:
  enum class Label : std::uint8_t { kNone, kOurs, kTake, kPass };

  void add(std::uint8_t code, unsigned to, unsigned from, std::int16_t offset, std::int32_t value,
           Label label = Label::kNone) {
    bpf_insn instruction{};
    instruction.code = code;
    instruction.dst_reg = to & 0xF;
    instruction.src_reg = from & 0xF;
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
    targets_.push_back(label);
  }
  /// Loads `size` (BPF_B, BPF_H, BPF_W) at [from + offset].
  void load(std::uint8_t size, unsigned to, unsigned from, std::size_t offset) {
    add(BPF_LDX | BPF_MEM | size, to, from, static_cast<std::int16_t>(offset), 0);
  }
  /// Jumps if the low half of the register compares so with a value.
  void jump_if(std::uint8_t comparison, unsigned of, std::uint32_t value, Label label) {
    add(static_cast<std::uint8_t>(BPF_JMP32 | comparison | BPF_K), of, 0, 0,
        static_cast<std::int32_t>(value), label);
  }
  /// Jumps over `skipped` instructions if the low half differs.
  void skip_unless(unsigned of, std::uint32_t value, std::int16_t skipped) {
    add(BPF_JMP32 | BPF_JNE | BPF_K, of, 0, skipped, static_cast<std::int32_t>(value));
  }
  void place(Label label) { places_[static_cast<std::size_t>(label)] = code_.size(); }

  std::vector<bpf_insn> finish() {
    for (std::size_t i = 0; i < code_.size(); ++i) {
      if (targets_[i] == Label::kNone) continue;
      const std::size_t place = places_[static_cast<std::size_t>(targets_[i])];
      code_[i].off = static_cast<std::int16_t>(place - i - 1);
    }
    return code_;
  }

 private:
  std::vector<bpf_insn> code_;
  std::vector<Label> targets_;
  std::size_t places_[4]{};
};

/// The value that a load of bytes in this order gives.
template <class T>
T as_loaded(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::vector<bpf_insn> instructions(std::uint16_t ether_type, const std::vector<Mac>& macs,
                                   int map) {
  using Label = Assembler::Label;
  // Registers: r1 the frame's record (xdp_md), r2 its first byte, r3 its end, r4 and r5 what is
  // looked at.
  Assembler a;
  a.load(BPF_W, 2, 1, offsetof(xdp_md, data));
  a.load(BPF_W, 3, 1, offsetof(xdp_md, data_end));
  a.add(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0);
  a.add(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, kEnd);
  a.add(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 0, 0, Label::kPass);
  a.load(BPF_H, 5, 2, 12);
  a.jump_if(BPF_JEQ, 5, htons(ether_type), Label::kOurs);
  a.jump_if(BPF_JNE, 5, htons(kVlanType), Label::kPass);
  a.load(BPF_H, 5, 2, 16);
  a.jump_if(BPF_JNE, 5, htons(ether_type), Label::kPass);
  a.place(Label::kOurs);
  a.load(BPF_B, 5, 2, 0);
  a.add(BPF_ALU64 | BPF_AND | BPF_K, 5, 0, 0, 1);
  a.jump_if(BPF_JNE, 5, 0, Label::kTake);  // to a group
  a.load(BPF_W, 5, 2, 0);
  a.load(BPF_H, 4, 2, 4);
  for (const Mac& mac : macs) {
    a.skip_unless(5, as_loaded<std::uint32_t>(mac.data()), 1);
    a.jump_if(BPF_JEQ, 4, as_loaded<std::uint16_t>(mac.data() + 4), Label::kTake);
  }
  a.place(Label::kPass);
  a.add(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, XDP_PASS);
  a.add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  a.place(Label::kTake);
  a.load(BPF_W, 2, 1, offsetof(xdp_md, rx_queue_index));
  a.add(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map);
  a.add(0, 0, 0, 0, 0);  // the upper half of the one before
  // What the map has no socket for goes on to the host.
  a.add(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS);
  a.add(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map);
  a.add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
  return a.finish();
}

Error refused(const std::string& what) {
  if (errno == EPERM || errno == EACCES)
    return Error{std::string("cannot be opened: AF_XDP needs ") + kAfXdpCapabilities};
  return Error{"cannot be opened: the kernel refuses " + what + " (" + std::strerror(errno) +
               "): it needs Linux 5.9 or later with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL"};
}

}  // namespace

const char* const kAfXdpCapabilities =
    "the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or `setcap "
    "cap_net_raw,cap_net_admin,cap_bpf+ep` the program, or AmbientCapabilities= in its unit";

Result<XdpProgram> XdpProgram::load(std::uint16_t ether_type, const std::vector<Mac>& macs) {
  XdpProgram out;
  out.map_ = Fd(bpf_map_create(BPF_MAP_TYPE_XSKMAP, "mtlink_queues", sizeof(std::uint32_t),
                               sizeof(std::uint32_t), 1, nullptr));
  if (!out.map_) return refused("a map of AF_XDP sockets");
  const std::vector<bpf_insn> code = instructions(ether_type, macs, out.map_.get());
  out.program_ =
      Fd(bpf_prog_load(BPF_PROG_TYPE_XDP, "mtlink", "BSD", code.data(), code.size(), nullptr));
  if (!out.program_) return refused("an XDP program");
  return out;
}

int XdpProgram::attach(int interface_index) {
  link_ = Fd(bpf_link_create(program_.get(), interface_index, BPF_XDP, nullptr));
  return link_ ? 0 : errno;
}

}  // namespace mtl::phy

-- Wireshark dissector of MTLink over Ethernet, version 1 (docs/wireshark.md).
--
-- Four protocols, one a layer: mtlink (section 2 and 3 of the protocol page), mtnet (4), mtecho (N11) and
-- mttp (5). An expert info is named like the drop counter that a receiver would count, where there is one:
-- mtlink.bad_header_crc, mtlink.malformed, mtnet.wrong_class ...
--
-- Wireshark dissects a frame many times, the first time in the order of the capture. What frames mean for each
-- other (numbers, acks, credit, answers) is worked out in that first pass alone and kept in a note of the frame;
-- later passes print the note, and by then it also knows what came behind the frame.

local bxor, band, rshift = bit.bxor, bit.band, bit.rshift

-- 1. Names ------------------------------------------------------------------------------------------------

local DATA, STATUS, NACK, INIT, CLOSE = 0, 1, 2, 3, 4
local KINDS = { [DATA] = "DATA", [STATUS] = "STATUS", [NACK] = "NACK", [INIT] = "INIT", [CLOSE] = "CLOSE" }
local NO_CREDIT = 15  -- credit_vc of a frame that tells none
local CREDIT_VCS = { [0] = "VC 0", "VC 1", "VC 2", "VC 3", "VC 4", "VC 5", "VC 6", "VC 7", [NO_CREDIT] = "none" }
local VCS = 8
local LINK_HEADER, NET_HEADER, PACKET_CRC, TP_HEADER = 16, 12, 4, 16
local ETHERNET_HEADER = 14
local LONGEST_WINDOW, MOST_CELLS = 16384, 32767  -- L6
local MOST_DOUBTS = 16  -- acks in a row that look wrong; after that it is the capture that must have missed DATA

local CLASSES = { [0] = "request", [1] = "response" }
local TRANSPORT, ECHO = 1, 2
local PROTOS = { [1] = "transport", [2] = "echo", [3] = "collective", [4] = "datagram" }
local ECHO_REQUEST, ECHO_REPLY, ECHO_HOP_LIMIT, ECHO_UNREACHABLE = 1, 2, 3, 4
local ECHO_TYPES = { "request", "reply", "hop limit exceeded", "unreachable" }
local LINK_CLOSE_REASONS = { "disabled", "replay_exhausted" }

local OPEN, REJECT, TP_DATA, ACK, TP_CLOSE = 1, 2, 3, 4, 5
local TP_TYPES = { "OPEN", "REJECT", "DATA", "ACK", "CLOSE" }
local REJECT_REASONS = { [0] = "no such connection", "no such endpoint, or it takes none", "wrong key", "no room",
  "id 0, or mtu below 128" }
local TP_CLOSE_REASONS = { "done", "protocol", "dead" }
local STATUSES = { [0] = "ok", "bad_key", "out_of_bounds", "no_permission", "misaligned", "unsupported", "too_long",
  "cancelled", "held" }
local ATOMIC_OPS = { [0] = "add", "swap", "compare-swap", "and", "or", "xor", "min", "max" }
local ATOMIC_TYPES = { [0] = "u32", "u64", "i32", "i64", "f32", "f64" }
local OPCODES = { [1] = "WRITE", [2] = "READ", [3] = "ATOMIC", [4] = "SEND", [5] = "SEND_DATA", [6] = "CANCEL",
  [16] = "RESULT", [17] = "REPORT", [18] = "CREDIT", [19] = "WANT", [20] = "DONE" }
local CRC_STATUS = { [0] = "bad", [1] = "good", [2] = "not captured whole" }
local CRC_BAD, CRC_GOOD, CRC_UNKNOWN = 0, 1, 2

-- 2. Protocols and fields ---------------------------------------------------------------------------------

local mtlink = Proto("mtlink", "MTLink Link")
local mtnet = Proto("mtnet", "MTLink Network")
local mtecho = Proto("mtecho", "MTLink Echo")
local mttp = Proto("mttp", "MTLink Transport")

mtlink.prefs.ethertypes = Pref.range("EtherTypes", "0x88b5", "EtherTypes of MTLink frames (P1: 0x88b5 unless "
  .. "configured otherwise)", 65535)
mtlink.prefs.check_crc = Pref.bool("Check packet CRCs", true, "Packet CRCs are computed in Lua; without it large "
  .. "captures load faster. Header CRCs are always checked.")
mtlink.prefs.transport = Pref.bool("Dissect the transport", true, "Take packets of proto 1 apart. Turn it off for "
  .. "captures, like the reference traces, whose packets of proto 1 hold something else.")

-- fields("mtlink", {...}) gives a table from the last part of a name, dots as '_', to its field. A row is {name, what,
-- type, base or mask ...}; the types:
local MAKE = {
  u8 = function(abbr, row) return ProtoField.uint8(abbr, row[2], row.base or base.DEC, row.names, row.mask) end,
  u16 = function(abbr, row) return ProtoField.uint16(abbr, row[2], row.base or base.DEC, row.names, row.mask) end,
  u32 = function(abbr, row) return ProtoField.uint32(abbr, row[2], row.base or base.DEC, row.names, row.mask) end,
  u64 = function(abbr, row) return ProtoField.uint64(abbr, row[2], row.base or base.HEX) end,
  i32 = function(abbr, row) return ProtoField.int32(abbr, row[2], base.DEC) end,
  flag = function(abbr, row) return ProtoField.bool(abbr, row[2], 8, nil, row.mask) end,
  bytes = function(abbr, row) return ProtoField.bytes(abbr, row[2]) end,
  text = function(abbr, row) return ProtoField.string(abbr, row[2]) end,
  time = function(abbr, row) return ProtoField.relative_time(abbr, row[2]) end,
  frame = function(abbr, row) return ProtoField.framenum(abbr, row[2], base.NONE, row.kind or frametype.NONE) end,
}

local IS_TIME = {}  -- fields whose values are times
local function fields(proto, prefix, rows)
  local made, list = {}, {}
  for _, row in ipairs(rows) do
    local field = MAKE[row[3]](prefix .. "." .. row[1], row)
    made[row[1]:gsub("%.", "_")] = field
    IS_TIME[field] = row[3] == "time" or nil
    list[#list + 1] = field
  end
  proto.fields = list
  return made
end

-- The eight fields of something that there is once for each VC.
local function each_vc(rows, name, what)
  for vc = 0, VCS - 1 do rows[#rows + 1] = { name .. vc, what .. " of VC " .. vc, "u16" } end
  return rows
end

local L = fields(mtlink, "mtlink", each_vc(each_vc({
  { "version", "Version", "u8", mask = 0xf0 },
  { "kind", "Kind", "u8", mask = 0x0f, names = KINDS },
  { "epoch", "Epoch", "u8" },
  { "length", "Length of body", "u16" },
  { "seq", "Seq", "u16" },
  { "ack", "Ack", "u16" },
  { "vc", "VC", "u8", mask = 0xf0 },
  { "credit_vc", "VC of the credit", "u8", mask = 0x0f, names = CREDIT_VCS },
  { "flags", "Flags", "u8", base = base.HEX },
  { "flags.replay", "REPLAY: was sent before", "flag", mask = 0x01 },
  { "flags.echo", "ECHO: t_echo is valid", "flag", mask = 0x02 },
  { "flags.poll", "POLL: answer with a STATUS", "flag", mask = 0x04 },
  { "credit", "Credit: allocation of that VC", "u16" },
  { "header_crc", "Header CRC", "u32", base = base.HEX },
  { "header_crc.status", "Header CRC status", "u8", names = CRC_STATUS },
  { "padding", "Padding", "bytes" },
  { "body", "Body", "bytes" },
  { "init.nonce", "Nonce", "u32", base = base.HEX },
  { "init.peer_nonce", "Peer's nonce", "u32", base = base.HEX },
  { "init.node", "Node", "u16" },
  { "init.port", "Port", "u16" },
  { "init.mtu", "MTU", "u16" },
  { "init.epoch", "Epoch that frames to the sender must carry", "u8" },
  { "init.vcs", "VCs", "u8" },
  { "init.cell", "Cell, bytes that one credit pays for", "u16" },
  { "init.window", "Window, DATA frames", "u16" },
  { "init.capabilities", "Capabilities", "u32", base = base.HEX },
  { "init.peer_in", "The peer's INIT with that nonce", "frame", kind = frametype.REQUEST },
  { "init.taken_in", "Taken by the peer in", "frame", kind = frametype.RESPONSE },
  { "status.t_tx", "t_tx, the sender's clock, ns", "u32" },
  { "status.t_echo", "t_echo, ns", "u32" },
  { "status.poll_in", "Answers the POLL in", "frame", kind = frametype.REQUEST },
  { "status.answer_in", "POLL answered in", "frame", kind = frametype.RESPONSE },
  { "status.answer_time", "Time since the POLL", "time" },
  { "status.echo_of", "t_echo is of the STATUS in", "frame", kind = frametype.REQUEST },
  { "status.round_trip", "Round trip from here to the sender and back", "time" },
  { "nack.range", "Range", "text" },
  { "nack.first", "First", "u16" },
  { "nack.count", "Count", "u16" },
  { "nack.frames", "Frames listed", "u32" },
  { "nack.of", "Lists the DATA in", "frame" },
  { "close.reason", "Reason", "u8", names = LINK_CLOSE_REASONS },
  { "close.zero", "Zeros", "bytes" },
  { "link", "Link", "u32" },
  { "session", "Session of the link", "u32" },
  { "sender", "Sender", "text" },
  { "receiver", "Receiver", "text" },
  { "first_sent_in", "First sent in", "frame", kind = frametype.DUP_ACK },
  { "first_sent_time", "Time since it was first sent", "time" },
  { "nacked_in", "Listed by the NACK in", "frame", kind = frametype.REQUEST },
  { "sent_again_in", "Sent again in", "frame", kind = frametype.DUP_ACK },
  { "acked_in", "Acknowledged in", "frame", kind = frametype.ACK },
  { "acks", "Acknowledges DATA up to the one in", "frame", kind = frametype.ACK },
  { "acks.count", "DATA frames newly acknowledged", "u32" },
  { "acks.time", "Time since that DATA", "time" },
  { "unacknowledged", "DATA frames unacknowledged", "u32" },
  { "cells", "Cells of the packet", "u32" },
  { "credit_left", "Cells left on its VC", "u32" },
  { "gap.count", "DATA frames missing before this", "u32" },
  { "stall.vc", "Credit comes back to VC", "u8" },
  { "stall.since", "It had run out in", "frame" },
  { "stall.time", "Time without credit", "time" },
}, "init.capacity", "Capacity in cells"), "status.allocation", "Allocation"))

local N = fields(mtnet, "mtnet", {
  { "hop_limit", "Hop limit", "u8" },
  { "flags", "Flags", "u8", base = base.HEX },
  { "flags.ce", "CE: congestion experienced", "flag", mask = 0x01 },
  { "class", "Class", "u8", mask = 0xf0, names = CLASSES },
  { "proto", "Proto", "u8", mask = 0x0f, names = PROTOS },
  { "zero", "Zero", "u8" },
  { "dst", "Destination node", "u16" },
  { "src", "Source node", "u16" },
  { "node", "Source or destination node", "u16" },
  { "entropy", "Entropy", "u16", base = base.HEX },
  { "partition", "Partition", "u16" },
  { "layer", "Layer of the VC", "u8" },
  { "length", "Length of packet", "u32" },
  { "payload", "Payload", "bytes" },
  { "crc", "Packet CRC", "u32", base = base.HEX },
  { "crc.status", "Packet CRC status", "u8", names = CRC_STATUS },
})

local E = fields(mtecho, "mtecho", {
  { "type", "Type", "u8", names = ECHO_TYPES },
  { "code", "Code", "u8" },
  { "id", "Id", "u16" },
  { "number", "Number", "u16" },
  { "zero", "Zeros", "u16" },
  { "data", "Data", "bytes" },
  { "request_in", "Answers the request in", "frame", kind = frametype.REQUEST },
  { "reply_in", "Answered in", "frame", kind = frametype.RESPONSE },
  { "time", "Time since the request", "time" },
  { "dropped", "Dropped packet", "bytes" },
  { "dropped.hop_limit", "Its hop limit", "u8" },
  { "dropped.class", "Its class", "u8", mask = 0xf0, names = CLASSES },
  { "dropped.proto", "Its proto", "u8", mask = 0x0f, names = PROTOS },
  { "dropped.dst", "Its destination node", "u16" },
  { "dropped.src", "Its source node", "u16" },
  { "dropped.entropy", "Its entropy", "u16", base = base.HEX },
  { "dropped.partition", "Its partition", "u16" },
})

local T = fields(mttp, "mttp", {
  { "type", "Type", "u8", mask = 0xf0, names = TP_TYPES },
  { "flags", "Flags", "u8", mask = 0x0f, base = base.HEX },
  { "flags.response", "RESPONSE: speaks of the response flow", "flag", mask = 0x01 },
  { "flags.unordered", "UNORDERED: may execute on arrival", "flag", mask = 0x02 },
  { "flags.ask", "ASK: answer at once", "flag", mask = 0x04 },
  { "window", "Window, as a power of two", "u8", mask = 0x0f },
  { "marks", "Marks", "u16" },
  { "connection", "Connection, the receiver's id", "u32", base = base.HEX },
  { "psn", "PSN", "u32" },
  { "ack", "Ack", "u32" },
  { "stream", "Connection number", "u32" },
  { "open.id", "Id, the sender's", "u32", base = base.HEX },
  { "open.endpoint", "Endpoint of the sender", "u16" },
  { "open.peer", "Endpoint of the receiver", "u16" },
  { "open.mtu", "MTU", "u16" },
  { "open.reads", "Reads outstanding at most", "u16" },
  { "open.psn", "First PSN", "u32" },
  { "open.messages", "Messages", "u32" },
  { "open.eager", "Eager, bytes", "u32" },
  { "open.options", "Options", "u32", base = base.HEX },
  { "open.key", "Key", "u64" },
  { "open.padding", "Padding to the mtu", "bytes" },
  { "request_in", "Answers the packet in", "frame", kind = frametype.REQUEST },
  { "answer_in", "Answered in", "frame", kind = frametype.RESPONSE },
  { "answer_time", "Time since then", "time" },
  { "reject.reason", "Reason", "u8", names = REJECT_REASONS },
  { "reject.id", "Id", "u32", base = base.HEX },
  { "close.reason", "Reason", "u8", names = TP_CLOSE_REASONS },
  { "zero", "Zeros", "bytes" },
  { "ack.held", "Held, ns", "u32" },
  { "ack.bitmap", "Bitmap", "u32", base = base.HEX },
  { "ack.arrived", "Arrived beyond ack", "u32" },
  { "ack.psn_in", "The DATA that arrived last is in", "frame", kind = frametype.REQUEST },
  { "ack.psn_time", "Time since that DATA", "time" },
  { "acked_in", "Acknowledged in", "frame", kind = frametype.ACK },
  { "acks", "Acknowledges DATA up to the one in", "frame", kind = frametype.ACK },
  { "acks.count", "DATA packets newly acknowledged", "u32" },
  { "acks.time", "Time since that DATA", "time" },
  { "first_sent_in", "First sent in", "frame", kind = frametype.DUP_ACK },
  { "first_sent_time", "Time since it was first sent", "time" },
  { "sent_again_in", "Sent again in", "frame", kind = frametype.DUP_ACK },
  { "other_hop_in", "The same packet at another hop, in", "frame" },
  { "gap.count", "DATA packets missing before this", "u32" },
  { "op", "Operation", "text" },
  { "op.index", "Index", "u8" },
  { "op.opcode", "Opcode", "u8", names = OPCODES },
  { "op.flags", "Flags", "u8", base = base.HEX },
  { "op.flags.near", "NEAR", "flag", mask = 0x01 },
  { "op.flags.at", "AT", "flag", mask = 0x01 },
  { "op.flags.imm", "IMM", "flag", mask = 0x02 },
  { "op.flags.fail", "FAIL", "flag", mask = 0x02 },
  { "op.flags.fetch", "FETCH", "flag", mask = 0x04 },
  { "op.flags.tag", "TAG", "flag", mask = 0x08 },
  { "op.flags.total", "TOTAL", "flag", mask = 0x10 },
  { "op.flags.offer", "OFFER", "flag", mask = 0x20 },
  { "op.flags.complete", "COMPLETE", "flag", mask = 0x40 },
  { "op.flags.wanted", "WANTED", "flag", mask = 0x80 },
  { "op.length", "Length of data", "u16" },
  { "op.key", "Key", "u64" },
  { "op.offset", "Offset", "u64" },
  { "op.delta", "Delta to the last full address", "i32" },
  { "op.total", "Total", "u32" },
  { "op.id", "Id", "u32" },
  { "op.atomic", "Atomic operation", "u8", names = ATOMIC_OPS },
  { "op.atomic_type", "Type of operands", "u8", names = ATOMIC_TYPES },
  { "op.zero", "Zeros", "u16" },
  { "op.tag", "Tag", "u64" },
  { "op.imm", "Immediate", "u64" },
  { "op.at", "At", "u32" },
  { "op.psn", "PSN of the DATA reported on", "u32" },
  { "op.limit", "Limit", "u32" },
  { "op.status", "Status", "u32", names = STATUSES },
  { "op.data", "Data", "bytes" },
  { "op.padding", "Padding", "bytes" },
  { "op.message", "Number of the message", "u32" },
  { "op.report", "Reported", "text" },
  { "op.report.index", "Index of the operation", "u8" },
  { "op.report.status", "Status", "u8", names = STATUSES },
  { "op.request_in", "Belongs to the operation in", "frame", kind = frametype.REQUEST },
  { "op.answer_in", "Answered in", "frame", kind = frametype.RESPONSE },
  { "op.time", "Time since that operation", "time" },
})

-- Expert infos: {name, summary, group, severity}; the text of each says more. Those that make a bring-up engineer look
-- twice are marked by their name in the column Info as well.
local UNMARKED = { deviation = true, truncated = true, stall = true }
local function experts(proto, prefix, rows, layer)
  local made, list = {}, {}
  for _, row in ipairs(rows) do
    local info = ProtoExpert.new(prefix .. "." .. row[1], row[2], expert.group[row[3]], expert.severity[row[4]])
    local marked = row[4] ~= "CHAT" and not UNMARKED[row[1]]
    made[row[1]] = { info = info, mark = marked and "[" .. (layer or "") .. row[1]:gsub("_", " ") .. "]" or nil }
    list[#list + 1] = info
  end
  proto.experts = list
  return made
end

local LX = experts(mtlink, "mtlink", {
  { "malformed", "Malformed frame (L3)", "MALFORMED", "ERROR" },
  { "bad_header_crc", "Bad header CRC (L1)", "CHECKSUM", "ERROR" },
  { "bad_packet_crc", "Bad packet CRC (N2)", "CHECKSUM", "ERROR" },
  { "truncated", "Not captured whole", "UNDECODED", "NOTE" },
  { "unordered", "Earlier than a frame in front of it", "SEQUENCE", "WARN" },
  { "stale", "Epoch of another session (L3)", "SEQUENCE", "WARN" },
  { "epoch_changed", "Another epoch, and its INIT is not in the capture", "SEQUENCE", "NOTE" },
  { "bad_ack", "Ack beyond what was sent (L16)", "SEQUENCE", "WARN" },
  { "old_ack", "Ack behind the last one: ignored (L16)", "SEQUENCE", "NOTE" },
  { "gap", "Gap in the sequence", "SEQUENCE", "WARN" },
  { "replay", "Frame sent again (L17)", "SEQUENCE", "NOTE" },
  { "duplicate", "Frame twice, without the flag REPLAY", "SEQUENCE", "WARN" },
  { "out_of_window", "Beyond the window (L11)", "SEQUENCE", "WARN" },
  { "window_full", "Window full (L10)", "SEQUENCE", "NOTE" },
  { "over_credit", "Beyond the allocation of its VC (L22)", "SEQUENCE", "WARN" },
  { "no_credit", "Credit of the VC used up (L21)", "SEQUENCE", "NOTE" },
  { "poll", "Asks for a STATUS: lacks credit, or has heard nothing (L21)", "SEQUENCE", "WARN" },
  { "stall", "Credit comes back (L21)", "SEQUENCE", "NOTE" },
  { "nack", "Frames are missing (L15)", "SEQUENCE", "WARN" },
  { "nack_empty", "Range of no frames: ignored (L17)", "PROTOCOL", "NOTE" },
  { "bring_up", "A bring-up begins (L4)", "SEQUENCE", "CHAT" },
  { "up", "First frame of the session from this side", "SEQUENCE", "CHAT" },
  { "incompatible", "INIT that is refused (L6)", "PROTOCOL", "ERROR" },
  { "looped", "INIT with the receiver's own nonce (L5)", "PROTOCOL", "WARN" },
  { "other_peer", "INIT of another node or port than before", "PROTOCOL", "WARN" },
  { "short_padding", "INIT not padded to the longest DATA (P4)", "PROTOCOL", "WARN" },
  { "close", "The link goes down (L8)", "SEQUENCE", "WARN" },
  { "deviation", "The sender breaks a rule; receivers do not mind", "PROTOCOL", "NOTE" },
})

local NX = experts(mtnet, "mtnet", {
  { "wrong_class", "VC and class do not belong together (N1)", "PROTOCOL", "WARN" },
  { "bad_node", "No node has this id (N3)", "PROTOCOL", "WARN" },
  { "last_hop", "Hop limit used up: dropped unless this hop is the last (N6)", "SEQUENCE", "NOTE" },
  { "congestion", "Congestion experienced (N12)", "SEQUENCE", "NOTE" },
  { "deviation", "The sender breaks a rule; receivers do not mind", "PROTOCOL", "NOTE" },
})

local EX = experts(mtecho, "mtecho", {
  { "short", "No echo: less than 8 bytes (N11)", "MALFORMED", "NOTE" },
  { "unknown_type", "No type of an echo (N11)", "PROTOCOL", "NOTE" },
  { "error", "A packet was dropped on its way (N11)", "RESPONSE_CODE", "WARN" },
}, "echo ")

local TX = experts(mttp, "mttp", {
  { "malformed", "Malformed packet (T3)", "MALFORMED", "ERROR" },
  { "bad_operation", "Operation that ends the connection (T16)", "MALFORMED", "ERROR" },
  { "unsupported", "Atomic that is unsupported (T30)", "PROTOCOL", "WARN" },
  { "gap", "Gap in the PSNs", "SEQUENCE", "NOTE" },
  { "sent_again", "Packet sent again (T11)", "SEQUENCE", "NOTE" },
  { "rejected", "Rejected (T5, T9)", "RESPONSE_CODE", "WARN" },
  { "close", "The connection ends (T10)", "SEQUENCE", "NOTE" },
  { "report", "Operations failed, or messages are held (T28)", "RESPONSE_CODE", "WARN" },
  { "fail", "A READ or ATOMIC failed (T29)", "RESPONSE_CODE", "WARN" },
  { "deviation", "The sender breaks a rule; receivers do not mind", "PROTOCOL", "NOTE" },
}, "transport ")

-- What tells links apart that join the same two addresses (P3). Fields can be read only while a frame has a tree, which
-- the first pass makes only if somebody needs it: a listener with a filter does. `tshark -2` makes none but for -Y or -R;
-- without it addresses alone tell links apart.
local frame_interface = Field.new("frame.interface_id")
local vlan_id = Field.new("vlan.id")
local asks_for_a_tree = Listener.new("frame", "vlan")

local UNKNOWN_PEER = Address.ether("03:4d:54:4c:00:01")  -- P2: where frames go until the peer is known

-- 3. Numbers ----------------------------------------------------------------------------------------------

local M16, M32 = 65536, 4294967296

-- How far b is ahead of a, modulo m; negative if behind (serial arithmetic).
local function ahead(a, b, m)
  local d = (b - a) % m
  return d < m / 2 and d or d - m
end

local function u8(s, at) return (s:byte(at + 1)) end
local function u16(s, at)
  local a, b = s:byte(at + 1, at + 2)
  return a * 256 + b
end
local function u32(s, at)
  local a, b, c, d = s:byte(at + 1, at + 4)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- CRC_STEP[256 * a + b]: what a byte b adds to a CRC whose low byte is a. (A table of all pairs, as calls cost more than
-- memory here.)
local CRC_STEP = {}
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    local low = band(crc, 1)
    crc = rshift(crc, 1)
    if low == 1 then crc = bxor(crc, 0x82F63B78) end
  end
  for a = 0, 255 do CRC_STEP[256 * a + bxor(a, i)] = crc % M32 end
end

local function crc_step(crc, byte)
  local low = crc % 256
  return bxor((crc - low) / 256, CRC_STEP[256 * low + byte]) % M32
end

-- CRC-32C of the strings, one behind the other.
local function crc32c(...)
  local crc = M32 - 1
  for _, s in ipairs({ ... }) do
    local whole = #s - #s % 4
    for at = 1, whole, 4 do
      local a, b, c, d = s:byte(at, at + 3)
      crc = crc_step(crc_step(crc_step(crc_step(crc, a), b), c), d)
    end
    for at = whole + 1, #s do crc = crc_step(crc, s:byte(at)) end
  end
  return M32 - 1 - crc
end

local function plural(count, what) return count .. " " .. what .. (count == 1 and "" or "s") end

-- Nanoseconds as a value of a field.
local function span(ns) return NSTime.new(math.floor(ns / 1e9), ns % 1e9) end

-- Nanoseconds in words: 12.345 us.
local function duration(ns)
  local us = ns / 1e3
  if us < 1e3 then return string.format("%.3f us", us) end
  if us < 1e6 then return string.format("%.3f ms", us / 1e3) end
  return string.format("%.3f s", us / 1e6)
end

-- "3-5, 9": the ranges of a NACK in words.
local function ranges_text(ranges)
  local words = {}
  for i, range in ipairs(ranges) do
    if i > 6 then
      words[#words + 1] = string.format("... (%d ranges)", #ranges)
      break
    end
    local last = (range.first + range.count - 1) % M16
    if range.count == 0 then
      words[#words + 1] = range.first .. " (none)"
    elseif range.count == 1 then
      words[#words + 1] = tostring(range.first)
    else
      words[#words + 1] = range.first .. "-" .. last
    end
  end
  return table.concat(words, ", ")
end

-- 4. Notes ------------------------------------------------------------------------------------------------

local state

-- What is known of a frame beside its bytes; any later frame of the first pass may add to it. There is one for each frame
-- of the capture, so it is kept small: by layer (or number of an operation) a flat list, field and value by turns, and, if
-- there is something to find, another in `findings`, expert info and text by turns. Times are nanoseconds.
local function new_note(number) return { number = number } end

local function append(lists, layer, first, second)
  local list = lists[layer]
  if not list then
    lists[layer] = { first, second }
    return
  end
  local count = #list
  list[count + 1], list[count + 2] = first, second
end

local function tell(note, layer, field, value) append(note, layer, field, value) end

local function find(note, layer, what, ...)
  note.findings = note.findings or {}
  append(note.findings, layer, what, string.format(...))
end

-- Puts one finding into the tree, and its mark into the column Info.
local function say(frame, tree, what, ...)
  tree:add_proto_expert_info(what.info, string.format(...))
  if what.mark and not frame.marked[what.mark] then
    frame.marked[what.mark] = true
    frame.marks[#frame.marks + 1] = what.mark
  end
end

-- Adds what is not in the frame but was worked out.
local function add_worked_out(tree, field, value) return tree:add(field, value):set_generated() end

local function show_note(frame, tree, layer)
  local items, findings = frame.note[layer] or {}, frame.note.findings and frame.note.findings[layer] or {}
  for i = 1, #items, 2 do
    add_worked_out(tree, items[i], IS_TIME[items[i]] and span(items[i + 1]) or items[i + 1])
  end
  for i = 1, #findings, 2 do say(frame, tree, findings[i], "%s", findings[i + 1]) end
end

local function add_flags(tree, tvb, at, all, ...)
  local item = tree:add(all, tvb(at, 1))
  for _, field in ipairs({ ... }) do item:add(field, tvb(at, 1)) end
  return item
end

-- 5. Links, their ways and sessions -----------------------------------------------------------------------------

-- A link is two ways, each other's `peer`. directions: by interface, source and target; anywhere: by source and target
-- alone; latest: the way that a source used last, by interface and source.
local function new_state()
  return { notes = {}, directions = {}, anywhere = {}, latest = {}, links = 0, latest_time = 0, echoes = {},
    ids = {}, streams = 0 }
end

-- One way starts anew: what its sender sends, and what it has been told. whole: it is seen from its start, so that seq
-- and credit began at 0.
local function start(way, whole)
  way.next = whole and 0 or nil       -- seq of the next new DATA
  way.una = whole and 0 or nil        -- the oldest seq not acknowledged
  way.reach = way.next                -- the furthest that E of the receiver can be: all DATA before it has been seen good
  way.sent = {}                       -- by seq
  way.jumped = nil                    -- seq of the last DATA, if it was beyond the window
  way.doubts = 0                      -- acks of the peer in a row that look wrong
  way.missing = {}                    -- seqs that were passed over
  way.missing_count = 0
  way.exact = whole                   -- all use of credit is known
  way.used, way.limit, way.empty = {}, {}, {}
  for vc = 0, VCS - 1 do way.used[vc], way.limit[vc] = 0, 0 end
  way.poll = nil                      -- its STATUS with POLL that waits for an answer
  way.statuses = {}                   -- its last ones, newest first
  way.heard = false                   -- a frame of the session was seen
  way.epoch = nil                     -- that its frames carry
end

local function new_way()
  local way = {}
  start(way, false)
  return way
end

-- A new link of two ways.
local function join(a, b)
  local link = { number = state.links, session = 1, used = false }
  state.links = state.links + 1
  a.peer, b.peer, a.link, b.link = b, a, link, link
end

-- The way that frames of this source have used without a known target, to be one of a link now; or a new one.
local function spare_way(source)
  local way = state.latest[source]
  return way and not way.peer and way or new_way()
end

-- The way of a frame between two known addresses. Both ways of a link are made at once. A tap may give the two ways of
-- one link on two interfaces: then the one of the other interface is taken, if nothing was seen of it there.
local function way_between(place, from, to)
  local way = state.directions[place .. from .. ">" .. to]
  if way then return way end
  local elsewhere = state.anywhere[from .. ">" .. to]
  local waiting = state.latest[place .. from]
  if elsewhere and not elsewhere.seen then
    way = elsewhere
    way.init = way.init or waiting and waiting.init
  else
    way = spare_way(place .. from)
    local back = spare_way(place .. to)
    join(way, back)
    state.directions[place .. to .. ">" .. from] = back
    state.anywhere[to .. ">" .. from] = back
  end
  state.directions[place .. from .. ">" .. to] = way
  state.anywhere[from .. ">" .. to] = way
  return way
end

-- The way of its link that this frame goes, made if it is new.
local function way_of(pinfo)
  local vlans = {}
  for _, field in ipairs({ vlan_id() }) do vlans[#vlans + 1] = field.value end
  local vlan = table.concat(vlans, ".") .. "/"
  local interface = frame_interface()
  local place = (interface and interface.value or 0) .. "|"
  local from, to = tostring(pinfo.dl_src), tostring(pinfo.dl_dst)
  local way
  if pinfo.dl_dst == UNKNOWN_PEER then
    way = state.latest[place .. vlan .. from] or new_way()
  else
    way = way_between(place, vlan .. from, vlan .. to)
  end
  way.seen = true
  state.latest[place .. vlan .. from] = way
  return way
end

-- A session begins: both ways start anew.
local function restart(way)
  local link = way.link
  start(way, true)
  if not link then return end
  start(way.peer, true)
  if link.used then link.session = link.session + 1 end
  link.used = false
end

local function name_of(way)
  local init = way and way.init
  return init and string.format("node %d port %d", init.node, init.port) or nil
end

-- 6. The link layer: what a frame means (first pass) --------------------------------------------------------------

-- Why L6 refuses an INIT, or nil.
local function refusal(init)
  local sum = 0
  for vc = 0, VCS - 1 do sum = sum + init.capacity[vc] end
  if init.vcs ~= VCS then return "vcs is not 8" end
  if init.cell == 0 then return "cell is 0" end
  if init.window == 0 or init.window > LONGEST_WINDOW then return "window is not 1 to 16384" end
  if init.epoch == 0 then return "epoch is 0" end
  if init.nonce == 0 then return "nonce is 0" end
  if init.mtu < 64 then return "mtu is below 64" end
  if sum > MOST_CELLS then return "the capacities sum to " .. sum .. ", more than 32767" end
end

-- The peer has shown that it took the INIT that was in doubt.
local function take_pending(way)
  way.init, way.pending = way.pending, nil
  restart(way)
end

-- An INIT with a nonce that names the peer's: it has taken the peer's INIT.
local function answer_init(way, init, note)
  local peer = way.peer
  if not peer or init.peer_nonce == 0 then return end
  if peer.pending and peer.pending.nonce == init.peer_nonce then take_pending(peer) end
  local asked = peer.init
  if not asked or asked.nonce ~= init.peer_nonce then return end
  tell(note, "link", L.init_peer_in, asked.note.number)
  if not asked.taken then
    asked.taken = true
    tell(asked.note, "link", L.init_taken_in, note.number)
  end
  local mtu = math.min(init.mtu, asked.mtu)
  if init.wire_length < LINK_HEADER + mtu then
    find(note, "link", LX.short_padding, "%d bytes, not the %d of the longest DATA (link mtu %d): a path that loses long "
      .. "frames is not noticed (P4)", init.wire_length + ETHERNET_HEADER, LINK_HEADER + mtu + ETHERNET_HEADER, mtu)
  end
end

local function observe_init(way, init, note)
  local peer, before = way.peer, way.init
  local fault = refusal(init)
  if fault then return find(note, "link", LX.incompatible, "Refused: %s (L6)", fault) end
  if peer and peer.init and peer.init.nonce == init.nonce then
    return find(note, "link", LX.looped, "Nonce 0x%08x is the receiver's own: is the cable looped? (L5)", init.nonce)
  end
  if before and before.nonce == init.nonce then
    init.taken = before.taken
    way.init = init
  elseif before and way.link and way.link.used and (before.node ~= init.node or before.port ~= init.port) then
    find(note, "link", LX.other_peer, "Node %d port %d; before it was node %d port %d. A receiver that expects that one "
      .. "ignores this INIT (wrong_peer)", init.node, init.port, before.node, before.port)
    way.pending = init
    return
  else
    find(note, "link", LX.bring_up, "A bring-up begins: nonce 0x%08x, frames to the sender must carry epoch %d",
      init.nonce, init.epoch)
    way.init, way.pending = init, nil
    restart(way)
  end
  answer_init(way, init, note)
end

-- seqs that were passed over: from `first` on, `count` of them.
local function pass_over(way, first, count, note, how)
  local last = (first + count - 1) % M16
  find(note, "link", LX.gap, "%s: %s before this frame %s not in the capture", how,
    count == 1 and "DATA " .. first or string.format("DATA %d to %d (%d frames)", first, last, count),
    count == 1 and "is" or "are")
  tell(note, "link", L.gap_count, count)
  if count > LONGEST_WINDOW then
    way.sent, way.exact = {}, false
    return
  end
  for i = 0, count - 1 do
    local seq = (first + i) % M16
    way.sent[seq] = nil
    if not way.missing[seq] then
      way.missing[seq] = true
      way.missing_count = way.missing_count + 1
    end
  end
end

local function found_missing(way, seq)
  if not way.missing[seq] then return false end
  way.missing[seq] = nil
  way.missing_count = way.missing_count - 1
  return true
end

-- Whether an ack beyond all DATA that was seen is to be believed, as the capture has missed DATA: because it is a capture
-- of one way only, because DATA did come from beyond the window, or because the peer insists.
local function believes(data, ack)
  data.doubts = data.doubts + 1
  local jumped = data.jumped and ahead(ack, data.jumped, M16) >= -1
  return not data.heard or jumped or data.doubts > MOST_DOUBTS
end

-- `ack` is about the DATA of the other way (L16). False if the frame is dropped for it.
local function take_ack(way, frame, note)
  local data, ack = way.peer, frame.ack
  if not data.una then
    data.una = ack
    return true
  end
  local count = ahead(data.una, ack, M16)
  if count < 0 and count > -M16 / 2 then
    find(note, "link", LX.old_ack, "Ack %d is behind %d, told before: ignored (L16)", ack, data.una)
    return true
  end
  if data.next and (count < 0 or ahead(data.next, ack, M16) > 0) then
    if not believes(data, ack) then
      find(note, "link", LX.bad_ack, "Ack %d, but the next new DATA of the receiver is %d: the frame is dropped whole "
        .. "(L16), unless the capture has missed DATA", ack, data.next)
      return false
    end
    data.una, data.next, data.reach, data.exact = ack, ack, ack, false
  end
  data.doubts = 0
  local newest
  for i = 0, count - 1 do
    local seq = (data.una + i) % M16
    local sent = data.sent[seq]
    if found_missing(data, seq) then data.exact = false end
    if sent and not sent.acked then
      sent.acked = true
      newest = sent
      tell(sent.note, "link", L.acked_in, note.number)
    end
  end
  data.una = ack
  if newest then
    tell(note, "link", L.acks, newest.number)
    tell(note, "link", L.acks_count, count)
    tell(note, "link", L.acks_time, frame.time - newest.time)
  end
  return true
end

-- The allocation of a VC, for the DATA of the other way (L21).
local function take_limit(way, frame, note, vc, limit)
  local data = way.peer
  if ahead(data.limit[vc], limit, M16) <= 0 then return end
  data.limit[vc] = limit
  local empty = data.empty[vc]
  if not empty then return end
  data.empty[vc] = nil
  tell(note, "link", L.stall_vc, vc)
  tell(note, "link", L.stall_since, empty.number)
  tell(note, "link", L.stall_time, frame.time - empty.time)
  find(note, "link", LX.stall, "VC %d has credit again, after %s without (used up in frame %d)", vc,
    duration(frame.time - empty.time), empty.number)
end

-- Counts the cells of a DATA against the limit of its VC, once (L17: sent again it uses none). False if they are too many.
local function use_credit(way, frame, note, sent)
  local to = way.peer.init
  if sent.counted or not to then return true end
  local cells = math.max(1, math.ceil(frame.length / to.cell))
  tell(note, "link", L.cells, cells)
  if not way.exact then return true end
  local left = (way.limit[frame.vc] - way.used[frame.vc] - cells) % M16
  if left >= M16 / 2 then
    find(note, "link", LX.over_credit, "VC %d: %s with %d left of what was told: dropped (L11), unless the receiver has "
      .. "freed room meanwhile", frame.vc, plural(cells, "cell"), (left + cells) % M16)
    return false
  end
  sent.counted = true
  way.used[frame.vc] = (way.used[frame.vc] + cells) % M16
  if way.missing_count > 0 then return true end
  tell(note, "link", L.credit_left, left)
  if left == 0 then
    way.empty[frame.vc] = { number = note.number, time = frame.time }
    find(note, "link", LX.no_credit, "VC %d has no credit left: the next packet waits", frame.vc)
  end
  return true
end

-- Whether a DATA that was sent could be accepted, as it stands in the capture.
local function takes(sent) return sent and not sent.damaged and not sent.refused end

local function sent_again(way, frame, note, sent)
  tell(note, "link", L.first_sent_in, sent.first)
  tell(note, "link", L.first_sent_time, frame.time - sent.first_time)
  tell(sent.note, "link", L.sent_again_in, note.number)
  if not frame.replay and not takes(sent) then
    find(note, "link", LX.deviation, "DATA %d stands in frame %d already, where it was not taken, and has no flag REPLAY",
      frame.seq, sent.number)
  elseif not frame.replay then
    find(note, "link", LX.duplicate, "DATA %d stands in frame %d already, and this one has no flag REPLAY: the network "
      .. "doubled it, or it was captured twice", frame.seq, sent.number)
  else
    local why = "no NACK lists it: the replay timer, or the NACK is not in the capture"
    if sent.nacked then
      why = "the NACK in frame " .. sent.nacked .. " lists it"
      tell(note, "link", L.nacked_in, sent.nacked)
    end
    find(note, "link", LX.replay, "DATA %d was first sent in frame %d, %s ago; %s%s", frame.seq, sent.first,
      duration(frame.time - sent.first_time), why, sent.acked and "; it is acknowledged already" or "")
  end
  sent.number, sent.time, sent.note, sent.nacked = note.number, frame.time, note, nil
end

-- Whether the packet in this DATA is seen for the first time.
local function observe_data(way, frame, note)
  local seq, to = frame.seq, way.peer.init
  if not way.next then
    way.next, way.reach = seq, seq
    way.una = way.una or seq
  end
  if ahead(way.una, way.reach, M16) < 0 then way.reach = way.una end
  local beyond = (seq - way.reach) % M16
  if to and beyond >= to.window and beyond <= M16 / 2 then
    find(note, "link", LX.out_of_window, "DATA %d, but the receiver lacks %d and has a window of %d: dropped (L11)", seq,
      way.reach, to.window)
    way.jumped = seq
    return false
  end
  way.jumped = nil
  local distance = ahead(way.next, seq, M16)
  if distance > 0 then pass_over(way, way.next, distance, note, "Gap") end
  local sent = distance < 0 and way.sent[seq] or nil
  if not sent and distance < 0 and ahead(way.una, seq, M16) < 0 then
    find(note, "link", LX.duplicate, "DATA %d is behind %d, which is acknowledged: dropped (L11)", seq, way.una)
    return false
  end
  local first = not takes(sent)
  if sent then
    sent_again(way, frame, note, sent)
  else
    sent = { number = note.number, first = note.number, time = frame.time, first_time = frame.time, note = note }
    way.sent[seq] = sent
    found_missing(way, seq)
    if frame.replay then
      find(note, "link", LX.replay, "DATA %d again; its first copy is not in the capture", seq)
    end
  end
  if distance >= 0 then way.next = (seq + 1) % M16 end
  sent.damaged = frame.packet_crc == CRC_BAD
  sent.refused = not use_credit(way, frame, note, sent)
  while way.reach ~= way.next and takes(way.sent[way.reach]) do way.reach = (way.reach + 1) % M16 end
  local open = ahead(way.una, way.next, M16)
  if open >= 0 then tell(note, "link", L.unacknowledged, open) end
  if to and open == to.window and distance >= 0 then
    find(note, "link", LX.window_full, "%d DATA frames unacknowledged: all that the receiver's window allows", open)
  elseif to and open > to.window and distance >= 0 then
    find(note, "link", LX.deviation, "%d DATA frames unacknowledged, but the receiver's window is %d (L10)", open, to.window)
  end
  return first
end

-- seq of a STATUS or NACK: that of the next new DATA (L18, L14).
local function observe_seq(way, frame, note)
  local seq, to = frame.seq, way.peer.init
  if not way.next then
    way.next, way.reach = seq, seq
    way.una = way.una or seq
    return
  end
  local distance = ahead(way.next, seq, M16)
  if to and distance ~= 0 and ahead(way.next, way.reach, M16) <= 0 and (seq - way.reach) % M16 > to.window then
    find(note, "link", LX.deviation, "Seq %d is not that of the next new DATA, %d, nor within the window: nothing is learned "
      .. "from it (L14, L18)", seq, way.next)
  elseif distance > 0 then
    pass_over(way, way.next, distance, note, "Seq tells of a gap")
    way.next = seq
  elseif distance < 0 then
    find(note, "link", LX.deviation, "Seq %d is not that of the next new DATA, %d (L18)", seq, way.next)
  end
end

local function observe_nack(way, frame, note)
  local data, looked, told = way.peer, 0, 0
  for _, range in ipairs(frame.ranges) do
    for i = 0, range.count - 1 do
      looked = looked + 1
      if looked > LONGEST_WINDOW then return end
      local sent = data.sent[(range.first + i) % M16]
      if sent and not sent.acked then
        sent.nacked = note.number
        told = told + 1
        if told <= 32 then tell(note, "link", L.nack_of, sent.number) end
      end
    end
  end
end

-- t_echo tells which STATUS of the receiver it is of: the newest for which what is left of the time is not negative.
local function observe_echo(way, frame, note)
  for _, status in ipairs(way.peer.statuses) do
    local held = (frame.t_echo - status.t_tx) % M32
    local left = frame.time - status.time - held
    if left >= 0 then
      tell(note, "link", L.status_echo_of, status.number)
      tell(note, "link", L.status_round_trip, left)
      return
    end
  end
end

local function observe_status(way, frame, note)
  for vc = 0, VCS - 1 do take_limit(way, frame, note, vc, frame.allocation[vc]) end
  local poll = way.peer.poll
  if frame.poll then
    way.poll = { note = note, time = frame.time }
    find(note, "link", LX.poll, "POLL: the sender lacks credit, or has heard nothing of this session (L21)")
  elseif poll then
    tell(note, "link", L.status_poll_in, poll.note.number)
    tell(note, "link", L.status_answer_time, frame.time - poll.time)
    tell(poll.note, "link", L.status_answer_in, note.number)
    way.peer.poll = nil
  end
  if frame.echo then observe_echo(way, frame, note) end
  table.insert(way.statuses, 1, { number = note.number, time = frame.time, t_tx = frame.t_tx })
  way.statuses[5] = nil
end

-- Whether a frame belongs to the session of its link, as far as one can tell.
local function in_session(way, frame, note)
  local peer, link = way.peer, way.link
  local asked, pending = peer.init, peer.pending
  if pending and frame.epoch == pending.epoch and frame.epoch ~= asked.epoch then
    take_pending(peer)
    asked = pending
  end
  if asked and asked.epoch ~= frame.epoch then
    find(note, "link", LX.stale, "Epoch %d, but the receiver has asked for %d in frame %d: dropped (L3)", frame.epoch,
      asked.epoch, asked.note.number)
    return false
  end
  if not asked and way.epoch and way.epoch ~= frame.epoch then
    find(note, "link", LX.epoch_changed, "Epoch %d, before it was %d: a new session, whose INITs are not in the capture",
      frame.epoch, way.epoch)
    start(way, false)
    start(peer, false)
    link.session = link.session + 1
  end
  way.epoch = frame.epoch
  link.used = true
  return true
end

-- A frame whose shape and header CRC are good. Returns whether it brings a packet that was not seen before.
local function observe(way, frame, note)
  if frame.kind == INIT then
    observe_init(way, frame.init, note)
  elseif way.peer then
    if not in_session(way, frame, note) then return false end
    local to = way.peer.init
    if frame.kind == DATA and to and frame.length > to.mtu then
      find(note, "link", LX.malformed, "Length %d is more than the receiver's mtu, %d (L3)", frame.length, to.mtu)
      return false
    end
    if not way.heard then find(note, "link", LX.up, "The sender is UP: its first frame of the session") end
    way.heard = true
    if frame.kind == CLOSE then return false end
    if not take_ack(way, frame, note) then return false end
    if frame.credit_vc < VCS then take_limit(way, frame, note, frame.credit_vc, frame.credit) end
    if frame.kind == DATA then return observe_data(way, frame, note) end
    observe_seq(way, frame, note)
    if frame.kind == NACK then observe_nack(way, frame, note) else observe_status(way, frame, note) end
  end
  return false
end

-- 7. The link layer: bytes ----------------------------------------------------------------------------------------

local LEGAL_LENGTH = { [STATUS] = 24, [INIT] = 40, [CLOSE] = 4 }

-- Why L3 calls a frame malformed, or nil. What needs the receiver's mtu is looked at in observe().
local function shape_fault(frame)
  if frame.version ~= 1 then return "version " .. frame.version .. ", not 1" end
  if not KINDS[frame.kind] then return "unknown kind " .. frame.kind end
  if LINK_HEADER + frame.length > frame.wire_length then
    return string.format("length %d, but the frame has room for %d", frame.length, frame.wire_length - LINK_HEADER)
  end
  local legal = LEGAL_LENGTH[frame.kind]
  if legal and frame.length ~= legal then return string.format("length %d of %s, not %d", frame.length,
    KINDS[frame.kind], legal) end
  if frame.kind == DATA and frame.length < NET_HEADER + PACKET_CRC then return "DATA of less than 16 bytes" end
  if frame.kind == NACK and (frame.length % 4 ~= 0 or frame.length < 4 or frame.length > 128) then
    return "length " .. frame.length .. " of NACK, not 4 to 128 in fours"
  end
  if frame.vc >= VCS then return "VC " .. frame.vc end
  if frame.credit_vc >= VCS and frame.credit_vc ~= NO_CREDIT then return "VC " .. frame.credit_vc .. " of the credit" end
end

-- What the sender should not have done, though the receiver does not mind (L2, L23).
local function sender_fault(frame)
  if bit.rshift(frame.flags, 3) ~= 0 then return "reserved flags are set" end
  if frame.kind == DATA then return frame.flags > 1 and "flags that are for STATUS" end
  if frame.vc ~= 0 then return "VC of a frame other than DATA is not 0 (L2)" end
  if frame.credit_vc ~= NO_CREDIT or frame.credit ~= 0 then return "credit in a frame other than DATA (L2, L23)" end
  if frame.kind == STATUS then return frame.replay and "REPLAY is for DATA" end
  if frame.flags ~= 0 then return "flags of " .. KINDS[frame.kind] .. " are not 0" end
  if frame.kind == NACK then return false end
  if frame.seq ~= 0 or frame.ack ~= 0 then return "seq or ack of " .. KINDS[frame.kind] .. " is not 0 (L2)" end
  return frame.kind == INIT and frame.epoch ~= 0 and "epoch of INIT is not 0 (L2)"
end

-- The link header; `bytes` is what was captured of the frame from there on, at least 16 bytes.
local function read_header(frame, bytes)
  frame.version, frame.kind = rshift(u8(bytes, 0), 4), band(u8(bytes, 0), 15)
  frame.epoch, frame.length, frame.seq, frame.ack = u8(bytes, 1), u16(bytes, 2), u16(bytes, 4), u16(bytes, 6)
  frame.vc, frame.credit_vc = rshift(u8(bytes, 8), 4), band(u8(bytes, 8), 15)
  frame.flags, frame.credit, frame.crc = u8(bytes, 9), u16(bytes, 10), u32(bytes, 12)
  frame.replay = band(frame.flags, 1) ~= 0
  frame.echo = frame.kind == STATUS and band(frame.flags, 2) ~= 0
  frame.poll = frame.kind == STATUS and band(frame.flags, 4) ~= 0
  frame.fault = shape_fault(frame)
  if frame.fault then return end
  local covered = frame.kind == DATA and NET_HEADER or frame.length
  if #bytes < LINK_HEADER + covered then
    frame.header_crc = CRC_UNKNOWN
  else
    frame.computed = crc32c(bytes:sub(1, 12), bytes:sub(LINK_HEADER + 1, LINK_HEADER + covered))
    frame.header_crc = frame.computed == frame.crc and CRC_GOOD or CRC_BAD
  end
end

-- Bodies of the kinds that are captured whole; `b` is the body.
local READ_BODY = {
  [STATUS] = function(frame, b)
    frame.allocation = {}
    for vc = 0, VCS - 1 do frame.allocation[vc] = u16(b, 2 * vc) end
    frame.t_tx, frame.t_echo = u32(b, 16), u32(b, 20)
  end,
  [NACK] = function(frame, b)
    frame.ranges = {}
    for at = 0, frame.length - 4, 4 do
      frame.ranges[#frame.ranges + 1] = { first = u16(b, at), count = u16(b, at + 2) }
    end
  end,
  [INIT] = function(frame, b)
    local init = { nonce = u32(b, 0), peer_nonce = u32(b, 4), node = u16(b, 8), port = u16(b, 10), mtu = u16(b, 12),
      epoch = u8(b, 14), vcs = u8(b, 15), cell = u16(b, 16), window = u16(b, 18), capacity = {},
      note = frame.note, wire_length = frame.wire_length }
    for vc = 0, VCS - 1 do init.capacity[vc] = u16(b, 20 + 2 * vc) end
    frame.init = init
  end,
  [CLOSE] = function(frame, b) frame.reason = u8(b, 0) end,
}

local SHOW_BODY = {
  [STATUS] = function(frame, tree, tvb)
    for vc = 0, VCS - 1 do tree:add(L["status_allocation" .. vc], tvb(2 * vc, 2)) end
    tree:add(L.status_t_tx, tvb(16, 4))
    tree:add(L.status_t_echo, tvb(20, 4))
    local told = {}
    for vc = 0, VCS - 1 do told[#told + 1] = frame.allocation[vc] end
    return "allocation " .. table.concat(told, ",") .. (frame.poll and " POLL" or "")
  end,
  [NACK] = function(frame, tree, tvb)
    local frames = 0
    for i, range in ipairs(frame.ranges) do
      local item = tree:add(L.nack_range, tvb(4 * i - 4, 4), ranges_text({ range }))
      item:add(L.nack_first, tvb(4 * i - 4, 2))
      local count = item:add(L.nack_count, tvb(4 * i - 2, 2))
      if range.count == 0 then say(frame, count, LX.nack_empty, "A range of no frames: ignored (L17)") end
      frames = frames + range.count
    end
    local total = tree:add(L.nack_frames, frames):set_generated()
    local listed = ranges_text(frame.ranges)
    say(frame, total, LX.nack, "The sender misses %s: DATA %s", plural(frames, "frame"), listed)
    return "missing " .. listed
  end,
  [INIT] = function(frame, tree, tvb)
    local init = frame.init
    tree:add(L.init_nonce, tvb(0, 4))
    tree:add(L.init_peer_nonce, tvb(4, 4))
    tree:add(L.init_node, tvb(8, 2))
    tree:add(L.init_port, tvb(10, 2))
    tree:add(L.init_mtu, tvb(12, 2))
    tree:add(L.init_epoch, tvb(14, 1))
    tree:add(L.init_vcs, tvb(15, 1))
    tree:add(L.init_cell, tvb(16, 2))
    tree:add(L.init_window, tvb(18, 2))
    for vc = 0, VCS - 1 do tree:add(L["init_capacity" .. vc], tvb(20 + 2 * vc, 2)) end
    tree:add(L.init_capabilities, tvb(36, 4))
    return string.format("node %d port %d nonce %08x peer %s epoch %d mtu %d cell %d window %d", init.node, init.port,
      init.nonce, init.peer_nonce == 0 and "-" or string.format("%08x", init.peer_nonce), init.epoch, init.mtu, init.cell,
      init.window)
  end,
  [CLOSE] = function(frame, tree, tvb)
    local item = tree:add(L.close_reason, tvb(0, 1))
    tree:add(L.close_zero, tvb(1, 3))
    local why = LINK_CLOSE_REASONS[frame.reason] or "unknown reason " .. frame.reason
    say(frame, item, LX.close, "The sender's link has gone down: %s", why)
    return why
  end,
}

local function show_header(frame, tree, tvb)
  tree:add(L.version, tvb(0, 1))
  tree:add(L.kind, tvb(0, 1))
  tree:add(L.epoch, tvb(1, 1))
  tree:add(L.length, tvb(2, 2))
  tree:add(L.seq, tvb(4, 2))
  tree:add(L.ack, tvb(6, 2))
  tree:add(L.vc, tvb(8, 1))
  tree:add(L.credit_vc, tvb(8, 1))
  add_flags(tree, tvb, 9, L.flags, L.flags_replay, L.flags_echo, L.flags_poll)
  tree:add(L.credit, tvb(10, 2))
  local crc = tree:add(L.header_crc, tvb(12, 4))
  if frame.fault then
    say(frame, tree, LX.malformed, "Malformed: %s (L3)", frame.fault)
    return
  end
  add_worked_out(tree, L.header_crc_status, frame.header_crc)
  if frame.header_crc == CRC_BAD then
    say(frame, crc, LX.bad_header_crc, "Header CRC is 0x%08x, should be 0x%08x (L1): no field of this frame can be relied on",
      frame.crc, frame.computed)
  end
  local deviation = sender_fault(frame)
  if deviation then say(frame, tree, LX.deviation, "The sender breaks a rule: %s", deviation) end
end

-- What lies behind the body (P4).
local function show_padding(frame, tree, tvb)
  local from = LINK_HEADER + frame.length
  if tvb:len() <= from then return end
  local item = tree:add(L.padding, tvb(from))
  if tvb:raw(from):find("[^%z]") then say(frame, item, LX.deviation, "The padding is not zeros (P4)") end
end

-- Which link, which session of it, and who its ends are.
local function show_link_names(note, tree)
  if note.number_of_link then
    add_worked_out(tree, L.link, note.number_of_link)
    add_worked_out(tree, L.session, note.session)
  end
  if note.sender then add_worked_out(tree, L.sender, note.sender) end
  if note.receiver then add_worked_out(tree, L.receiver, note.receiver) end
end

local show_network  -- below

local function show_link(frame, tvb, root)
  local tree = root:add(mtlink, tvb(0, math.min(tvb:len(), LINK_HEADER + (frame.length or 0))))
  if frame.wire_length < LINK_HEADER then
    tree:add(L.body, tvb())
    say(frame, tree, LX.malformed, "Malformed: %d bytes, at least %d are needed (L3)", frame.wire_length + ETHERNET_HEADER,
      LINK_HEADER + ETHERNET_HEADER)
    return "too short"
  end
  if tvb:len() < LINK_HEADER then
    if tvb:len() > 0 then tree:add(L.body, tvb()) end
    say(frame, tree, LX.truncated, "Only %d bytes of the link header were captured", tvb:len())
    return "not captured whole"
  end
  show_header(frame, tree, tvb)
  local rest, body = tvb:len() - LINK_HEADER, nil
  if frame.fault then
    if rest > 0 then tree:add(L.body, tvb(LINK_HEADER)) end
    return "malformed: " .. frame.fault
  end
  tree:append_text(string.format(", %s", KINDS[frame.kind]))
  local head = KINDS[frame.kind]
  if frame.kind ~= INIT and frame.kind ~= CLOSE then
    tree:append_text(string.format(", seq %d, ack %d", frame.seq, frame.ack))
    head = string.format("%s seq %d ack %d", head, frame.seq, frame.ack)
  end
  if frame.kind == DATA then head = string.format("%s vc %d", head, frame.vc) end
  if rest < frame.length then
    say(frame, tree, LX.truncated, "%d of the %d bytes of the body were captured", rest, frame.length)
  end
  if frame.kind ~= DATA then
    if frame.body then
      body = SHOW_BODY[frame.kind](frame, tree, tvb(LINK_HEADER, frame.length):tvb())
    elseif rest > 0 then
      tree:add(L.body, tvb(LINK_HEADER))
    end
  end
  show_padding(frame, tree, tvb)
  show_note(frame, tree, "link")
  show_link_names(frame.note, tree)
  if frame.kind == DATA and rest > 0 then
    body = show_network(frame, tvb(LINK_HEADER, math.min(rest, frame.length)):tvb(), root)
  end
  return body and head .. " | " .. body or head
end

-- 8. Network and echo -----------------------------------------------------------------------------------------------

-- The packet of a DATA: `bytes` is what was captured of it, at least its network header; `length` what it has.
local function read_packet(bytes, length, check)
  local packet = { length = length, hop_limit = u8(bytes, 0), flags = u8(bytes, 1), class = rshift(u8(bytes, 2), 4),
    proto = band(u8(bytes, 2), 15), zero = u8(bytes, 3), dst = u16(bytes, 4), src = u16(bytes, 6),
    entropy = u16(bytes, 8), partition = u16(bytes, 10), crc_status = CRC_UNKNOWN }
  packet.payload_length = length - NET_HEADER - PACKET_CRC
  packet.payload = bytes:sub(NET_HEADER + 1, math.min(#bytes, length - PACKET_CRC))
  if #bytes >= length then
    packet.crc = u32(bytes, length - PACKET_CRC)
    if check then
      packet.computed = crc32c(bytes:sub(3, length - PACKET_CRC))
      packet.crc_status = packet.computed == packet.crc and CRC_GOOD or CRC_BAD
    end
  end
  return packet
end

local function read_echo(payload)
  if #payload < 8 then return nil end
  return { type = u8(payload, 0), id = u16(payload, 2), number = u16(payload, 4) }
end

-- How an echo request is found again: at its link, or anywhere.
local function echo_key(partition, src, dst, echo)
  return string.format("%d/%d/%d/%d/%d", partition, src, dst, echo.id, echo.number)
end

local function observe_answer(frame, note, key, link)
  local request = state.echoes[link .. key] or state.echoes[key]
  if not request then return end
  request.answered = true
  tell(note, "echo", E.request_in, request.note.number)
  tell(note, "echo", E.time, frame.time - request.time)
  tell(request.note, "echo", E.reply_in, note.number)
end

local function observe_echo_packet(frame, packet, note)
  local echo = read_echo(packet.payload)
  if not echo then return end
  local link = frame.way.link.number .. ":"
  if echo.type == ECHO_REQUEST then
    local key = echo_key(packet.partition, packet.src, packet.dst, echo)
    local request = { note = note, time = frame.time, crc = packet.crc }
    state.echoes[link .. key] = request
    local before = state.echoes[key]
    if not before or before.answered or before.crc ~= packet.crc then state.echoes[key] = request end
  elseif echo.type == ECHO_REPLY then
    observe_answer(frame, note, echo_key(packet.partition, packet.dst, packet.src, echo), link)
  elseif #packet.payload >= 8 + NET_HEADER then
    local dropped = packet.payload:sub(9)
    local inner = band(u8(dropped, 2), 15) == ECHO and read_echo(dropped:sub(NET_HEADER + 1))
    if inner and inner.type == ECHO_REQUEST then
      observe_answer(frame, note, echo_key(u16(dropped, 10), u16(dropped, 6), u16(dropped, 4), inner), link)
    end
  end
end

local function show_dropped(tree, tvb)
  local item = tree:add(E.dropped, tvb())
  if tvb:len() < NET_HEADER then return "" end
  item:add(E.dropped_hop_limit, tvb(0, 1))
  item:add(E.dropped_class, tvb(2, 1))
  item:add(E.dropped_proto, tvb(2, 1))
  item:add(E.dropped_dst, tvb(4, 2))
  item:add(E.dropped_src, tvb(6, 2))
  item:add(E.dropped_entropy, tvb(8, 2))
  item:add(E.dropped_partition, tvb(10, 2))
  local proto = band(tvb(2, 1):uint(), 15)
  return string.format(": %s %d -> %d", PROTOS[proto] or "proto " .. proto, tvb(6, 2):uint(), tvb(4, 2):uint())
end

local function show_echo(frame, tvb, root, packet)
  local tree = root:add(mtecho, tvb())
  if packet.payload_length < 8 then
    say(frame, tree, EX.short, "No echo: %d bytes, at least 8 are needed; it is delivered as it stands (N11)",
      packet.payload_length)
    return "no echo"
  end
  local echo = read_echo(packet.payload)
  if not echo then return "echo, not captured whole" end
  local type_item = tree:add(E.type, tvb(0, 1))
  tree:add(E.code, tvb(1, 1))
  tree:add(E.id, tvb(2, 2))
  tree:add(E.number, tvb(4, 2))
  tree:add(E.zero, tvb(6, 2))
  local more = ""
  if echo.type == ECHO_HOP_LIMIT or echo.type == ECHO_UNREACHABLE then
    if tvb:len() > 8 then more = show_dropped(tree, tvb(8):tvb()) end
    say(frame, type_item, EX.error, "Node %d dropped a packet%s: %s (N11)", packet.src, more, ECHO_TYPES[echo.type])
  else
    if tvb:len() > 8 then tree:add(E.data, tvb(8)) end
    more = string.format(" id %d number %d", echo.id, echo.number)
  end
  if not ECHO_TYPES[echo.type] then
    say(frame, type_item, EX.unknown_type, "Type %d is none of an echo; it is delivered as it stands (N11)", echo.type)
  end
  show_note(frame, tree, "echo")
  local what = ECHO_TYPES[echo.type] or "type " .. echo.type
  tree:append_text(", " .. what .. more)
  return "echo " .. what .. more
end

local show_transport  -- below

local function show_network_header(frame, tree, tvb, packet)
  local hops = tree:add(N.hop_limit, tvb(0, 1))
  local flags = add_flags(tree, tvb, 1, N.flags, N.flags_ce)
  local class = tree:add(N.class, tvb(2, 1))
  tree:add(N.proto, tvb(2, 1))
  tree:add(N.zero, tvb(3, 1))
  local ends = { { tree:add(N.dst, tvb(4, 2)), packet.dst }, { tree:add(N.src, tvb(6, 2)), packet.src } }
  tree:add(N.node, tvb(4, 2)):set_hidden()
  tree:add(N.node, tvb(6, 2)):set_hidden()
  tree:add(N.entropy, tvb(8, 2))
  tree:add(N.partition, tvb(10, 2))
  add_worked_out(tree, N.layer, frame.vc % 4)
  add_worked_out(tree, N.length, packet.length)
  for _, node in ipairs(ends) do
    if node[2] == 0 or node[2] == 65535 then say(frame, node[1], NX.bad_node, "No node has the id %d (N3)", node[2]) end
  end
  if packet.class > 1 or math.floor(frame.vc / 4) ~= packet.class then
    say(frame, class, NX.wrong_class, "Class %d on VC %d: dropped (N1)", packet.class, frame.vc)
  end
  if packet.hop_limit < 2 then
    say(frame, hops, NX.last_hop, "Hop limit %d: only node %d takes it, others drop it (N6)", packet.hop_limit, packet.dst)
  end
  if band(packet.flags, 1) ~= 0 then
    say(frame, flags, NX.congestion, "A node on the way queued it behind more than mark_cells cells (N12)")
  end
  if packet.flags > 1 or packet.zero ~= 0 then
    say(frame, tree, NX.deviation, "Reserved bits or bytes of the network header are not 0")
  end
end

function show_network(frame, tvb, root)
  local tree = root:add(mtnet, tvb())
  local packet = frame.packet
  if not packet then
    if tvb:len() > 0 then tree:add(N.payload, tvb()) end
    return "network header not captured whole"
  end
  show_network_header(frame, tree, tvb, packet)
  local captured = #packet.payload
  if packet.crc then
    local crc = tree:add(N.crc, tvb(packet.length - PACKET_CRC, PACKET_CRC))
    if packet.crc_status == CRC_BAD then
      say(frame, crc, LX.bad_packet_crc, "Packet CRC is 0x%08x, should be 0x%08x (N2): it has been damaged on this hop, or "
        .. "left its source so", packet.crc, packet.computed)
    end
  end
  add_worked_out(tree, N.crc_status, packet.crc_status)
  local ways = string.format("%d -> %d", packet.src, packet.dst)
  tree:append_text(string.format(", %s, hop limit %d", ways, packet.hop_limit))
  local what = PROTOS[packet.proto] or "proto " .. packet.proto
  local payload = captured > 0 and tvb(NET_HEADER, captured):tvb()
  if packet.proto == ECHO and payload then
    what = show_echo(frame, payload, root, packet)
    frame.protocol = "MTECHO"
  elseif packet.is_transport and payload then
    what = show_transport(frame, payload, root, packet)
    frame.protocol = "MTTP"
  else
    if payload then tree:add(N.payload, payload()) end
    what = string.format("%s, %d bytes", what, packet.payload_length)
    frame.protocol = "MTNET"
  end
  return ways .. " " .. what
end

-- Sections 9 to 12 stand in a block of their own, as Lua has room for 200 locals in one.
local read_transport, observe_transport
do

-- 9. Transport: operations ------------------------------------------------------------------------------------------

local WRITE, READ, ATOMIC, SEND, SEND_DATA, CANCEL = 1, 2, 3, 4, 5, 6
local RESULT, REPORT, CREDIT, WANT, DONE = 16, 17, 18, 19, 20
local NEAR, IMM, FETCH, TOTAL, OFFER, WANTED = 0x01, 0x02, 0x04, 0x10, 0x20, 0x80
local AT, FAIL = 0x01, 0x02

-- What stands behind the first four bytes: {name, bytes, flag that it needs}; "address" is key and offset, or delta.
local LAYOUT = {
  [WRITE] = { { "address" }, { "imm", 8, IMM }, flags = 0x03, data = true },
  [READ] = { { "address" }, { "total", 4 }, { "id", 4 }, flags = 0x01 },
  [ATOMIC] = { { "address" }, { "atomic", 1 }, { "atomic_type", 1 }, { "zero", 2 }, { "id", 4, FETCH }, flags = 0x05,
    data = true },
  [SEND] = { { "tag", 8, 0x08 }, { "total", 4, TOTAL }, { "imm", 8, IMM }, flags = 0x7a, data = true },
  [SEND_DATA] = { { "id", 4 }, { "at", 4 }, flags = 0x80, data = true },
  [CANCEL] = { { "id", 4 }, flags = 0 },
  [RESULT] = { { "id", 4 }, { "at", 4, AT }, flags = 0x03, data = true },
  [REPORT] = { { "psn", 4 }, flags = 0, data = true },
  [CREDIT] = { { "limit", 4 }, flags = 0 },
  [WANT] = { { "id", 4 }, { "limit", 4 }, flags = 0 },
  [DONE] = { { "id", 4 }, { "status", 4 }, flags = 0 },
}
local REQUEST_FLAGS = { { 0x01, "near" }, { 0x02, "imm" }, { 0x04, "fetch" }, { 0x08, "tag" }, { 0x10, "total" },
  { 0x20, "offer" }, { 0x40, "complete" }, { 0x80, "wanted" } }
local RESPONSE_FLAGS = { { 0x01, "at" }, { 0x02, "fail" } }

local function has(op, flag) return band(op.flags, flag) ~= 0 end

-- Bytes of an operand, and whether the type is known.
local function operand_size(op) return (op.atomic_type == 0 or op.atomic_type == 2 or op.atomic_type == 4) and 4 or 8 end

local function unsupported(op)
  return not ATOMIC_OPS[op.atomic] or not ATOMIC_TYPES[op.atomic_type]
    or op.atomic_type >= 4 and op.atomic >= 3 and op.atomic <= 5
end

-- Which rule for its length an operation breaks (T26), or nil.
local LENGTH_FAULT = {
  [ATOMIC] = function(op)
    if not ATOMIC_OPS[op.atomic] or not ATOMIC_TYPES[op.atomic_type] then return nil end
    local row = operand_size(op) * (op.atomic == 2 and 2 or 1)
    if op.length == 0 or op.length % row ~= 0 then return "length " .. op.length .. " is not whole operands" end
    local results = op.atomic == 2 and op.length / 2 or op.length
    if has(op, FETCH) and results > 64 then return "more than 64 bytes of results" end
  end,
  [SEND] = function(op)
    if has(op, OFFER) then
      if not has(op, TOTAL) then return "OFFER without TOTAL" end
      if op.total == 0 or op.length ~= 0 then return "OFFER of nothing, or with data" end
    elseif has(op, TOTAL) and op.length > op.total then
      return "length is more than total"
    end
  end,
  [SEND_DATA] = function(op) return op.length == 0 and "no data" or nil end,
  [REPORT] = function(op) return (op.length == 0 or op.length % 2 ~= 0) and "length is 0 or odd" or nil end,
  [RESULT] = function(op)
    return has(op, FAIL) and (op.length ~= 1 or has(op, AT)) and "FAIL with AT, or not with one byte" or nil
  end,
}

-- Key and offset of an operation, or for NEAR those that it means (T26). `base` is the last full address.
local function read_address(op, s, at, base)
  if not has(op, NEAR) then
    op.address = { key_high = u32(s, at), key_low = u32(s, at + 4), high = u32(s, at + 8), low = u32(s, at + 12) }
    return nil
  end
  if not base then return "NEAR without a full address before it" end
  local delta = u32(s, at)
  local low = base.low + delta
  local high = base.high + math.floor(low / M32) + (delta >= M32 / 2 and M32 - 1 or 0)
  op.address = { key_high = base.key_high, key_low = base.key_low, high = high % M32, low = low % M32 }
end

-- The fields of one operation, from op.start on. Returns a fault, or false if they were not captured.
local function read_fields(op, s, wire_length, base)
  local at = op.start + 4
  for _, row in ipairs(LAYOUT[op.opcode]) do
    local name, size, flag = row[1], row[2], row[3]
    if name == "address" then size = has(op, NEAR) and 4 or 16 end
    if not flag or has(op, flag) then
      if at + size > wire_length then return "it ends beyond the body" end
      if at + size > #s then return false end
      if name == "address" then
        local fault = read_address(op, s, at, base)
        if fault then return fault end
        if has(op, NEAR) then
          op.fields[#op.fields + 1] = { "delta", at, 4 }
        else
          op.fields[#op.fields + 1] = { "key", at, 8 }
          op.fields[#op.fields + 1] = { "offset", at + 8, 8 }
        end
      else
        op.fields[#op.fields + 1] = { name, at, size }
        if size < 8 then op[name] = size == 1 and u8(s, at) or size == 2 and u16(s, at) or u32(s, at) end
      end
      at = at + size
    end
  end
  op.data_at, op.finish = at, at + op.length
  op.next = at + math.ceil(op.length / 4) * 4
  if op.finish > wire_length then return "it ends beyond the body" end
  return nil
end

-- Why an operation may not stand in this packet (T15, T16, T26), or nil.
local function operation_fault(op, class, unordered)
  if (op.opcode < 16) ~= (class == 0) then return OPCODES[op.opcode] .. " on a flow of class " .. class end
  if not LAYOUT[op.opcode].data and op.length ~= 0 then return "length is not 0 where data is none" end
  local fault = LENGTH_FAULT[op.opcode] and LENGTH_FAULT[op.opcode](op)
  if fault then return fault end
  if unordered and not (op.opcode == WRITE and not has(op, IMM) or op.opcode == SEND_DATA and has(op, WANTED)) then
    return "not allowed in an UNORDERED packet (T15)"
  end
end

-- The operations of a DATA: `s` is what was captured of the transport's payload. Ends at the first that does not parse.
-- Returns the list, a fault or nil.
local function read_operations(s, wire_length, class, unordered)
  local list, at, base = {}, TP_HEADER, nil
  while at < wire_length do
    if at + 4 > #s then return list end
    if #list == 255 then return list, "more than 255 operations" end
    local op = { start = at, opcode = u8(s, at), flags = u8(s, at + 1), length = u16(s, at + 2), fields = {}, index = #list }
    local layout = LAYOUT[op.opcode]
    local where = "operation " .. op.index .. ": "
    if not layout then return list, where .. "unknown opcode " .. op.opcode end
    list[#list + 1] = op
    if bit.band(op.flags, 0xFF - layout.flags) ~= 0 then
      return list, where .. string.format("flags 0x%02x are not all of %s", op.flags, OPCODES[op.opcode])
    end
    local fault = read_fields(op, s, wire_length, base)
    if fault == false then return list end
    fault = fault or operation_fault(op, class, unordered)
    if fault then return list, where .. fault end
    if op.address and not has(op, NEAR) then base = op.address end
    at = op.next
  end
  return list
end

-- 10. Transport: packets --------------------------------------------------------------------------------------------

local RESPONSE, UNORDERED, ASK = 0x1, 0x2, 0x4
local NONE_ARRIVED = 4294967295

local TP_LEGAL = {
  [OPEN] = function(length) return length >= 36 and "" or "OPEN of less than 36 bytes" end,
  [REJECT] = function(length) return length == 8 and "" or "REJECT of other than 8 bytes" end,
  [TP_DATA] = function(length) return length >= 4 and length % 4 == 0 and "" or "DATA not of 4 bytes or more in fours" end,
  [ACK] = function(length)
    return length >= 4 and length <= 132 and length % 4 == 0 and "" or "ACK not of 4 to 132 bytes in fours"
  end,
  [TP_CLOSE] = function(length) return length == 4 and "" or "CLOSE of other than 4 bytes" end,
}

-- Why T3 calls a packet malformed, or nil.
local function tp_fault(tp, class, length)
  if not TP_TYPES[tp.type] then return "unknown type " .. tp.type end
  local wrong = class ~= 1
  if tp.type == OPEN then wrong = class ~= (tp.connection == 0 and 0 or 1) end
  if tp.type == TP_DATA then wrong = class > 1 end
  if wrong then return TP_TYPES[tp.type] .. " of class " .. class end
  if tp.window > 10 then return "window " .. tp.window .. ", more than 10" end
  local fault = TP_LEGAL[tp.type](length - TP_HEADER)
  return fault ~= "" and fault or nil
end

-- Reads the transport's payload; nil if its header was not captured or is not there.
function read_transport(packet)
  local s = packet.payload
  if #s < TP_HEADER then return nil end
  local tp = { type = rshift(u8(s, 0), 4), flags = band(u8(s, 0), 15), window = band(u8(s, 1), 15), marks = u16(s, 2),
    connection = u32(s, 4), psn = u32(s, 8), ack = u32(s, 12) }
  tp.fault = tp_fault(tp, packet.class, packet.payload_length)
  if tp.fault then return tp end
  if tp.type == TP_DATA then
    tp.operations, tp.bad_operation = read_operations(s, packet.payload_length, packet.class, band(tp.flags, UNORDERED) ~= 0)
    return tp
  end
  local need = ({ [OPEN] = 36, [REJECT] = 8, [TP_CLOSE] = 4 })[tp.type] or packet.payload_length - TP_HEADER
  if #s < TP_HEADER + need then return tp end
  tp.whole = true
  if tp.type == OPEN then
    tp.id, tp.endpoint, tp.peer, tp.first_psn = u32(s, 16), u16(s, 20), u16(s, 22), u32(s, 28)
  elseif tp.type == REJECT then
    tp.reason, tp.id = u8(s, 16), u32(s, 20)
  elseif tp.type == TP_CLOSE then
    tp.reason = u8(s, 16)
  else
    tp.held, tp.words = u32(s, 16), {}
    for at = TP_HEADER + 4, packet.payload_length - 4, 4 do tp.words[#tp.words + 1] = u32(s, at) end
  end
  return tp
end

-- PSNs whose bits are set in the bitmap of an ACK (T13).
local function arrived(tp)
  local list = {}
  for i, word in ipairs(tp.words) do
    for b = 0, 31 do
      if band(rshift(word, b), 1) == 1 then list[#list + 1] = (tp.ack + 32 * (i - 1) + b) % M32 end
    end
  end
  return list
end

-- 11. Transport: what packets mean (first pass) ----------------------------------------------------------------------

local KEPT = 4096  -- of a flow, the latest DATA are remembered: the largest window is 1024

local function new_flow() return { sent = {}, messages = {}, counts = {}, message_count = 0 } end

-- All packets to one id of one node (T2). Its `peer` is the other way of the connection, known by an OPEN.
local function half_of(node, id)
  local key = node .. "/" .. id
  local half = state.ids[key]
  if not half then
    half = { flows = { [0] = new_flow(), [1] = new_flow() }, reads = {} }
    state.ids[key] = half
  end
  return half
end

local function give_stream(half)
  if half.stream then return end
  if half.peer and half.peer.stream then
    half.stream = half.peer.stream
  else
    half.stream = state.streams
    state.streams = state.streams + 1
  end
end

-- The flows to `half` begin at the PSN that their sender told.
local function begin_flows(half, psn)
  for class = 0, 1 do
    local flow = half.flows[class]
    if not flow.next then flow.next, flow.una, flow.numbered = psn, psn, psn end
  end
end

local function answers(note, frame, earlier)
  if not earlier or earlier.note == note then return end
  tell(note, "tp", T.request_in, earlier.note.number)
  tell(note, "tp", T.answer_time, frame.time - earlier.time)
  tell(earlier.note, "tp", T.answer_in, note.number)
end

-- Numbers the messages of a flow as they stand in it (T31), as far as no DATA is missing.
local function number_messages(flow)
  while flow.numbered and flow.counts[flow.numbered] do
    local found = flow.counts[flow.numbered]
    flow.counts[flow.numbered] = nil
    for _, index in ipairs(found.indices) do
      local number = flow.message_count
      tell(found.note, "op" .. index, T.op_message, number)
      flow.messages[number] = { note = found.note, time = found.time, layer = "op" .. index }
      flow.messages[(number - 65536) % M32] = nil
      flow.message_count = (number + 1) % M32
    end
    flow.numbered = (flow.numbered + 1) % M32
  end
end

-- An operation that is about an earlier one, wherever that is.
local function belongs_to(frame, note, op, earlier, is_answer)
  if not earlier then return end
  tell(note, "op" .. op.index, T.op_request_in, earlier.note.number)
  tell(note, "op" .. op.index, T.op_time, frame.time - earlier.time)
  if is_answer then tell(earlier.note, earlier.layer, T.op_answer_in, note.number) end
end

local OBSERVE_OPERATION = {
  [READ] = function(frame, note, op, half)
    half.reads[op.id] = { note = note, time = frame.time, layer = "op" .. op.index }
  end,
  [ATOMIC] = function(frame, note, op, half)
    if has(op, FETCH) then half.reads[op.id] = { note = note, time = frame.time, layer = "op" .. op.index } end
  end,
  [SEND_DATA] = function(frame, note, op, half) belongs_to(frame, note, op, half.flows[0].messages[op.id]) end,
  [CANCEL] = function(frame, note, op, half) belongs_to(frame, note, op, half.flows[0].messages[op.id]) end,
  [RESULT] = function(frame, note, op, half) belongs_to(frame, note, op, half.peer and half.peer.reads[op.id], true) end,
  [REPORT] = function(frame, note, op, half)
    local data = half.peer and half.peer.flows[0].sent[op.psn]
    if data then belongs_to(frame, note, op, { note = data.note, time = data.time, layer = "tp" }, true) end
  end,
  [WANT] = function(frame, note, op, half)
    belongs_to(frame, note, op, half.peer and half.peer.flows[0].messages[op.id], true)
  end,
  [DONE] = function(frame, note, op, half)
    belongs_to(frame, note, op, half.peer and half.peer.flows[0].messages[op.id], true)
  end,
}

local function observe_operations(frame, note, tp, half, flow, class)
  local indices = {}
  for _, op in ipairs(tp.operations) do
    if op.finish then
      if op.opcode == SEND or op.opcode == WRITE and has(op, IMM) then indices[#indices + 1] = op.index end
      local look = OBSERVE_OPERATION[op.opcode]
      if look then look(frame, note, op, half) end
    end
  end
  if class == 0 then
    flow.counts[tp.psn] = { note = note, time = frame.time, indices = indices }
    number_messages(flow)
  end
end

-- A DATA of a flow. The same packet may be seen at several hops; sent again it has another entropy (T11), so another CRC.
local function observe_tp_data(frame, note, tp, packet, half)
  local flow, psn = half.flows[packet.class], tp.psn
  local sent = flow.sent[psn]
  if sent and packet.crc and sent.crc == packet.crc then return tell(note, "tp", T.other_hop_in, sent.note.number) end
  if sent then
    tell(note, "tp", T.first_sent_in, sent.first)
    tell(note, "tp", T.first_sent_time, frame.time - sent.first_time)
    tell(sent.note, "tp", T.sent_again_in, note.number)
    find(note, "tp", TX.sent_again, "PSN %d was first sent in frame %d, %s ago", psn, sent.first,
      duration(frame.time - sent.first_time))
    sent.note, sent.time, sent.crc = note, frame.time, packet.crc
    return
  end
  local distance = flow.next and ahead(flow.next, psn, M32) or 0
  if distance > 0 then
    tell(note, "tp", T.gap_count, distance)
    find(note, "tp", TX.gap, "PSN %d, but %d comes next: %s before this not in the capture yet", psn, flow.next,
      distance == 1 and "one DATA is" or distance .. " DATA are")
  end
  if not flow.next or distance >= 0 then flow.next = (psn + 1) % M32 end
  flow.sent[psn] = { note = note, first = note.number, time = frame.time, first_time = frame.time, crc = packet.crc }
  flow.sent[(psn - KEPT) % M32] = nil
  if not tp.bad_operation then observe_operations(frame, note, tp, half, flow, packet.class) end
end

-- What the receiver of these flows has (T13). Returns nothing; the newest DATA that is told of for the first time is named.
local function observe_tp_ack(frame, note, tp, flow)
  local count, newest = 0, nil
  local function take(psn)
    local sent = flow.sent[psn]
    if not sent or sent.acked then return end
    sent.acked = true
    count = count + 1
    newest = sent
    tell(sent.note, "tp", T.acked_in, note.number)
  end
  local from = flow.una or (tp.ack - KEPT) % M32
  local passed = ahead(from, tp.ack, M32)
  if passed > 0 then
    for i = math.max(0, passed - KEPT), passed - 1 do take((from + i) % M32) end
  end
  if not flow.una or passed > 0 then flow.una = tp.ack end
  if tp.type == ACK and tp.whole then
    for _, psn in ipairs(arrived(tp)) do take(psn) end
    local last = tp.held ~= NONE_ARRIVED and flow.sent[tp.psn]
    if last then
      tell(note, "tp", T.ack_psn_in, last.note.number)
      tell(note, "tp", T.ack_psn_time, frame.time - last.time)
    end
  end
  if newest then
    tell(note, "tp", T.acks, newest.note.number)
    tell(note, "tp", T.acks_count, count)
    tell(note, "tp", T.acks_time, frame.time - newest.time)
  end
end

local function observe_open(frame, note, tp, packet)
  local own = half_of(packet.src, tp.id)
  own.first_psn = tp.first_psn  -- of what the sender sends, so of the flows to the peer's id
  if tp.connection ~= 0 then
    local half = half_of(packet.dst, tp.connection)
    half.peer, own.peer = own, half
    begin_flows(half, tp.first_psn)
    if half.first_psn then begin_flows(own, half.first_psn) end
    answers(note, frame, half.open)
    give_stream(half)
  end
  give_stream(own)
  own.open = own.open or { note = note, time = frame.time }
  return own
end

local function observe_reject(frame, note, tp, packet)
  local half = tp.connection ~= 0 and half_of(packet.dst, tp.connection) or half_of(packet.src, tp.id)
  answers(note, frame, tp.connection ~= 0 and half.open or half.latest)
  return half
end

function observe_transport(frame, packet, note)
  local tp = packet.transport
  if not tp or tp.fault or tp.type ~= TP_DATA and not tp.whole then return end
  local half
  if tp.type == OPEN then
    half = observe_open(frame, note, tp, packet)
  elseif tp.type == REJECT then
    half = observe_reject(frame, note, tp, packet)
  else
    half = half_of(packet.dst, tp.connection)
    half.latest = { note = note, time = frame.time }
    if tp.type == TP_CLOSE then
      local close = half.peer and half.peer.close
      if close then answers(note, frame, close) else half.close = half.close or { note = note, time = frame.time } end
    else
      if half.peer then observe_tp_ack(frame, note, tp, half.peer.flows[band(tp.flags, RESPONSE)]) end
      if tp.type == TP_DATA then observe_tp_data(frame, note, tp, packet, half) end
    end
  end
  give_stream(half)
  tell(note, "tp", T.stream, half.stream)
end

-- 12. Transport: the tree -------------------------------------------------------------------------------------------

local function operation_text(op)
  local words = { OPCODES[op.opcode] }
  if LAYOUT[op.opcode].data then words[#words + 1] = op.length .. " bytes" end
  if op.atomic then
    words[2] = (ATOMIC_OPS[op.atomic] or "op " .. op.atomic) .. " "
      .. (ATOMIC_TYPES[op.atomic_type] or "type " .. op.atomic_type)
  end
  for _, name in ipairs({ "total", "id", "at", "psn", "limit" }) do
    if op[name] then words[#words + 1] = name .. " " .. op[name] end
  end
  if op.status then words[#words + 1] = STATUSES[op.status] or "status " .. op.status end
  if op.opcode == RESULT and has(op, FAIL) then words[#words + 1] = "FAIL" end
  return table.concat(words, " ")
end

local function show_reports(frame, tree, tvb, op)
  for at = op.data_at, op.finish - 2, 2 do
    local status = tvb(at + 1, 1):uint()
    local item = tree:add(T.op_report, tvb(at, 2), string.format("operation %d: %s", tvb(at, 1):uint(),
      STATUSES[status] or "status " .. status))
    item:add(T.op_report_index, tvb(at, 1))
    item:add(T.op_report_status, tvb(at + 1, 1))
  end
  say(frame, tree, TX.report, "%s of DATA %d failed, or hold messages (T28)",
    plural(math.floor(op.length / 2), "operation"), op.psn)
end

local function show_data(frame, tree, tvb, op)
  local captured = math.min(op.finish, tvb:len())
  if captured > op.data_at then
    local item = tree:add(T.op_data, tvb(op.data_at, captured - op.data_at))
    if op.opcode == RESULT and has(op, FAIL) and op.length == 1 then
      local status = tvb(op.data_at, 1):uint()
      say(frame, item, TX.fail, "The READ or ATOMIC %d failed: %s (T29)", op.id, STATUSES[status] or "status " .. status)
    end
  end
  if op.next > op.finish and op.next <= tvb:len() then tree:add(T.op_padding, tvb(op.finish, op.next - op.finish)) end
  if op.opcode == REPORT and captured == op.finish and op.length % 2 == 0 then show_reports(frame, tree, tvb, op) end
end

local function show_operation(frame, tree, tvb, op)
  local finish = math.min(op.finish and op.next or tvb:len(), tvb:len())
  local item = tree:add(T.op, tvb(op.start, finish - op.start), operation_text(op))
  add_worked_out(item, T.op_index, op.index)
  item:add(T.op_opcode, tvb(op.start, 1))
  local flags = item:add(T.op_flags, tvb(op.start + 1, 1))
  for _, flag in ipairs(op.opcode >= 16 and RESPONSE_FLAGS or REQUEST_FLAGS) do
    if band(LAYOUT[op.opcode].flags, flag[1]) ~= 0 then flags:add(T["op_flags_" .. flag[2]], tvb(op.start + 1, 1)) end
  end
  item:add(T.op_length, tvb(op.start + 2, 2))
  for _, field in ipairs(op.fields) do item:add(T["op_" .. field[1]], tvb(field[2], field[3])) end
  if op.address and has(op, NEAR) then
    add_worked_out(item, T.op_key, UInt64.new(op.address.key_low, op.address.key_high))
    add_worked_out(item, T.op_offset, UInt64.new(op.address.low, op.address.high))
  end
  if op.opcode == ATOMIC and op.atomic and op.atomic_type and unsupported(op) then
    say(frame, item, TX.unsupported, "Operation %d on type %d is unsupported (T30)", op.atomic, op.atomic_type)
  end
  if op.finish then show_data(frame, item, tvb, op) end
  show_note(frame, item, "op" .. op.index)
end

-- Bodies; `tvb` is all of the transport's payload. Each returns words for the column Info.
local SHOW_TP = {
  [OPEN] = function(frame, tree, tvb, tp, packet)
    tree:add(T.open_id, tvb(16, 4))
    tree:add(T.open_endpoint, tvb(20, 2))
    tree:add(T.open_peer, tvb(22, 2))
    tree:add(T.open_mtu, tvb(24, 2))
    tree:add(T.open_reads, tvb(26, 2))
    tree:add(T.open_psn, tvb(28, 4))
    tree:add(T.open_messages, tvb(32, 4))
    tree:add(T.open_eager, tvb(36, 4))
    tree:add(T.open_options, tvb(40, 4))
    tree:add(T.open_key, tvb(44, 8))
    if tvb:len() > 52 then tree:add(T.open_padding, tvb(52)) end
    return string.format("id %08x endpoint %d -> %d mtu %d psn %d", tp.id, tp.endpoint, tp.peer, tvb(24, 2):uint(),
      tp.first_psn)
  end,
  [REJECT] = function(frame, tree, tvb, tp)
    local item = tree:add(T.reject_reason, tvb(16, 1))
    tree:add(T.zero, tvb(17, 3))
    tree:add(T.reject_id, tvb(20, 4))
    local why = REJECT_REASONS[tp.reason] or "reason " .. tp.reason
    say(frame, item, TX.rejected, "Rejected: %s", why)
    return why
  end,
  [TP_CLOSE] = function(frame, tree, tvb, tp)
    local item = tree:add(T.close_reason, tvb(16, 1))
    tree:add(T.zero, tvb(17, 3))
    local why = TP_CLOSE_REASONS[tp.reason] or "reason " .. tp.reason
    say(frame, item, TX.close, "The connection ends: %s", why)
    return why
  end,
  [ACK] = function(frame, tree, tvb, tp)
    local held = tree:add(T.ack_held, tvb(16, 4))
    if tp.held == NONE_ARRIVED then held:append_text(" (none has arrived)") end
    for i = 1, #tp.words do tree:add(T.ack_bitmap, tvb(16 + 4 * i, 4)) end
    local psns = arrived(tp)
    for _, psn in ipairs(psns) do add_worked_out(tree, T.ack_arrived, psn) end
    return string.format("psn %d ack %d%s", tp.psn, tp.ack, #psns > 0 and " and " .. #psns .. " beyond" or "")
  end,
  [TP_DATA] = function(frame, tree, tvb, tp)
    local words = {}
    for i, op in ipairs(tp.operations) do
      show_operation(frame, tree, tvb, op)
      if i <= 4 then words[i] = operation_text(op) end
    end
    if #tp.operations > 4 then words[5] = string.format("... (%d operations)", #tp.operations) end
    if tp.bad_operation then
      say(frame, tree, TX.bad_operation, "%s: the connection ends by CLOSE, reason 2 (T16)", tp.bad_operation)
    end
    return string.format("psn %d ack %d: %s", tp.psn, tp.ack, table.concat(words, ", "))
  end,
}

-- What the sender should not have done, though the receiver does not mind.
local function tp_sender_fault(tp, first_two)
  if tp.flags >= 8 or band(first_two, 0xF0) ~= 0 then return "reserved bits are set" end
  local quiet = tp.type == OPEN or tp.type == REJECT or tp.type == TP_CLOSE
  if quiet and (tp.marks ~= 0 or tp.psn ~= 0 or tp.ack ~= 0) then return "marks, psn or ack is not 0" end
  if (tp.type == REJECT or tp.type == TP_CLOSE) and tp.window ~= 0 then return "window is not 0" end
end

local function show_tp_header(tree, tvb, tp)
  tree:add(T.type, tvb(0, 1))
  add_flags(tree, tvb, 0, T.flags, T.flags_response, T.flags_unordered, T.flags_ask)
  tree:add(T.window, tvb(1, 1)):append_text(tp.window <= 10 and string.format(" (%d packets)", math.floor(2 ^ tp.window)) or "")
  tree:add(T.marks, tvb(2, 2))
  tree:add(T.connection, tvb(4, 4))
  tree:add(T.psn, tvb(8, 4))
  tree:add(T.ack, tvb(12, 4))
end

function show_transport(frame, tvb, root, packet)
  local tree = root:add(mttp, tvb())
  local tp = packet.transport
  if not tp then
    if packet.payload_length < TP_HEADER then
      say(frame, tree, TX.malformed, "Malformed: %d bytes, at least 16 are needed (T3)", packet.payload_length)
    end
    return "transport, not whole"
  end
  show_tp_header(tree, tvb, tp)
  if tp.fault then
    say(frame, tree, TX.malformed, "Malformed: %s (T3)", tp.fault)
    return "transport, malformed: " .. tp.fault
  end
  local deviation = tp_sender_fault(tp, tvb(1, 1):uint())
  if deviation then say(frame, tree, TX.deviation, "The sender breaks a rule: %s", deviation) end
  local body = ""
  if tp.type == TP_DATA or tp.whole then body = " " .. SHOW_TP[tp.type](frame, tree, tvb, tp, packet) end
  show_note(frame, tree, "tp")
  local ask = band(tp.flags, ASK) ~= 0 and " ASK" or ""
  tree:append_text(string.format(", %s", TP_TYPES[tp.type]))
  return string.format("%s%s to %08x%s", TP_TYPES[tp.type], ask, tp.connection, body)
end

end

-- 13. The dissector -------------------------------------------------------------------------------------------------

-- Takes a frame apart, without a tree: what the first pass and the printing both need.
local function read_frame(tvb, pinfo)
  local frame = { wire_length = tvb:reported_len(), marks = {}, marked = {}, note = state.notes[pinfo.number],
    protocol = "MTLINK" }
  if not frame.note then
    frame.note = new_note(pinfo.number)
    state.notes[pinfo.number] = frame.note
  end
  if frame.wire_length < LINK_HEADER or tvb:len() < LINK_HEADER then return frame end
  local bytes = tvb:raw()
  read_header(frame, bytes)
  if frame.fault then return frame end
  local body = bytes:sub(LINK_HEADER + 1, LINK_HEADER + frame.length)
  if frame.kind == DATA then
    if #body >= NET_HEADER then
      frame.packet = read_packet(body, frame.length, mtlink.prefs.check_crc)
      frame.packet_crc = frame.packet.crc_status
      frame.packet.is_transport = frame.packet.proto == TRANSPORT and mtlink.prefs.transport
      if frame.packet.is_transport then frame.packet.transport = read_transport(frame.packet) end
    end
  elseif #body == frame.length then
    frame.body = true
    READ_BODY[frame.kind](frame, body)
  end
  return frame
end

-- The first pass over a frame whose shape is good: works out what it means.
local function look(frame, pinfo)
  local note = frame.note
  frame.time = math.floor(pinfo.rel_ts * 1e9 + 0.5)
  if frame.time < state.latest_time then
    find(note, "link", LX.unordered, "%s before a frame that stands in front of it: bring the capture into order (reordercap) "
      .. "before you rely on what is said of numbers, acks and credit", duration(state.latest_time - frame.time))
  end
  state.latest_time = math.max(state.latest_time, frame.time)
  frame.way = way_of(pinfo)
  local complete = frame.kind == DATA and frame.packet or frame.body
  if frame.header_crc == CRC_GOOD and complete and observe(frame.way, frame, note) and frame.packet_crc ~= CRC_BAD then
    if frame.packet.proto == ECHO then
      observe_echo_packet(frame, frame.packet, note)
    elseif frame.packet.is_transport then
      observe_transport(frame, frame.packet, note)
    end
  end
  local link = frame.way.link
  if link then note.number_of_link, note.session = link.number, link.session end
  note.sender, note.receiver = name_of(frame.way), name_of(frame.way.peer)
end

function mtlink.init() state = new_state() end

function mtlink.dissector(tvb, pinfo, root)
  if tvb:len() == 0 then return 0 end
  local frame = read_frame(tvb, pinfo)
  if not pinfo.visited and frame.header_crc then look(frame, pinfo) end
  local info = show_link(frame, tvb, root)
  pinfo.cols.protocol = frame.protocol
  pinfo.cols.info = #frame.marks > 0 and table.concat(frame.marks, " ") .. " " .. info or info
  return tvb:len()
end

-- 14. Where frames come from -----------------------------------------------------------------------------------------

local ethertypes = DissectorTable.get("ethertype")
local registered = tostring(mtlink.prefs.ethertypes)
ethertypes:add(registered, mtlink)

function mtlink.prefs_changed()
  local wanted = tostring(mtlink.prefs.ethertypes)
  if wanted == registered then return end
  ethertypes:remove(registered, mtlink)
  ethertypes:add(wanted, mtlink)
  registered = wanted
end

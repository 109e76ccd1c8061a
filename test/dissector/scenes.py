"""Links made by hand: frames one after the other, one microsecond apart unless said otherwise. Calls give the number of the
frame in the capture."""

import wire

ALLOCATION = (8,) * 8


class Side:
    def __init__(self, mac, node, port, nonce, epoch, **init):
        self.mac, self.node, self.port, self.nonce, self.epoch, self.init = mac, node, port, nonce, epoch, init


class Link:
    """Side a is node 1 port 10, side b node 2 port 20; cells of 64 bytes, eight a VC, windows of 4."""

    def __init__(self, frames=None):
        small = {"window": 4, "capacity": ALLOCATION}
        self.a = Side("02:00:00:00:00:0a", 1, 10, 0xAAAA0001, 11, **small)
        self.b = Side("02:00:00:00:00:0b", 2, 20, 0xBBBB0001, 22, **small)
        self.frames = [] if frames is None else frames
        self.vlan = None

    def add(self, frame, after=1000):
        time = (self.frames[-1][0] if self.frames else 10**9) + after
        self.frames.append((time, wire.tagged(frame, self.vlan) if self.vlan else frame))
        return len(self.frames)

    def other(self, side):
        return self.b if side is self.a else self.a

    def frame(self, side, kind, body, after=1000, **fields):
        to = self.other(side)
        given = {"src": side.mac, "dst": to.mac, "epoch": to.epoch} | fields
        return self.add(wire.link_frame(kind, body, **given), after)

    def init(self, side, peer_nonce=0, known=True, padded=True, after=1000, **changes):
        body = wire.init_body(side.nonce, peer_nonce, changes.pop("node", side.node), changes.pop("port", side.port),
                              changes.pop("epoch", side.epoch), **(side.init | changes))
        dst = self.other(side).mac if known else wire.FIRST_MAC
        frame = wire.link_frame(wire.INIT, body, src=side.mac, dst=dst)
        return self.add(frame.ljust(30 + 256, b"\0") if peer_nonce and padded else frame, after)

    def status(self, side, allocation=ALLOCATION, t_tx=0, t_echo=0, after=1000, **fields):
        return self.frame(side, wire.STATUS, wire.status_body(allocation, t_tx, t_echo), after, **fields)

    def data(self, side, seq, packet=None, after=1000, **fields):
        packet = packet or wire.packet(b"", src=side.node, dst=self.other(side).node, proto=4)
        return self.frame(side, wire.DATA, packet, after, seq=seq, **fields)

    def nack(self, side, *ranges, after=1000, **fields):
        body = b"".join(first.to_bytes(2, "big") + count.to_bytes(2, "big") for first, count in ranges)
        return self.frame(side, wire.NACK, body, after, **fields)

    def close(self, side, reason, after=1000):
        return self.frame(side, wire.CLOSE, bytes([reason, 0, 0, 0]), after)

    def up(self):
        """Five frames: a asks, b answers, a takes it, both say STATUS."""
        self.init(self.a, known=False)
        self.init(self.b, self.a.nonce)
        self.init(self.a, self.b.nonce)
        self.status(self.a)
        return self.status(self.b)


class Talk:
    """Node 1, endpoint 17, and node 2, endpoint 18, over a link that is UP: packets of proto 1 in DATA that follow on."""

    A_ID, B_ID, PSN = 0xA0000001, 0xB0000001, {"a": 1000, "b": 5000}

    def __init__(self, link):
        self.link, self.seq = link, {"a": 0, "b": 0}

    def send(self, who, payload, klass, after=1000, **packet):
        side = self.link.a if who == "a" else self.link.b
        made = wire.packet(payload, src=side.node, dst=self.link.other(side).node, klass=klass, **packet)
        seq = self.seq[who]
        self.seq[who] += 1
        # Acks and credit for all, so that the link has nothing to say.
        far = "b" if who == "a" else "a"
        return self.link.data(side, seq, made, after, vc=4 * klass, ack=self.seq[far], credit_vc=4 * klass,
                              credit=(seq + 8) & 0xFFFF)

    def open(self, who, connection, ask=True, **more):
        identity, endpoint, peer = (self.A_ID, 17, 18) if who == "a" else (self.B_ID, 18, 17)
        body = b"".join((identity.to_bytes(4, "big"), endpoint.to_bytes(2, "big"), peer.to_bytes(2, "big"),
                         (200).to_bytes(2, "big"), (64).to_bytes(2, "big"), self.PSN[who].to_bytes(4, "big"),
                         (64).to_bytes(4, "big"), (16384).to_bytes(4, "big"), bytes(12)))
        payload = wire.transport(1, body, connection=connection, flags=4 if ask else 0)
        return self.send(who, payload, 1 if connection else 0, **more)

    def up(self):
        """Three frames: OPEN, its answer, and the OPEN without ASK."""
        self.open("a", 0)
        self.open("b", self.A_ID)
        return self.open("a", self.B_ID, ask=False)

    def packet(self, who, kind, body=b"", klass=1, psn=0, ack=0, flags=0, after=1000, window=8, **packet):
        peer = self.B_ID if who == "a" else self.A_ID
        return self.send(who, wire.transport(kind, body, connection=peer, psn=psn, ack=ack, flags=flags, window=window), klass,
                         after, **packet)

    def ack(self, who, ack, psn=0, held=0xFFFFFFFF, words=(), flags=0, after=1000):
        body = held.to_bytes(4, "big") + b"".join(word.to_bytes(4, "big") for word in words)
        return self.packet(who, 4, body, psn=psn, ack=ack, flags=flags, after=after)


def operation(opcode, fields=b"", data=b"", flags=0):
    return bytes([opcode, flags]) + len(data).to_bytes(2, "big") + fields + data + bytes(-len(data) % 4)


def u32(*values):
    return b"".join(value.to_bytes(4, "big") for value in values)


ADDRESS = bytes.fromhex("0123456789abcdef00007f0000001000")

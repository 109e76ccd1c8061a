"""What the dissector's tests share: cases with captures of their own, and the sums for the tally."""

import pathlib
import sys
import tempfile
import unittest

import tshark
import wire

SCRATCH = tempfile.TemporaryDirectory(prefix="mtl-dissector-")


class Case(unittest.TestCase):
    union = {}  # every field that any case has seen
    _captures = 0

    @classmethod
    def path(cls):
        """Where a new capture may lie."""
        Case._captures += 1
        folder = pathlib.Path(SCRATCH.name) / str(Case._captures)
        folder.mkdir()
        return folder / "capture"

    @classmethod
    def dissect(cls, path, *options, transport=True):
        found = tshark.frames(path, *options, transport=transport)
        for number, frame in found.items():
            cls.union.update(frame)
            # The last thing that the first pass does; an error of Lua there shows in no other way.
            done = "mtlink.link" in frame or frame.get("mtlink.init.peer_nonce") == ["0x00000000"]
            assert done or frame.get("mtlink.header_crc.status") != ["1"], f"frame {number} was given up half way: {frame}"
        return found

    @classmethod
    def scene(cls, frames, *options, transport=True):
        """The frames, dissected: {number: {field: [texts]}}."""
        path = cls.path()
        wire.write_pcap(path, frames)
        return cls.dissect(path, *options, transport=transport)

    def expect(self, seen, layer, /, **fields):
        """Values of fields of a layer; '__' stands for a dot, None for a field that is not there, '' for an expert info."""
        for name, value in fields.items():
            name = f"{layer}.{name.replace('__', '.')}"
            got = seen.get(name)
            if value is None:
                self.assertIsNone(got, f"{name}: {seen}")
            elif isinstance(value, str):
                self.assertIn(value, got or [], f"{name}: {seen}")
            else:
                values = value if isinstance(value, list) else [value]
                self.assertEqual(values, tshark.normal(got or [], values), f"{name}: {seen}")

    def says(self, seen, text):
        """One of the frame's expert infos has this text in it."""
        self.assertTrue(any(text in message for message in seen.get("_ws.expert.message", [])), f"'{text}' is not in {seen}")


def main():
    chosen = (unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:], sys.modules["__main__"]) if sys.argv[1:]
              else unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(chosen)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or result.testsRun == 0 else 0)

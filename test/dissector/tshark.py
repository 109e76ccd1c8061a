"""Runs tshark with the dissector of pcap/mtlink.lua, with no settings of the user's, and gives what it says."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "pcap" / "mtlink.lua"
TSHARK = shutil.which("tshark")
LAYERS = ("mtlink", "mtnet", "mtecho", "mttp")


def run(capture, *options, transport=True, home=None, dissector=DISSECTOR):
    """What tshark prints about a capture; fails if it fails, or if the dissector does."""
    assert TSHARK, "tshark is not installed: run scripts/install-deps"
    with tempfile.TemporaryDirectory(prefix="mtl-tshark-") as empty:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home or empty), "LC_ALL": "C", "TZ": "UTC"}
        load = [] if home else ["-X", f"lua_script:{dissector}"]
        prefer = [] if transport else ["-o", "mtlink.transport:FALSE"]
        done = subprocess.run([TSHARK, *options, "-n", *load, *prefer, *(["-r", str(capture)] if capture else [])],
                              capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, f"tshark ends with {done.returncode}: {done.stderr}"
    assert "Lua Error:" not in done.stdout + done.stderr, lua_error(done.stdout + done.stderr)
    return done.stdout


def lua_error(text):
    return next(line for line in text.splitlines() if "Lua Error:" in line)


def frames(capture, *options, transport=True):
    """{frame number: {field: [values]}} for the frames that the dissector takes, its own fields alone. Two passes, so that
    frames know what came behind them; the filter is what gives the first pass a tree (see mtlink.lua)."""
    text = run(capture, "-2", "-Y", "mtlink", "-T", "json", "--no-duplicate-keys", *options, transport=transport)
    layers = [frame["_source"]["layers"] for frame in json.loads(text)]
    return {int(layer["frame"]["frame.number"]): flat(layer) for layer in layers}


def flat(layers):
    found = {}

    def walk(name, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(key, inner)
        elif isinstance(value, list):
            for inner in value:
                walk(name, inner)
        elif name.split(".")[0] in LAYERS or name == "_ws.expert.message":
            found.setdefault(name, []).append(value)

    for layer in (*LAYERS, "_ws.malformed"):
        if layer in layers:
            walk(layer, layers[layer])
    return found


def normal(texts, like):
    """tshark's texts in the form of the values that they are compared with: numbers, times in nanoseconds, or bytes as
    hexadecimal text."""
    return [text.replace(":", "") for text in texts] if like and isinstance(like[0], str) else [number(t) for t in texts]


def number(text):
    if text.startswith("0x"):
        return int(text, 16)
    seconds, point, rest = text.partition(".")
    return int(seconds) * 10**9 + int(rest.ljust(9, "0")) if point else int(text)


def all_fields():
    """{name: type} of the fields and expert infos that the dissector registers."""
    found = {}
    for line in run(None, "-G", "fields").splitlines():
        parts = line.split("\t")
        if parts[0] == "F" and parts[2].split(".")[0] in LAYERS:
            found[parts[2]] = parts[3]
    return found

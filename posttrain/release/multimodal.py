"""Images and sounds, where the model is said to take them; a text model is asked nothing of it."""

import base64
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from posttrain.release.check import Check, Skips, Warns, expect, short
from posttrain.release.probe import Probe

_DIGITS = {
    "1": "010110010010111", "2": "111001111100111", "3": "111001111001111",
    "4": "101101111001001", "5": "111100111001111", "7": "111001001001001",
    "8": "111101111101111", "9": "111101111001111",
}  # fmt: skip
"""Each digit as 5 rows of 3 points."""


def picture(number: str, scale: int) -> str:
    """A PNG of black digits on white, as a data URL; a point is `scale` pixels wide."""
    rows = []
    for row in range(-1, 6):
        points = "0"
        for digit in number:
            points += (_DIGITS[digit][3 * row : 3 * row + 3] if 0 <= row < 5 else "000") + "0"
        line = b"\0" + b"".join((b"\0" if p == "1" else b"\xff") * scale for p in points)
        rows += [line] * scale
    width, height = (len(rows[0]) - 1), len(rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    raw = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
    raw += _chunk(b"IDAT", zlib.compress(b"".join(rows))) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(raw).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    tagged = kind + content
    return struct.pack(">I", len(content)) + tagged + struct.pack(">I", zlib.crc32(tagged))


def sound(seconds: int) -> str:
    """A WAV of a 440 Hz square wave, 16 kHz, in base64."""
    rate = 16_000
    wave = b"".join(
        struct.pack("<h", 8000 if (n * 880 // rate) % 2 else -8000) for n in range(rate * seconds)
    )
    form = struct.pack("<HHIIHH", 1, 1, rate, 2 * rate, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", len(wave))
    whole = b"RIFF" + struct.pack("<I", len(body) + len(wave)) + body + wave
    return base64.b64encode(whole).decode()


def _needs(probe: Probe, modality: str) -> None:
    if modality not in probe.modalities:
        raise Skips(f"the model is not said to take {modality} (--modality {modality})")


def _image(number: str, scale: int) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": picture(number, scale)}}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _reads(parts: Sequence[dict[str, Any]], *numbers: str) -> Callable[[Probe], str]:
    def run(probe: Probe) -> str:
        _needs(probe, "image")
        found = probe.chat([{"role": "user", "content": list(parts)}])
        lacking = [number for number in numbers if number not in found.content]
        expect(not lacking, f"it reads {short(found.content)}, not {', '.join(lacking)}")
        return f"reads {', '.join(numbers)}"

    return run


def _hears(seconds: int) -> Callable[[Probe], str]:
    def run(probe: Probe) -> str:
        _needs(probe, "audio")
        part = {"type": "input_audio", "input_audio": {"data": sound(seconds), "format": "wav"}}
        answer = probe.raw([{"role": "user", "content": [part, _text("What do you hear?")]}])
        expect(answer.status == 200, f"{seconds} s of sound: {answer.told}")
        raise Warns(f"{seconds} s of a tone are answered; no speech is put to it here")

    return run


_WHICH = _text("Which numbers are in the pictures? Answer with digits.")
_MIXED = [_text("First:"), _image("4827", 8), _text("then:"), _image("1593", 8), _WHICH]

CHECKS = (
    Check("image-small", "multimodal", _reads([_image("4827", 6), _WHICH], "4827")),
    Check("image-large", "multimodal", _reads([_image("1593", 60), _WHICH], "1593")),
    Check("images", "multimodal",
          _reads([_image("4827", 8), _image("1593", 8), _WHICH], "4827", "1593")),
    Check("interleaved", "multimodal", _reads(_MIXED, "4827", "1593")),
    Check("audio-small", "multimodal", _hears(1)),
    Check("audio-large", "multimodal", _hears(30)),
)  # fmt: skip

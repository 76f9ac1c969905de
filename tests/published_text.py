"""The texts that a published page holds compressed."""

import re
import zlib

import numpy as np


def text_of(page: str) -> str:
    """All content of a published page as text. Each character holds seven bits."""
    texts = []
    for packed in re.findall(r'<script type="text/plain" id="\w+">(.*?)</script>', page, re.DOTALL):
        sevens = np.array([ord(character) & 127 for character in packed], np.uint8)
        bits = np.unpackbits(sevens[:, None], axis=1)[:, 1:]
        texts.append(zlib.decompressobj().decompress(np.packbits(bits).tobytes()).decode())
    return "\n".join(texts)

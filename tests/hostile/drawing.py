"""Values and messages that an attacker draws."""

INTERESTING = (0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63,
               (1 << 64) - 1)


def number(rng, bits):
    value = rng.choice(INTERESTING) if rng.random() < 0.5 else rng.getrandbits(bits)
    return value & ((1 << bits) - 1)


def mutated(rng, message):
    data = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = number(rng, 8)
    return bytes(data[:rng.randint(1, len(data))]) if rng.random() < 0.3 else bytes(data)

"""A history file that covers days, in the format of docs/history.md, for tests of large queries."""

import pathlib
import random
import sqlite3
import time

MINUTE_S = 60
ROWS = 15  # of a chunk: a quarter of an hour


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def numbers(values: list[int]) -> bytes:
    out, last, place = bytearray(b"\0"), 0, 0
    while place < len(values):
        difference, last = values[place] - last, values[place]
        out += varint(2 * difference if difference >= 0 else -2 * difference - 1)
        place += 1
        if difference == 0:
            more = place
            while more < len(values) and values[more] == last:
                more += 1
            out += varint(more - place)
            place = more
    return bytes(out)


def minutes(metric: int, averages: list[int]) -> bytes:
    """A chunk of minutes, each of two samples."""
    count = len(averages)
    rows = varint(count) + numbers([average - 7 for average in averages])
    rows += numbers([2] * count) + numbers([14] * count) + numbers([14] * count)
    times = numbers([0] + [MINUTE_S * 1000] * (count - 1))
    return b"\2" + varint(count) + times + b"\1" + varint(metric) + varint(len(rows)) + rows


def fill(path: pathlib.Path, devices: list[str], count: int, processes: int) -> None:
    """So many minutes of each device up to now, and of so many processes on each; the file has its tables."""
    random_ = random.Random(17)

    def averages() -> list[int]:
        return [random_.randrange(1 << 30, 140 << 30) for _ in range(ROWS)]

    end = int(time.time()) // 900 * 900
    begins = range(end - count // ROWS * 900, end, 900)
    with sqlite3.connect(path) as file:
        for number, key in enumerate(devices, 1):
            file.execute("INSERT OR REPLACE INTO device VALUES(?, ?, 'H200', ?, ?)", (number, key, number, 141 << 30))
            file.executemany(
                "INSERT INTO device_chunk(device, grain_s, begin_s, samples) VALUES(?, 60, ?, ?)",
                ((number, begin, minutes(1, averages())) for begin in begins),
            )
            for process in range(processes):
                name = 1000 * number + process
                words = (name, name, "ann", f"/usr/bin/python3 train.py --key s3cret-{name}", end)
                file.execute("INSERT INTO process VALUES(?, ?, 1, ?, ?, NULL, NULL, NULL, ?)", words)
                file.executemany(
                    "INSERT INTO process_chunk(process, device, begin_s, samples) VALUES(?, ?, ?, ?)",
                    ((name, number, begin, minutes(1, averages())) for begin in begins),
                )

"""Generates the rows of benchmark tables. They are seeded, so the number of a file determines its rows."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_FIRST_SECOND = 1_790_000_000
_CATEGORIES = np.array([f"category-{number:03d}" for number in range(200)])
_COUNTRIES = np.array([f"{first}{second}" for first in "ABCDEFGHIJ" for second in "PQRSTUVWXYZ"])
_WORDS = pa.array([f"{first}{middle}{last}" for first in "bdklmnprst" for middle in "aeiou" for last in "lmnrstxz"])
_AGENTS = np.array([f"Reader/{number}.0 (System {number % 7}; rv:{number})" for number in range(60)])
_HEXADECIMAL = np.frombuffer(b"0123456789abcdef", np.uint8)

Random = np.random.Generator
Rows = Callable[[int, int], pa.Table]  # number of the file, count of its rows


def events(number: int, count: int) -> pa.Table:
    """Eleven mixed columns: ascending ids and times, skewed categories, keys and doubles with high entropy."""
    random = np.random.default_rng(number)
    seconds = _FIRST_SECOND + number * 600 + np.sort(random.integers(0, 600, count))
    return pa.table(
        {
            "event_id": number * count + np.arange(count),
            "event_time": _times(seconds * 1_000_000 + random.integers(0, 1_000_000, count)),
            "user_id": random.integers(0, 5_000_000, count),
            "category": _CATEGORIES[np.minimum(random.geometric(0.05, count), 200) - 1],
            "country": _COUNTRIES[random.integers(0, len(_COUNTRIES), count)],
            "session": _hexadecimal(random, count, 28),
            "score": pa.array(random.normal(100, 15, count), mask=random.random(count) < 0.02),
            "quantity": random.integers(1, 50, count).astype(np.int32),
            "amount": _cents(random.integers(0, 10_000_000, count)),
            "mobile": random.random(count) < 0.6,
            "day": pa.array((seconds // 86_400).astype(np.int32)).cast(pa.date32()),
        }
    )


def skewed(number: int, count: int) -> pa.Table:
    """Events of which half belong to one user."""
    rows = events(number, count)
    is_heavy = np.random.default_rng(number + 1_000_000).random(count) < 0.5
    users = np.where(is_heavy, 2_345_678, rows["user_id"].to_numpy())
    return rows.set_column(rows.schema.get_field_index("user_id"), "user_id", pa.array(users))


def run(number: int, count: int) -> pa.Table:
    """Events in the order of their users."""
    return events(number, count).sort_by("user_id")


def wide(number: int, count: int) -> pa.Table:
    """Two hundred columns: measurements, small numbers, keys and short texts."""
    random = np.random.default_rng(number)
    columns: dict[str, Any] = {"key": number * count + np.arange(count)}
    columns |= {f"measure_{n:02d}": random.normal(n, 1 + n, count) for n in range(80)}
    columns |= {f"level_{n:02d}": random.integers(0, 10 + n, count).astype(np.int32) for n in range(60)}
    columns |= {f"label_{n:02d}": _CATEGORIES[random.integers(0, 5 + n, count)] for n in range(40)}
    columns |= {f"reference_{n:02d}": random.integers(0, 2**40, count) for n in range(19)}
    return pa.table(columns)


def nested(number: int, count: int) -> pa.Table:
    """A struct in a struct, a list of structs, a map and a list of texts. Each is sometimes null or empty."""
    random = np.random.default_rng(number)
    place = pa.StructArray.from_arrays(
        [random.uniform(-90, 90, count), random.uniform(-180, 180, count)], ["lat", "lon"]
    )
    device = pa.StructArray.from_arrays(
        [_AGENTS[random.integers(0, len(_AGENTS), count)], random.integers(1, 40, count).astype(np.int32), place],
        ["model", "version", "place"],
        mask=pa.array(random.random(count) < 0.05),
    )
    bought, labels, tags = (_offsets(random, count, most) for most in (5, 3, 4))
    items = pa.StructArray.from_arrays(
        [
            _hexadecimal(random, bought[-1], 10),
            random.integers(100, 100_000, bought[-1]) / 100,
            random.integers(1, 9, bought[-1]).astype(np.int32),
        ],
        ["sku", "price", "quantity"],
    )
    # The keys of a map must differ, so they count up from the first.
    keys = np.arange(labels[-1]) - np.repeat(labels[:-1], np.diff(labels))
    return pa.table(
        {
            "order_id": number * count + np.arange(count),
            "device": device,
            "items": pa.ListArray.from_arrays(pa.array(bought), items),
            "labels": pa.MapArray.from_arrays(
                pa.array(labels), _CATEGORIES[keys], pa.array(_COUNTRIES[random.integers(0, 110, labels[-1])])
            ),
            "tags": pa.ListArray.from_arrays(pa.array(tags), _WORDS.take(random.integers(0, len(_WORDS), tags[-1]))),
        }
    )


def texts(number: int, count: int) -> pa.Table:
    """Requests as a web server logs them: addresses, agents, messages of a few dozen words, unique keys."""
    random = np.random.default_rng(number)
    key = _hexadecimal(random, count, 32)
    path = _sentences(random, count, 5, "/")
    return pa.table(
        {
            "request": number * count + np.arange(count),
            "key": key,
            "url": pc.binary_join_element_wise(
                "https://shop.example/", path, "?id=", pc.utf8_slice_codeunits(key, 0, 8), ""
            ),
            "referrer": pc.binary_join_element_wise("https://search.example/", _sentences(random, count, 2, "+"), ""),
            "agent": _AGENTS[np.minimum(random.geometric(0.1, count), 60) - 1],
            "message": _sentences(random, count, 40, " "),
            "country": _COUNTRIES[random.integers(0, len(_COUNTRIES), count)],
        }
    )


KINDS: dict[str, Rows] = {
    "events": events,
    "skewed": skewed,
    "runs": run,
    "wide": wide,
    "nested": nested,
    "texts": texts,
}


def _times(microseconds: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(microseconds).cast(pa.timestamp("us", "UTC"))


def _cents(numbers: npt.NDArray[np.int64]) -> pa.Array:
    hundredth = pa.scalar(Decimal("0.01"))
    return pc.multiply(pa.array(numbers).cast(pa.decimal128(19, 0)), hundredth).cast(pa.decimal128(12, 2))


def _hexadecimal(random: Random, count: int, length: int) -> pa.Array:
    letters = _HEXADECIMAL[random.integers(0, 16, count * length)]
    offsets = np.arange(0, (count + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))


def _offsets(random: Random, count: int, most: int) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(random.integers(0, most + 1, count))]).astype(np.int32)


def _sentences(random: Random, count: int, most: int, between: str) -> pa.Array:
    offsets = _offsets(random, count, most)
    words = _WORDS.take(pa.array(random.integers(0, len(_WORDS), offsets[-1])))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), words), between)

# SPDX-License-Identifier: Apache-2.0
import pytest

import quarry


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        ("0", 0),
        ("4096", 4096),
        ("17B", 17),
        ("512MiB", 512 << 20),
        ("512 mib", 512 << 20),
        ("2GB", 2 * 10**9),
        ("2G", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("2TiB", 2 << 40),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_a_size_has_decimal_or_binary_units(text, size):
    assert quarry.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1XB", "1iB", "1 2", "1e9", "MiB", "16777216TiB", "9" * 5000]
)
def test_a_text_that_is_no_size_is_refused(text):
    with pytest.raises(quarry.BadArgument, match="is not a size"):
        quarry.parse_size(text)


@pytest.mark.parametrize("size", [-1, 2**64])
def test_a_number_that_no_size_can_have_is_refused(size):
    with pytest.raises(quarry.BadArgument, match="is not from 0 to"):
        quarry.parse_size(size)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (3 << 29, "1.5 GiB"), (300 << 20, "300 MiB")],
)
def test_a_size_is_written_with_three_digits(size, text):
    assert quarry.format_size(size) == text

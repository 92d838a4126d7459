"""Reads `config.toml`: every entry with its line, and a word that nobody knows refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.config.file import Entry, entries
from agentctl.errors import UsageError

KNOWN = [
    ("defaults", "adapter"),
    ("defaults", "model"),
    ("adapters", "pi", "model"),
    ("launches", "ttl"),
]


def _read(tmp_path: Path, text: str | bytes) -> dict[tuple[str, ...], Entry]:
    file = tmp_path / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return entries(str(file), KNOWN)


def test_no_file_no_entries(tmp_path: Path) -> None:
    assert entries(str(tmp_path / "config.toml"), KNOWN) == {}


def test_entries_have_their_lines(tmp_path: Path) -> None:
    found = _read(tmp_path, '[launches]\nttl="1d"\n\n[ adapters . pi ] # ours\n"model" = "m"\n')
    assert found == {("launches", "ttl"): Entry("1d", 2), ("adapters", "pi", "model"): Entry("m", 5)}


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ('[defaults]\nadaptor = "pi"\n', ":2: no setting 'defaults.adaptor'", "defaults.adapter?"),
        ('\nmodel = "m"\n', ":2: no setting 'model'", "defaults.model?"),
        ('[default]\nmodel = "m"\n', ":2: no setting 'default.model'", "defaults.model?"),
        ("[adaptors.pi]\n", ":1: no setting 'adaptors.pi'", "adapters.pi.model?"),
        ('[adapters.pie]\nmodel = "m"\n', ":2: no setting 'adapters.pie.model'", "adapters.pi.model?"),
        ("launches = 7\n", ":1: no setting 'launches'", "launches.ttl?"),
        ("[zzz]\nqqq = 1\n", ":2: no setting 'zzz.qqq'", "agentctl config shows every one"),
    ],
)
def test_a_word_nobody_knows(tmp_path: Path, text: str, told: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).endswith(told)
    assert caught.value.hint.endswith(hint) or hint in caught.value.hint


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.toml is not TOML: .* \(at line 2, column"):
        _read(tmp_path, "[defaults]\nadapter = pi\n")


def test_what_is_no_text_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not UTF-8 text at byte 2"):
        _read(tmp_path, b"# \xc3\xff")


@given(
    st.text()
    | st.lists(
        st.sampled_from(["[defaults]", "[", "model = ", '"""', "'", "\n", "=", "adapters.pi", "."])
    ).map("".join)
)
def test_anything_is_entries_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    try:
        found = _read(tmp_path_factory.mktemp("any"), text.encode("utf-8", "replace"))
    except UsageError:
        return
    assert set(found) <= set(KNOWN)


def test_a_thousand_brackets_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        _read(tmp_path, f"a = {'[' * 100_000}")

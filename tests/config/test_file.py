"""Reading `config.toml`: every entry has its line, and an unknown word is refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.config.file import Entry, read_entries
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
    return read_entries(str(file), KNOWN)


def test_without_a_file_there_are_no_entries(tmp_path: Path) -> None:
    assert read_entries(str(tmp_path / "config.toml"), KNOWN) == {}


def test_entries_have_their_lines(tmp_path: Path) -> None:
    entries = _read(tmp_path, '[launches]\nttl="1d"\n\n[ adapters . pi ] # ours\n"model" = "m"\n')
    assert entries == {("launches", "ttl"): Entry("1d", 2), ("adapters", "pi", "model"): Entry("m", 5)}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[defaults]\nadaptor = "pi"\n', ":2: no setting 'defaults.adaptor'", "defaults.adapter?"),
        ('\nmodel = "m"\n', ":2: no setting 'model'", "defaults.model?"),
        ('[default]\nmodel = "m"\n', ":2: no setting 'default.model'", "defaults.model?"),
        ("[adaptors.pi]\n", ":1: no setting 'adaptors.pi'", "adapters.pi.model?"),
        ('[adapters.pie]\nmodel = "m"\n', ":2: no setting 'adapters.pie.model'", "adapters.pi.model?"),
        ("launches = 7\n", ":1: no setting 'launches'", "launches.ttl?"),
        ("[zzz]\nqqq = 1\n", ":2: no setting 'zzz.qqq'", "list all settings: agentctl config"),
    ],
)
def test_an_unknown_word_is_refused_with_a_hint(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        _read(tmp_path, text)
    assert str(caught.value).endswith(message)
    assert caught.value.hint.endswith(hint) or hint in caught.value.hint


def test_text_that_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.toml is not TOML: .* \(at line 2, column"):
        _read(tmp_path, "[defaults]\nadapter = pi\n")


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not UTF-8 text at byte 2"):
        _read(tmp_path, b"# \xc3\xff")


@given(
    st.text()
    | st.lists(
        st.sampled_from(["[defaults]", "[", "model = ", '"""', "'", "\n", "=", "adapters.pi", "."])
    ).map("".join)
)
def test_any_text_gives_entries_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    try:
        entries = _read(tmp_path_factory.mktemp("any"), text.encode("utf-8", "replace"))
    except UsageError:
        return
    assert set(entries) <= set(KNOWN)


def test_very_deep_brackets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        _read(tmp_path, f"a = {'[' * 100_000}")

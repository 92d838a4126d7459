from pathlib import Path

from tests.user.account import FIRST, LAST, Account, find_free_uid, list_owners


def test_a_free_uid_has_no_process() -> None:
    uid = find_free_uid()
    assert FIRST <= uid <= LAST
    assert uid not in list_owners().values()


def test_the_account_is_listed_after_the_others() -> None:
    account = Account(50_001, Path("/tmp/u/home"))
    assert account.passwd("root:x:0:0::/root:/bin/sh") == (
        "root:x:0:0::/root:/bin/sh\nagentctl-test:x:50001:50001::/tmp/u/home:/bin/sh\n"
    )
    assert account.group("") == "agentctl-test:x:50001:\n"

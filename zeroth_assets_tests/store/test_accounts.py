from __future__ import annotations

import pwd

import pytest

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.accounts import server_account


def _user(name: str, uid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/false"))


USERS = {name: _user(name, uid) for name, uid in [("root", 0), ("postgres", 101), ("nobody", 65534), ("ann", 1000)]}


def test_root_takes_the_first_candidate_that_exists() -> None:
    assert server_account(None, euid=0, users=USERS).name == "postgres"
    own = USERS | {"zeroth": _user("zeroth", 300)}
    assert server_account(None, euid=0, users=own).name == "zeroth"
    few = {name: entry for name, entry in USERS.items() if name != "postgres"}
    assert server_account(None, euid=0, users=few).name == "nobody"


def test_data_that_exists_is_served_by_its_owner() -> None:
    account = server_account(1000, euid=0, users=USERS)
    assert (account.name, account.switch) == ("ann", True)


def test_a_candidate_that_is_root_by_another_name_is_passed_over() -> None:
    users = {"root": USERS["root"], "postgres": _user("postgres", 0), "nobody": USERS["nobody"]}
    assert server_account(None, euid=0, users=users).name == "nobody"


def test_root_without_any_unprivileged_user_is_told_what_to_do() -> None:
    with pytest.raises(DatabaseError, match="useradd"):
        server_account(None, euid=0, users={"root": USERS["root"]})


def test_root_is_told_when_the_datas_owner_is_no_user() -> None:
    with pytest.raises(DatabaseError, match="uid 4711"):
        server_account(4711, euid=0, users=USERS)


def test_an_ordinary_user_runs_it_as_themselves() -> None:
    account = server_account(None, euid=1000, users=USERS)
    assert (account.name, account.switch, account.spawn) == ("ann", False, {})


def test_an_ordinary_user_does_not_get_somebody_elses_data() -> None:
    with pytest.raises(DatabaseError, match="owner postgres"):
        server_account(101, euid=1000, users=USERS)


def test_a_user_without_a_passwd_entry_is_told_so() -> None:
    with pytest.raises(DatabaseError, match="uid 5000"):
        server_account(None, euid=5000, users=USERS)

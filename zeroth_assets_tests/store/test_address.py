from __future__ import annotations

import pickle
import socket
import traceback

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from zeroth_assets.errors import DatabaseError
from zeroth_assets.store.address import Login, UnreachableError, parse_login
from zeroth_assets.store.passwords import Secret

HARD = "p@ss:w/o?rd#%'\\ é"


@pytest.mark.parametrize(
    "login",
    [
        Login("db.example.org", "5433", "ann", Secret(HARD), "data base", {"sslmode": "verify-full"}),
        Login("/run/postgresql", None, "ann", None, "zeroth"),
        Login("a.example.org,b.example.org", "5432,5433", "ann", Secret("x"), "zeroth"),
        Login("::1", "5432", None, None, "zeroth"),
        Login(None, None, None, None, "zeroth"),
    ],
)
def test_a_url_reads_back_as_the_same_login(login: Login) -> None:
    assert parse_login(login.url) == login


def test_a_keyword_string_is_read_as_well() -> None:
    login = parse_login("host=h port=6543 user=ann password='a b' dbname=d")
    assert (login.host, login.port, login.user, login.dbname) == ("h", "6543", "ann", "d")
    assert login.password == Secret("a b")


@pytest.mark.parametrize("text", ["postgresql://ann:hunter2@h:port/d x=", "mysql://ann:hunter2@h/d", "hunter2"])
def test_what_cannot_be_parsed_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(DatabaseError, match="cannot be parsed") as caught:
        parse_login(text)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def _dump(error: BaseException) -> str:
    """Everything a debugger-like traceback could show: each frame's locals, of each chained exception."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    linked = [error.__cause__, error.__context__]
    return "".join(shown.format()) + "".join(_dump(other) for other in linked if other is not None)


def test_a_server_that_is_down_is_named_and_the_password_is_not_shown_even_with_locals() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    login = Login("127.0.0.1", str(port), "ann", Secret("hunter2"), "d")
    with pytest.raises(UnreachableError) as caught:
        login.connect()
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "db start" in caught.value.remedy
    # The test's own frame holds the word, as it wrote it; the frames below must not.
    assert caught.value.__traceback__ is not None
    assert "hunter2" not in _dump(caught.value.with_traceback(caught.value.__traceback__.tb_next))
    assert "hunter2" not in repr(login) + str(login) + repr(caught.value)


def test_a_login_survives_pickling() -> None:
    login = Login("h", "1", "ann", Secret(HARD), "d", {"sslmode": "disable"})
    assert pickle.loads(pickle.dumps(login)) == login


def test_the_url_is_what_libpq_reads() -> None:
    login = Login(
        "127.0.0.1", "5432", "ann", Secret(HARD), "d", {"require_auth": "scram-sha-256", "sslmode": "disable"}
    )
    parsed = conninfo_to_dict(login.url)
    assert parsed["password"] == HARD
    assert "require_auth" not in parsed  # programs of an older libpq would refuse the URL
    assert psycopg.pq.Conninfo.parse(login.url.encode())

"""The error roots: codes are unique, errors pickle."""

from __future__ import annotations

import pickle

import pytest

from bolide.errors import ArgumentError, BolideError, PeerError, RequestTimeout, error_class


def test_two_classes_for_one_code_are_refused() -> None:
    class Taken(PeerError):
        code = 987_001

    try:
        with pytest.raises(TypeError, match="987001 belongs to Taken"):

            class Thief(PeerError):
                code = 987_001

    finally:
        del BolideError.by_code[987_001]
    assert Taken.code == 987_001


def test_an_unknown_code_is_the_peers_fault() -> None:
    assert error_class(987_002) is PeerError


def test_errors_pickle_with_their_text() -> None:
    error = pickle.loads(pickle.dumps(RequestTimeout("no answer from 127.0.0.1:1 within 3000 ms")))
    assert type(error) is RequestTimeout
    assert str(error) == "no answer from 127.0.0.1:1 within 3000 ms"


def test_a_bad_argument_pickles_with_its_name() -> None:
    error = pickle.loads(pickle.dumps(ArgumentError("retries is -1, give a whole number of at least 0", "retries")))
    assert (type(error), error.argument, str(error).split()[0]) == (ArgumentError, "retries", "retries")

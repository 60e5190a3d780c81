"""Decodes the body of a message, JSON in the envelope of JSON-RPC, or says why it is invalid.

A client may send anything. Knows no methods but that those of our own say themselves what is wrong with parameters.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, cast

from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
)

from distir.files import limits

OWN = "distir/"
"""How the methods of our own begin."""

LONGEST_INTEGER = 300
"""Digits of an integer that is read at all."""


class Unreadable(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A malformed message. `error`: what is wrong; `id`: of the request, None if unknown.

    What is no request has no answer: `is_answered` is False.
    """

    def __init__(self, error: JsonRpcException, id: str | int | None = None, *, is_answered: bool = True) -> None:
        super().__init__(error.message)
        self.error, self.id, self.is_answered = error, id, is_answered


class MessageReader:
    """Reads messages. Numbers that JSON does not have are None, as infinite ones are: to standard requests, errors."""

    def __init__(self) -> None:
        self._no_numbers: list[str] = []
        numbers: dict[str, Any] = {"parse_constant": self._no_number, "parse_float": self._float}
        self._quick = json.JSONDecoder(**numbers)
        self._careful = json.JSONDecoder(**numbers, parse_int=self._integer)

    def read(self, body: bytes) -> dict[str, Any]:
        """The message that a body holds. Raises Unreadable."""
        self._no_numbers.clear()
        try:
            data = self._decoded(body.decode("utf-8"))
        except RecursionError:
            raise Unreadable(JsonRpcParseError("Parse Error: nested too deep")) from None
        except ValueError as error:
            raise Unreadable(JsonRpcParseError(f"Parse Error: {error}")) from None
        if not isinstance(data, dict):
            raise Unreadable(JsonRpcInvalidRequest("Invalid Request: expected an object"))
        message = cast("dict[str, Any]", data)
        self._check(message)
        if body.count(b"[") + body.count(b"{") > limits.NESTED and _is_deep(message):
            _refuse(message, JsonRpcInvalidParams(f"Invalid Params: nested more than {limits.NESTED} deep"))
        if self._no_numbers and not str(message.get("method", OWN)).startswith(OWN):
            what = f"`{self._no_numbers[0][:20]}` is no number that JSON has"
            _refuse(message, JsonRpcInvalidParams(f"Invalid Params: {what}"))
        return message

    def _check(self, message: dict[str, Any]) -> None:
        """Whether it is a request, a notification or a response. Raises Unreadable."""
        if "id" in message and (type(message["id"]) not in (int, str)) and not _is_nameless_response(message):
            raise Unreadable(JsonRpcInvalidRequest("Invalid Request: expected a text or an integer as `id`"))
        if message.get("jsonrpc") != "2.0":
            _refuse(message, JsonRpcInvalidRequest('Invalid Request: expected "2.0" as `jsonrpc`'))
        if "method" not in message:
            if "result" not in message and "error" not in message:
                _refuse(message, JsonRpcInvalidRequest("Invalid Request: neither a `method` nor a `result`"))
        elif not isinstance(message["method"], str):
            _refuse(message, JsonRpcInvalidRequest("Invalid Request: expected a text as `method`"))
        elif not isinstance(message.get("params"), (dict, list, type(None))):
            _refuse(message, JsonRpcInvalidParams("Invalid Params: expected an object as `params`"))

    def _decoded(self, text: str) -> Any:
        try:
            return self._quick.decode(text)
        except json.JSONDecodeError:
            raise
        except ValueError:  # an integer of more digits than Python reads
            self._no_numbers.clear()
            return self._careful.decode(text)

    def _no_number(self, text: str) -> None:
        self._no_numbers.append(text)

    def _float(self, text: str) -> float | None:
        value = float(text)
        return value if math.isfinite(value) else self._no_number(text)

    def _integer(self, text: str) -> int | None:
        return int(text) if len(text) <= LONGEST_INTEGER else self._no_number(text)


def _refuse(message: dict[str, Any], error: JsonRpcException) -> NoReturn:
    is_request = "id" in message and ("method" in message or not {"result", "error"} & message.keys())
    raise Unreadable(error, message["id"] if is_request else None, is_answered=is_request)


def _is_nameless_response(message: dict[str, Any]) -> bool:
    """How clients say that they could not read a message of ours."""
    return message["id"] is None and "error" in message and "method" not in message


def _is_deep(message: dict[str, Any]) -> bool:
    level: list[Any] = [message]
    for _ in range(limits.NESTED):
        held = (cast("dict[str, Any]", v).values() if isinstance(v, dict) else v for v in level)
        level = [each for values in held for each in values if isinstance(each, (dict, list))]
        if not level:
            return False
    return True

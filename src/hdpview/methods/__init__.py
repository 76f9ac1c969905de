"""Methods: ways to build a view, behind one protocol. Methods never import each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any

from hdpview.errors import MethodError, unknown_name
from hdpview.methods.hdpview import Hdpview
from hdpview.methods.mixture import Mixture
from hdpview.methods.protocol import Method

DEFAULT_METHOD = "mixture"

METHODS: dict[str, type[Any]] = {"mixture": Mixture, "hdpview": Hdpview}


def chosen_method(method: str | Method, settings: dict[str, Any], call: Callable[..., Any]) -> Method:
    """The method that a call asked for, given by name with settings or as an object with its own.

    Unknown arguments are errors: a misspelt `privacy_unit` would silently protect rows instead of people.

    call: the function that was called; error messages suggest its arguments too.
    """
    own = [
        name
        for name, parameter in signature(call).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    ]
    fields = list(
        getattr(METHODS.get(method) if isinstance(method, str) else method, "__dataclass_fields__", ())
    )
    known = own if not isinstance(method, str) else [*own, *fields]
    for key in settings:
        if not isinstance(method, str) and key in fields:
            raise MethodError(
                f"A method object already carries its settings: write {type(method).__name__}({key}=…) "
                f"and omit {key} here."
            )
        if key not in fields and (not isinstance(method, str) or method in METHODS):
            raise MethodError(unknown_name("argument", key, known, f"{call.__name__} takes"))
    return method_named(method, settings) if isinstance(method, str) else method


def method_named(name: str, settings: dict[str, Any], methods: Mapping[str, type[Any]] = METHODS) -> Method:
    """The method of that name with these settings. methods: all methods by name."""
    if name not in methods:
        raise MethodError(unknown_name("method", name, methods, "The methods are"))
    cls = methods[name]
    known = list(cls.__dataclass_fields__)
    for key in settings:
        if key not in known:
            raise MethodError(unknown_name("setting", key, known, f"The method {name} has"))
    method: Method = cls(**settings)
    return method


__all__ = ["DEFAULT_METHOD", "METHODS", "Hdpview", "Method", "Mixture", "chosen_method", "method_named"]

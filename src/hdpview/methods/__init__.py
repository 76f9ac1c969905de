"""Methods: ways to build a view, behind one protocol. Methods never import each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from hdpview.errors import MethodError, unknown_name
from hdpview.methods.hdpview import Hdpview
from hdpview.methods.mixture import Mixture
from hdpview.methods.protocol import Method

DEFAULT_METHOD = "mixture"

METHODS: dict[str, type[Any]] = {"mixture": Mixture, "hdpview": Hdpview}


def chosen_method(method: str | Method, settings: dict[str, Any], call: Callable[..., Any]) -> Method:
    """Resolve the method of a call, given by name with settings or as an object with its own.

    Unknown arguments are errors: a misspelt `privacy_unit` would silently protect rows instead of people.

    call: the function that was called; error messages suggest its arguments too.
    """
    arguments = [one.name for one in signature(call).parameters.values() if one.kind is not one.VAR_KEYWORD]
    if isinstance(method, str):
        return method_named(method, settings, others=arguments, call=call.__name__)
    if not hasattr(method, "release"):
        raise MethodError(f"method must be one of {', '.join(METHODS)}, or a method object, not {method!r}.")
    for key in settings:
        if not hasattr(method, key):
            raise MethodError(unknown_name("argument", key, arguments, f"{call.__name__} takes"))
        raise MethodError(
            f"A method object already carries its settings: write {type(method).__name__}({key}=…) "
            f"and omit {key} here."
        )
    return method


def method_named(
    name: str,
    settings: dict[str, Any],
    methods: Mapping[str, type[Any]] = METHODS,
    others: Sequence[str] = (),
    call: str = "the method",
) -> Method:
    """The method of that name with these settings. methods: all methods by name.

    others, call: for messages: further arguments of the call that names the method.
    """
    if name not in methods:
        raise MethodError(unknown_name("method", name, methods, "The methods are"))
    known = list(methods[name].__dataclass_fields__)
    for key in settings:
        if key not in known:
            raise MethodError(unknown_name("argument", key, [*others, *known], f"{call} takes"))
    method: Method = methods[name](**settings)
    return method


__all__ = ["DEFAULT_METHOD", "METHODS", "Hdpview", "Method", "Mixture", "chosen_method", "method_named"]

"""Frozen values with defaults, limits and descriptions, which pydantic checks as soon as one is given.

Importing pydantic takes longer than a recall. So a class made here is a plain one, with the methods of a pydantic model
that are used, and has a pydantic model of the same fields, which is made when there is something to check.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform, get_type_hints

if TYPE_CHECKING:
    from pydantic import BaseModel


def plain_message(message: str) -> str:
    """Return a message of pydantic as a part of a sentence: without its prefix, and with a small first letter."""
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


@dataclass(frozen=True, slots=True)
class Declared:
    """A field: its type as it is written, its default, and what else pydantic's `Field` is given."""

    annotation: str
    default: Any
    default_factory: Callable[[], Any] | None
    limits: Mapping[str, Any]

    @property
    def description(self) -> str:
        """What the field is for."""
        return str(self.limits.get("description", ""))

    def new_default(self) -> Any:
        """Return the value of an object for which none is given."""
        return self.default_factory() if self.default_factory else self.default

    def accepts(self, value: object) -> bool:
        """Whether a value is valid without a check: a text for a field that takes any text."""
        return self.annotation == "str" and type(value) is str and self.limits.keys() <= {"description"}


def field(*, default: Any = None, default_factory: Callable[[], Any] | None = None, **limits: Any) -> Any:
    """Declare a field. `limits` are arguments of pydantic's `Field`: ge, le, max_length, description and others."""
    return Declared("", default, default_factory, limits)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class LazyModel:
    """Base class of frozen values. Its methods are those of a pydantic model."""

    model_config: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    model_fields: ClassVar[dict[str, Declared]] = {}
    model_fields_set: frozenset[str]

    def __init_subclass__(cls) -> None:
        cls.model_fields = {}
        for name, annotation in cls.__annotations__.items():
            value = vars(cls)[name]
            declared = value if isinstance(value, Declared) else field(default=value)
            cls.model_fields[name] = Declared(
                str(annotation), declared.default, declared.default_factory, declared.limits
            )
            delattr(cls, name)

    def __init__(self, /, **values: Any) -> None:
        declared = type(self).model_fields
        if not all(name in declared and declared[name].accepts(value) for name, value in values.items()):
            values = _given(type(self).pydantic_model()(**values))
        vars(self).update(self._complete(values), model_fields_set=frozenset(values))

    @classmethod
    def _complete(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Add the defaults of the fields that have no value."""
        return {
            name: values[name] if name in values else declared.new_default()
            for name, declared in cls.model_fields.items()
        }

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: '{name}' cannot be set")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._values().items())})"

    def _values(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in type(self).model_fields}

    @classmethod
    def model_validate(cls, values: Any) -> Self:
        """Return an object of plain values. `pydantic.ValidationError` names every one that is wrong."""
        if isinstance(values, Mapping):
            return cls(**values)
        return cls.model_construct(**_given(cls.pydantic_model().model_validate(values)))

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        """Return an object of values that are valid, without a check."""
        new = cls.__new__(cls)
        vars(new).update(cls._complete(values), model_fields_set=frozenset(values))
        return new

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return a copy with some valid values changed, without a check."""
        new = type(self).model_construct(**{**self._values(), **update})
        vars(new)["model_fields_set"] = self.model_fields_set | update.keys()
        return new

    def model_dump(
        self,
        *,
        include: Collection[str] | None = None,
        exclude: Collection[str] = (),
        exclude_unset: bool = False,
        by_alias: bool = False,
    ) -> dict[str, Any]:
        """Return the values by name."""
        alias = type(self).model_config.get("alias_generator") if by_alias else None
        wanted = self.model_fields_set if exclude_unset else type(self).model_fields
        return {
            alias(name) if alias else name: _plain(value)
            for name, value in self._values().items()
            if name in wanted and (include is None or name in include) and name not in exclude
        }

    def model_dump_json(self, *, by_alias: bool = False) -> str:
        """Return the values as JSON."""
        return json.dumps(self.model_dump(by_alias=by_alias), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def model_json_schema(cls, *, by_alias: bool = True) -> dict[str, Any]:
        """Return the JSON schema."""
        return cls.pydantic_model().model_json_schema(by_alias=by_alias)

    @classmethod
    @cache
    def pydantic_model(cls) -> type[BaseModel]:
        """Return the pydantic model of the same fields."""
        import pydantic

        named = {name: getattr(pydantic, name) for name in ("Field", "SecretStr")}  # imported for type checkers only
        hints = get_type_hints(cls, localns=named, include_extras=True)
        fields: dict[str, Any] = {}
        for name, declared in cls.model_fields.items():
            given: dict[str, Any] = {**declared.limits, "default": declared.default}
            if declared.default_factory:
                given = {**declared.limits, "default_factory": declared.default_factory}
            fields[name] = (hints[name], pydantic.Field(**given))
        config = pydantic.ConfigDict(**cls.model_config)  # type: ignore[typeddict-item]  # plain, to need no import
        return pydantic.create_model(
            cls.__name__, __config__=config, __doc__=cls.__doc__, __module__=cls.__module__, **fields
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, handler: Any) -> Any:
        """Let pydantic check fields of this type."""
        from pydantic_core import core_schema

        def check(value: Any, as_model: Callable[[Any], BaseModel]) -> LazyModel:
            return value if isinstance(value, cls) else cls.model_construct(**_given(as_model(value)))

        return core_schema.no_info_wrap_validator_function(
            check,
            handler(cls.pydantic_model()),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.model_dump),
        )


def _given(model: BaseModel) -> dict[str, Any]:
    """The checked values that were given, without defaults."""
    return {name: getattr(model, name) for name in model.model_fields_set}


def _plain(value: Any) -> Any:
    if isinstance(value, LazyModel):
        return value.model_dump()
    return dict(value) if isinstance(value, dict) else value

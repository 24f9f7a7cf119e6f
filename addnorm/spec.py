"""Spec: anything a run or a study may vary. Frozen, validated, JSON and YAML in and out, named by `kind`.

    class Norm(Spec, family="norm"):                 # a family: what a field is typed by
        ...
    class RMSNorm(Norm, kind="rms_norm"):            # a member: found by its kind, by anybody
        eps: float = 1e-6

    class Model(Spec, family="model", kind="model"):
        norm: Norm = RMSNorm()

    Model(norm="rms_norm")                           # by name
    Model(norm={"kind": "rms_norm", "eps": 1e-5})    # by data, as it comes from JSON or YAML
    Model().replace({"norm.eps": 1e-5})              # by dotted path

A family's registry is open: a class of somebody else's becomes a value of our fields by being defined.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import core_schema

# Numbers are strict: "3" is not 3, and True is not 1.
Bool = Annotated[bool, Strict()]
Int = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Float = Annotated[float, Strict()]
Positive = Annotated[float, Strict(), Field(gt=0.0)]
Share = Annotated[float, Strict(), Field(ge=0.0, le=1.0)]


class SpecError(ValueError):
    """A Spec that cannot be: says what was wanted, what came, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name: the nearest known ones, then all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}Known: {', '.join(known)}"


class Spec(BaseModel):
    """Frozen, closed, finite. Subclass a family; give every concrete class a `kind`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str] = ""
    family: ClassVar[str] = ""
    registry: ClassVar[dict[str, type[Spec]]] = {}

    def __init_subclass__(cls, family: str = "", kind: str = "", **config: Any) -> None:
        super().__init_subclass__(**config)
        cls.kind = kind
        if family:
            cls.family, cls.registry = family, {}
        if kind:
            taken = cls.registry.get(kind)
            # The same class defined again (a reloaded notebook cell) may replace itself; another one may not.
            if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
                raise SpecError(
                    f"{cls.__qualname__}: the {cls.family} kind {kind!r} is taken by {taken.__module__}."
                    f"{taken.__qualname__}; choose another kind"
                )
            cls.registry[kind] = cls

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise SpecError(_sentence(type(self), error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise SpecError(
            f"{self.kind} is frozen: {name} cannot be set; use .replace({{{name!r}: ...}}) for a changed copy"
        )

    # -- fields typed by a family ------------------------------------------------------------------

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """A field typed by a family takes any member: an instance, a kind, or data. Nothing is lost on dump."""
        if cls.kind:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.to_dict()),
        )

    @classmethod
    def parse(cls, value: Any) -> Self:
        """A member of this family from an instance, a kind, or a mapping with `kind`."""
        if not cls.family:
            raise SpecError(f"{cls.__name__} is no family: call this on one, such as ModelSpec or Arrangement")
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.named(value)()
        if isinstance(value, Mapping):
            data = dict(value)
            kind = data.pop("kind", cls.kind)
            if not isinstance(kind, str) or not kind:
                raise SpecError(f"wanted a {cls.family} as a mapping with 'kind', came {dict(value)!r}; add 'kind'")
            strange = [key for key in data if not isinstance(key, str)]
            if strange:
                raise SpecError(f"{kind}: wanted options by name, came the keys {strange!r}")
            return cls.named(kind)(**data)
        raise SpecError(f"wanted a {cls.family}, came {value!r}; give a kind, a mapping with 'kind', or an object")

    @classmethod
    def named(cls, kind: str) -> type[Self]:
        """The member of this family with that kind."""
        found = cls.registry.get(kind)
        if found is None:
            raise SpecError(f"unknown {cls.family} {kind!r}: {nearest(kind, cls.registry)}")
        if not issubclass(found, cls):
            raise SpecError(f"wanted the {cls.family} {cls.kind!r}, came {kind!r}, which is another")
        return found

    @model_validator(mode="before")
    @classmethod
    def _kind_agrees(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and "kind" in data:
            data = dict(data)
            kind = data.pop("kind")
            if kind != cls.kind:
                raise SpecError(f"wanted kind {cls.kind!r}, came {kind!r}")
        return data

    def __str__(self) -> str:
        return repr(self)

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: Any) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}

    # -- as data -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data: dicts, lists, strings, numbers, None."""
        return self.model_dump(mode="json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls.parse(data)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            return cls.parse(json.loads(text, object_pairs_hook=_no_key_twice))
        except json.JSONDecodeError as error:
            raise SpecError(f"wanted JSON, came text that is not: {error}") from None

    def to_yaml(self) -> str:
        return dump_yaml(self.to_dict())

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        return cls.parse(load_yaml(text))

    def fingerprint(self) -> str:
        """Sixteen hex digits that are equal exactly when the Specs are."""
        data = {"family": self.family, "spec": _unsigned_zeros(self.to_dict())}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some fields changed, addressed by dotted path: {"arrangement.norm.eps": 1e-6}."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        nested: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            name, _, rest = path.partition(".")
            if name not in fields:
                raise SpecError(f"{self.kind} has no field {name!r}: {nearest(name, fields)}")
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                fields[name] = value
        for name, below in nested.items():
            if not isinstance(fields[name], Spec):
                raise SpecError(f"{self.kind}.{name} is {fields[name]!r}, which has no fields to change: {list(below)}")
            fields[name] = fields[name].replace(below)
        return type(self)(**fields)

    def walk(self) -> Iterator[Spec]:
        """This Spec and every Spec inside it."""
        yield self
        for name in type(self).model_fields:
            value = getattr(self, name)
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Spec):
                    yield from item.walk()


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise SpecError(f"JSON: the same key twice in one mapping: {', '.join(map(repr, twice))}")
    return data


def _unsigned_zeros(data: Any) -> Any:
    """-0.0 equals 0.0, so it must not be written differently."""
    if isinstance(data, dict):
        return {key: _unsigned_zeros(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_unsigned_zeros(value) for value in data]
    return data + 0.0 if isinstance(data, float) else data


def _sentence(cls: type[Spec], error: ValidationError) -> str:
    """pydantic's report as one sentence per fault: where, what was wanted, what came."""
    faults = []
    for fault in error.errors():
        where = ".".join(str(part) for part in fault["loc"])
        came = fault["input"]
        if fault["type"] == "extra_forbidden":
            faults.append(f"no option {where!r}: {nearest(where, cls.model_fields)}")
        elif fault["type"] == "value_error":
            faults.append(f"{where}: {fault['ctx']['error']}" if where else str(fault["ctx"]["error"]))
        else:
            wanted = fault["msg"].removeprefix("Input should be ")
            faults.append(f"{where}: wanted {wanted}, came {came!r}")
    return f"{cls.__name__}: " + "; ".join(faults)


# -- YAML ----------------------------------------------------------------------------------------------
# PyYAML speaks YAML 1.1, where `1e-3` is a word and `no` is False. These two classes speak the core schema
# of YAML 1.2, on the way in and on the way out, so that what is written is what is read.

_YAML_WORDS = {
    "tag:yaml.org,2002:null": (r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    "tag:yaml.org,2002:int": (r"^[-+]?[0-9]+$", list("-+0123456789")),
    "tag:yaml.org,2002:float": (
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+0123456789."),
    ),
}


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML needs PyYAML: pip install 'addnorm[yaml]', or use JSON") from error
    return yaml


def load_yaml(text: str) -> Any:
    """YAML 1.2 core data: `1e-3` is a number, `no` is a word, a doubled key is an error."""
    yaml = _yaml()

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _ in node.value]
            twice = sorted({key for key in keys if keys.count(key) > 1})
            if twice:
                raise SpecError(f"YAML: the same key twice in one mapping: {', '.join(map(repr, twice))}")
            return super().construct_mapping(node, deep)

    for tag, (pattern, first) in _YAML_WORDS.items():
        Loader.add_implicit_resolver(tag, re.compile(pattern), first)
    # 1.1 reads 0123 as octal and 1:30 as sexagesimal; 1.2 does not.
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    try:
        return yaml.load(text, Loader)
    except SpecError:
        raise
    except (yaml.YAMLError, ValueError, KeyError, AttributeError) as error:  # the last two from odd tags
        raise SpecError(f"wanted YAML, came text that is not: {error}") from None


def _represent_string(dumper: Any, text: str) -> Any:
    """Characters that YAML reads as line breaks are written as escapes."""
    style = '"' if set(text) & set("\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def dump_yaml(data: Any) -> str:
    yaml = _yaml()

    class Dumper(yaml.SafeDumper):  # type: ignore[name-defined]
        yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    for tag, (pattern, first) in _YAML_WORDS.items():
        Dumper.add_implicit_resolver(tag, re.compile(pattern), first)
    Dumper.add_representer(str, _represent_string)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True)

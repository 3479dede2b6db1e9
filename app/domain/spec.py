"""What the phases of planning hand in: one model per phase, and the JSON Schema that the agent's tool carries. Pure.

The descriptions are read by a model: they say what is wanted. What no schema can say (references, cycles, files that
exist) stands in `sandbox_payload.wire.gates`. Two caps for one list are meant: the schema's is only a bound on sizes,
the gate's is the rule and answers in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from app.domain.errors import IssuewrightError
from sandbox_payload.wire.gates import MAX_FINDINGS
from sandbox_payload.wire.plan import Finding, PhaseName

# `\S`: JSON Schema's minLength takes a blank for a text.
Short = Annotated[str, StringConstraints(pattern=r"\S", max_length=300)]
Line = Annotated[str, StringConstraints(pattern=r"\S", max_length=1_000)]
Long = Annotated[str, StringConstraints(pattern=r"\S", max_length=8_000)]
Id = Annotated[str, StringConstraints(pattern=r"\S", max_length=40)]
FilePath = Annotated[str, StringConstraints(pattern=r"\S", max_length=1_000)]
Version = Annotated[str, StringConstraints(max_length=100)]
Command = Annotated[str, StringConstraints(pattern=r"\S", max_length=2_000)]
FreeText = Annotated[str, StringConstraints(max_length=8_000)]


class Part(BaseModel):
    """Unknown fields are refused: what a model writes there would be lost without a word."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class PhaseOutput(Part):
    """What one phase hands in. `VERSION` grows when a field changes its meaning or is needed anew."""

    VERSION: ClassVar[int] = 1


class Technology(Part):
    name: Short = Field(description="Its usual name, for example Python or FastAPI")
    version: Version | None = Field(
        default=None,
        description="As the repository states it (manifest, lock file); null when it states none",
    )


class KeyFile(Part):
    path: FilePath = Field(
        description="Relative to the repository's root, with forward slashes; it must exist"
    )
    purpose: Line = Field(description="What it is for, in one sentence")


class RelatedCode(Part):
    path: FilePath = Field(
        description="Relative to the repository's root, with forward slashes; it must exist"
    )
    why: Line = Field(
        description="What it has to do with the issue: to be changed, to be followed, to be kept working"
    )


class Conventions(Part):
    naming: Long = Field(description="How files, functions and types are named here")
    tests: Long = Field(
        description="Where tests stand, how they are named and written; say so if there are none"
    )
    style: Long = Field(description="Formatter, linter, typing and other habits that new code has to keep")


class TriedCommand(Part):
    command: Command | None = Field(
        default=None, description="One shell line to be run at the repository's root; null when there is none"
    )
    worked: bool | None = Field(
        default=None, description="Whether it succeeded when you ran it; null only when you could not try"
    )
    notes: FreeText = Field(default="", description="What it printed or needs that somebody must know")


class OpenQuestion(Part):
    id: Id = Field(description="Q1, Q2, … in order")
    question: Line = Field(description="One question that neither the issue nor the code answers")
    blocking: bool = Field(description="True only if a wrong guess would make the whole work useless")


class ExploreOutput(PhaseOutput):
    """What the repository is, and what in it matters for this issue."""

    project_kind: Line = Field(
        description="What the repository is: a library, a web service, a command-line tool, …"
    )
    languages: tuple[Technology, ...] = Field(
        max_length=50, description="Programming languages in use, main one first"
    )
    frameworks: tuple[Technology, ...] = Field(
        max_length=50, description="Frameworks and libraries that shape the code, including the test runner"
    )
    structure: Long = Field(
        description="How the repository is laid out: main directories and what is in them"
    )
    key_files: tuple[KeyFile, ...] = Field(
        max_length=100, description="The files somebody has to know to work on this issue"
    )
    conventions: Conventions = Field(description="What new code has to keep to")
    setup: TriedCommand = Field(
        description="How the project is made ready for its tests: look for it and try it"
    )
    test: TriedCommand = Field(description="How the tests are run: look for it and try it")
    related_code: tuple[RelatedCode, ...] = Field(
        default=(), max_length=100, description="Existing code that this issue touches or should follow"
    )
    open_questions: tuple[OpenQuestion, ...] = Field(
        default=(),
        max_length=30,
        description="What really is open; decide everything that can be decided sensibly",
    )
    scope_in: tuple[Line, ...] = Field(max_length=50, description="What belongs to this issue")
    scope_out: tuple[Line, ...] = Field(
        default=(), max_length=50, description="What somebody might expect but does not belong to it"
    )


class Criterion(Part):
    id: Id = Field(description="The requirement's id, a dot and a number: R1.1, R1.2, …")
    text: Line = Field(
        description="Something a test or a look at the result can decide, with concrete values"
    )


class Requirement(Part):
    id: Id = Field(description="R1, R2, … in order")
    statement: Line = Field(
        description="One sentence in EARS form: THE <system> SHALL …, or WHEN / WHILE / IF / WHERE …, "
        "THE <system> SHALL …"
    )
    criteria: tuple[Criterion, ...] = Field(
        max_length=30, description="Acceptance criteria: at least one for each requirement"
    )


class RequirementsOutput(PhaseOutput):
    """What the work has to achieve, so that people can agree and tests can tell."""

    requirements: tuple[Requirement, ...] = Field(
        max_length=100, description="At least one, each about one behaviour that can be observed"
    )
    assumptions: tuple[Line, ...] = Field(
        default=(), max_length=50, description="What you decided where the issue is silent"
    )
    out_of_scope: tuple[Line, ...] = Field(default=(), max_length=50, description="What will not be done")


class FileChange(Part):
    path: FilePath = Field(description="Relative to the repository's root, with forward slashes")
    change: Literal["create", "modify", "delete"] = Field(
        description="modify and delete name a file that exists, or that something earlier in the plan creates"
    )


class Component(Part):
    name: Short = Field(description="A short name")
    purpose: Line = Field(description="What it does in the finished work")
    files: tuple[FileChange, ...] = Field(
        max_length=100, description="Every file it is made of, tests included"
    )
    requirements: tuple[Id, ...] = Field(max_length=100, description="Ids of the requirements it serves")


class Alternative(Part):
    option: Line = Field(description="Another way it could have been done")
    refused_because: Line = Field(description="Why not")


class DesignOutput(PhaseOutput):
    """How it will be built, down to the files."""

    approach: Long = Field(description="The idea in a few sentences, for a reviewer who knows the code")
    components: tuple[Component, ...] = Field(max_length=60, description="The parts that are made or changed")
    data_changes: tuple[Line, ...] = Field(
        default=(), max_length=50, description="Schemas, migrations, stored formats; empty if none change"
    )
    interface_changes: tuple[Line, ...] = Field(
        default=(),
        max_length=50,
        description="Public functions, endpoints, commands, options; empty if none change",
    )
    error_handling: Long = Field(description="What can go wrong and what happens then")
    security: Long = Field(description="Whose input is read, what could be misused, what guards against it")
    test_strategy: Long = Field(description="What is tested, where the tests stand, how they are run")
    alternatives: tuple[Alternative, ...] = Field(
        default=(), max_length=20, description="What was weighed and refused"
    )


class PlanTask(Part):
    id: Id = Field(description="T1, T2, … in order")
    title: Short = Field(description="What is done, as an imperative: Add …, Replace …")
    description: Long = Field(
        description="All that somebody who sees only this task, its requirements and the design has to know"
    )
    kind: Literal["implementation", "test", "documentation", "refactor", "research"] = Field(
        description="What the task mainly is"
    )
    files: tuple[FileChange, ...] = Field(
        max_length=100, description="Every file it makes, changes or deletes"
    )
    criteria: tuple[Id, ...] = Field(
        max_length=200, description="Ids of the acceptance criteria it fulfils: R1.1, …"
    )
    requirements: tuple[Id, ...] = Field(
        max_length=100, description="Ids of the requirements it serves: R1, …"
    )
    depends_on: tuple[Id, ...] = Field(
        default=(),
        max_length=100,
        description="Ids of the tasks whose result it needs; empty lets it run side by side",
    )
    estimate_hours: float = Field(
        gt=0, le=10_000, description="Hours of a person's work, at most 4: split what is larger"
    )


class TasksOutput(PhaseOutput):
    """The work in pieces, each small enough for one sandbox."""

    tasks: tuple[PlanTask, ...] = Field(max_length=500, description="At least one, at most 60")


PHASE_MODELS: Mapping[PhaseName, type[PhaseOutput]] = MappingProxyType(
    {
        PhaseName.EXPLORE: ExploreOutput,
        PhaseName.REQUIREMENTS: RequirementsOutput,
        PhaseName.DESIGN: DesignOutput,
        PhaseName.TASKS: TasksOutput,
    }
)
"""Of the phases that an agent does; `sync` has no output of a model."""


class BadOutput(IssuewrightError):
    """An output that does not fit its phase's schema; `findings` say where and why, at most MAX_FINDINGS of them."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(map(str, findings)))
        self.findings = list(findings)


def phase_schema(phase: PhaseName) -> dict[str, Any]:
    """The JSON Schema of what `phase` hands in, complete in itself. Raises KeyError for `sync`."""
    schema = PHASE_MODELS[phase].model_json_schema()
    definitions: dict[str, Any] = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline(schema, definitions)
    return inlined


def _inline(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    # A title that is text repeats the name; one that is a schema is a property called so.
    kept = {
        key: value
        for key, value in node.items()
        if key != "$ref" and not (key == "title" and isinstance(value, str))
    }
    if "$ref" in node:
        kept = {**definitions[node["$ref"].rpartition("/")[2]], **kept}
        return _inline(kept, definitions)
    return {key: _inline(value, definitions) for key, value in kept.items()}


def parse_output(phase: PhaseName, data: object) -> PhaseOutput:
    """`data` as the model of its phase. Raises BadOutput with a finding of rule `schema` for each fault."""
    try:
        # By way of JSON: there a list is what a tuple is made of, and nothing but JSON can be in it.
        return PHASE_MODELS[phase].model_validate_json(json.dumps(data, allow_nan=False))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise BadOutput([_finding(fault["loc"], fault["msg"]) for fault in faults[:MAX_FINDINGS]]) from None
    except (TypeError, ValueError, RecursionError):
        raise BadOutput([_finding((), "the output is not plain JSON")]) from None


def normalize_output(phase: PhaseName, data: object) -> dict[str, Any]:
    """`data` with every field that may be left out filled in: the form that is stored and hashed. Raises BadOutput."""
    return parse_output(phase, data).model_dump(mode="json")


def _finding(location: tuple[int | str, ...], message: str) -> Finding:
    # A name that is not known is the model's own text.
    names = (part if isinstance(part, int) or part.isidentifier() else ascii(part[:40]) for part in location)
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in names)
    return Finding(rule="schema", message=message[:2_000], where=where.removeprefix(".")[:300])

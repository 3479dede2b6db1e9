"""GraphQL: the few mutations and queries the product needs, with GitHub's error shape."""

from typing import Any

from simulators.github.auth import Principal
from simulators.github.errors import ApiError
from simulators.github.graphql_fields import MUTATIONS, GraphQLError, Scope, root_query
from simulators.github.graphql_syntax import Field, GraphQLSyntaxError, parse
from simulators.github.platform import Platform

Json = dict[str, Any]


def execute(platform: Platform, principal: Principal, payload: Json) -> Json:
    """Runs one document; the answer has ``data`` and, when something failed, ``errors``."""
    if principal.token is None:
        raise ApiError(401, "Bad credentials")
    text, variables = payload.get("query"), payload.get("variables") or {}
    if not isinstance(text, str):
        return {"errors": [{"message": "A query attribute must be specified and must be a string."}]}
    try:
        document = parse(text, payload.get("operationName"))
    except GraphQLSyntaxError as problem:
        return {"errors": [{"message": str(problem), "extensions": {"code": "parseError"}}]}
    scope = Scope(platform, principal, {**document.defaults, **variables})
    data: Json = {}
    errors: list[Json] = []
    for field in document.fields:
        try:
            data[field.alias] = _root(scope, document.operation, field)
        except GraphQLError as problem:
            data[field.alias] = None
            errors.append(problem.json([field.alias], field.position))
    return {"data": data, "errors": errors} if errors else {"data": data}


def _root(scope: Scope, operation: str, field: Field) -> Any:
    arguments = scope.arguments(field)
    if field.name == "__typename":
        return "Mutation" if operation == "mutation" else "Query"
    if operation == "mutation":
        mutate = MUTATIONS.get(field.name)
        if mutate is None:
            raise GraphQLError("undefinedField", f"Field '{field.name}' doesn't exist on type 'Mutation'")
        given = arguments.get("input")
        if not isinstance(given, dict):
            raise GraphQLError(
                "missingRequiredArguments", f"Field '{field.name}' is missing required arguments: input"
            )
        result = {**mutate(scope, given), "clientMutationId": given.get("clientMutationId")}
        return scope.select(result, field.fields)
    return scope.select(root_query(scope, field.name, arguments), field.fields)

"""Arguments and results of the package's functions are checked while testing, array shapes among them.

Checking every call makes a training three times as slow. So in every test the first calls of a function are checked,
and one in ten of those after; `EGORECOVERY_THOROUGH=1` checks them all. A function's check is prepared when it is
first called, and what the package imports is loaded as always: preparing it all takes longer than many a test.
"""

import ast
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from beartype import beartype
from jaxtyping import jaxtyped

PACKAGE = "egorecovery"
MARK = "_checked_while_testing"
FIRST = 20  # calls of a function in a test
EVERY = 11  # of those after; odd, or of two sides in turn only one would be checked
if os.environ.get("EGORECOVERY_THOROUGH", "") not in ("", "0"):
    EVERY = 1


_calls: dict[tuple[str, str], int] = {}  # in the test under way, by function


def next_test() -> None:
    """The first calls in another test are checked again."""
    _calls.clear()


def install() -> None:
    """For every module of the package that is imported from now on."""
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        """Never from or to bytecode, which would be other programs' too."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        return compile(ast.fix_missing_locations(_Marked().visit(tree)), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[MARK] = checked
        super().exec_module(module)


class _Marked(ast.NodeTransformer):
    """Functions within all other decorators, classes around them, `dataclass` included."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        annotated = node.returns or any(argument and argument.annotation for argument in arguments)
        if annotated and not _unchecked(node):
            node.decorator_list.append(_mark(node))
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list.insert(0, _mark(node))
        return self.generic_visit(node)


def _unchecked(node: ast.FunctionDef) -> bool:
    """Kernels: Triton compiles them in the module they are written in, so nothing may be wrapped around them."""
    return any(ast.unparse(decorator).endswith("no_type_check") for decorator in node.decorator_list)


def _mark(node: ast.stmt) -> ast.expr:
    return ast.copy_location(ast.Name(MARK, ast.Load()), node)


def checked(checkable: Any) -> Any:
    if not inspect.isclass(checkable):
        return _sampled(checkable)
    if dataclasses.is_dataclass(checkable) and "__init__" in vars(checkable):
        checkable.__init__ = _sampled(checkable.__init__)
    return checkable


def _sampled(function: Callable) -> Callable:
    name = function.__module__, function.__qualname__  # the same for all that one line within a function defines
    check: Callable | None = None

    @wraps(function)
    def sampled(*args, **kwargs):
        nonlocal check
        calls = _calls[name] = _calls.get(name, 0) + 1
        if calls > FIRST and calls % EVERY:
            return function(*args, **kwargs)
        if check is None:
            check = jaxtyped(function, typechecker=beartype)
        return check(*args, **kwargs)

    return sampled

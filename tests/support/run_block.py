"""Run Python from stdin, statement by statement, with the names of modules: `python -m support.run_block MODULE…`.

`await` may stand outside of functions, as on a page of the documentation.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import sys


def main() -> None:
    """Run what is on stdin."""
    names: dict[str, object] = {}
    for module in sys.argv[1:]:
        names |= vars(importlib.import_module(module))
    loop = asyncio.new_event_loop()
    for statement in ast.parse(sys.stdin.read()).body:
        code = compile(ast.Module([statement], []), "page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            loop.run_until_complete(eval(code, names))  # noqa: S307 - the code of a page
        else:
            exec(code, names)  # noqa: S102 - likewise


if __name__ == "__main__":
    main()

"""crc32c, from the extension module of the crc32c package.

The package itself imports a command line parser and, to report its version, email and zipfile: 5 %
of a node's start-up time, and 2 MB.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

_NAME = "crc32c._crc32c"


def _extension() -> ModuleType:
    """Load the extension without importing its package, or return the loaded one.

    Where it is not a file on the path (a frozen program), the package is imported.
    """
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        return loaded
    package = PathFinder.find_spec("crc32c")
    spec = PathFinder.find_spec(_NAME, package and package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return import_module(_NAME)
    module = sys.modules[_NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crc32c: Callable[..., int] = _extension().crc32c

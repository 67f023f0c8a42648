"""crc32c, from the extension module of the package of that name.

The package itself imports the parser of a command line and, to tell its version, email and
zipfile: a twentieth of a node's start, and 2 MB.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType

_NAME = "crc32c._crc32c"


def _extension() -> ModuleType:
    """Load the extension without its package, or take the one that is there.

    Where it is not a file on the path (a frozen program), its package is imported after all.
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

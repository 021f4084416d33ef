"""Builds `memory._native`, which is C, when mitmemory is installed. Where there is no C compiler, numpy does what it does."""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

NAME = "memory._native"
SOURCES = "_native*.c"
HEADER = "_native.h"


class NativeHook(BuildHookInterface):
    """Puts the built module beside its source, where an editable installation and a wheel find it."""

    PLUGIN_NAME = "native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  # hatchling's interface
        if self.target_name != "wheel":
            return
        extension = Extension(
            NAME,
            [str(source) for source in sorted(Path(self.root, "memory").glob(SOURCES))],
            depends=[str(Path(self.root, "memory", HEADER))],
            py_limited_api=True,
            extra_compile_args=[] if os.name == "nt" else ["-O3"],
            optional=True,
        )
        command = build_ext(Distribution({"name": "mitmemory", "ext_modules": [extension]}))
        command.ensure_finalized()
        command.build_lib = self.root
        command.build_temp = str(Path(self.root, "build"))
        built = Path(command.get_ext_fullpath(NAME))
        built.unlink(missing_ok=True)  # an older one would not be known as such where building fails
        command.run()
        if not built.exists():
            print("memory._native was not built: scanning will use numpy alone, which is slower", file=sys.stderr)
            return
        build_data["artifacts"].append(f"memory/{built.name}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

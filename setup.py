"""Hands the extensions to setuptools; everything else about the package stands in pyproject.toml."""

from bolide_build import extensions
from setuptools import setup

setup(ext_modules=extensions())

"""Hands the extensions to setuptools; everything else about the package stands in pyproject.toml."""

from setuptools import setup

from bolide_build import extensions

setup(ext_modules=extensions())

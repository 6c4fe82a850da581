"""Passes the extensions to setuptools; everything else about the package is in pyproject.toml."""

from setuptools import setup

from bolide_build import extensions

setup(ext_modules=extensions())

"""Passes to setuptools what pyproject.toml cannot have: the extensions, and a README for readers without a checkout."""

from setuptools import setup

from bolide_build import extensions
from metadata import described

setup(ext_modules=extensions(), **described())
